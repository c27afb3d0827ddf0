"""The root path of a server behind a proxy that serves other applications as well."""

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
    """Return a server's root path, empty if there is none.

    Args:
        root_path: The root path; None: the path of the public URL.
        public_url: The public URL of the server.

    Raises:
        InvalidValue: The root path is not valid, or collides with a path of the server.
    """
    given = urlsplit(public_url or "").path if root_path is None else root_path
    root = given.rstrip("/")
    if root and _PREFIX.fullmatch(root) is None:
        raise InvalidValue("root_path", f"{given!r} is not a valid path such as /signoff")
    if root and root.split("/")[1] in _OWN:
        raise InvalidValue("root_path", f"{given!r} starts like a path of the server itself; choose another")
    return root


def below_root(public_url: str | None, root_path: str) -> str | None:
    """Return the base URL of links to a server: the public URL, with the root path appended if it has no path."""
    if public_url is None or urlsplit(public_url).path.strip("/"):
        return public_url
    return public_url.rstrip("/") + root_path


class RootPath:
    """Middleware that sets the root path, whether or not the proxy strips it from the paths that it passes on.

    Args:
        app: The next ASGI app.
        root_path: The root path, as ``checked_root_path`` returns it.
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
