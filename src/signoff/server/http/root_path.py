"""The path under which people reach a server, behind a proxy that serves other things beside it."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from signoff.errors import InvalidValue
from signoff.server.auth.roles import RIGHTS

_PREFIX: Final = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+")
_OWN: Final = frozenset(path.split("/")[1] for _, path in RIGHTS)


def checked_root_path(root_path: str | None, public_url: str | None) -> str:
    """Return the path before all paths of a server, empty if there is none.

    Args:
        root_path: What it is; None: the path of the public URL.
        public_url: Where people reach the server.

    Raises:
        InvalidValue: It is no path, or begins like a path of the server itself.
    """
    given = urlsplit(public_url or "").path if root_path is None else root_path
    root = given.rstrip("/")
    if root and _PREFIX.fullmatch(root) is None:
        raise InvalidValue("root_path", f"{given!r} is not written as /signoff")
    if root and root.split("/")[1] in _OWN:
        raise InvalidValue("root_path", f"{given!r} begins like a path of the server itself; choose another")
    return root


def below_root(public_url: str | None, root_path: str) -> str | None:
    """Return where links to a server begin: a public URL without a path is completed by the root path."""
    if public_url is None or urlsplit(public_url).path.strip("/"):
        return public_url
    return public_url.rstrip("/") + root_path


class Prefix:
    """Has an app know its prefix, whether the proxy takes it off the paths that it passes on or leaves it.

    Args:
        app: What comes next.
        root_path: The prefix, as ``checked_root_path`` returns it.
    """

    def __init__(self, app: ASGIApp, root_path: str) -> None:
        self._app = app
        self._root = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            root = self._root
            scope["root_path"] = root
            if not f"{scope['path']}/".startswith(f"{root}/"):
                scope["path"] = root + scope["path"]
                scope["raw_path"] = root.encode() + scope["raw_path"]
        await self._app(scope, receive, send)
