"""Refusing what a web page of another site can make a browser send: by DNS rebinding, or by a form."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from signoff.errors import InvalidValue
from signoff.server.problems import problem
from signoff.server.rights import path_of

LOCAL = ("localhost", "127.0.0.1", "[::1]")

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:/?#@\[\]]+)(:[0-9]*)?")
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""


class HostCheck:
    """Lets a request pass if its ``Host`` is this server's, it comes from no other site, and its body is JSON.

    Args:
        app: What comes next.
        allowed_hosts: Names besides the local ones, without ports.
        forms: How paths begin that take forms, of whatever origin: their routes see to who sends them, by a secret in
            the path or a signature, and browsers say no origin of a page that lets no address be told.
        allowed_origins: Other sites whose pages may write.
    """

    def __init__(
        self,
        app: ASGIApp,
        allowed_hosts: Iterable[str] = (),
        forms: tuple[str, ...] = (),
        allowed_origins: Collection[str] = (),
    ) -> None:
        self._app = app
        self._origins = allowed_origins
        self._forms = forms
        self._allowed = frozenset((*LOCAL, *map(bracketed, allowed_hosts)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            takes_forms = path_of(scope).startswith(self._forms)
            refusal = self._refusal(scope["method"], Headers(scope=scope), takes_forms)
            if refusal is not None:
                await problem(*refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, method: str, headers: Headers, takes_forms: bool) -> tuple[InvalidValue, int] | None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._allows(hosts[0]):
            named = ", ".join(hosts) or "nothing"
            return InvalidValue(
                "Host",
                f"this server does not go by {named!r}; start it with that name: signoff server --allow-host",
            ), 421
        if method in SAFE:
            return None
        origin = headers.get("origin")
        if (
            origin is not None
            and origin not in self._origins
            and not takes_forms
            and not self._allows(netloc_of(origin))
        ):
            return InvalidValue("Origin", f"pages of {origin!r} may not write here"), 403
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        needed = "application/x-www-form-urlencoded" if takes_forms else "application/json"
        if has_body and headers.get("content-type", "").partition(";")[0].strip().lower() != needed:
            return InvalidValue("Content-Type", f"a body must be {needed}"), 415
        return None

    def _allows(self, host: str) -> bool:
        return host_of(host) in self._allowed


def netloc_of(origin: str) -> str:
    """Return the host and the port of an ``Origin``, or "" if it names none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def checked_public_url(url: str) -> tuple[str, str]:
    """Return where people reach a server, and the host in it. Raises InvalidValue."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    host = host_of(parts.netloc)
    if parts.scheme not in ("http", "https") or host is None or parts.query or parts.fragment:
        raise InvalidValue("public_url", f"{url!r} is not written as https://signoff.example.com")
    return url.rstrip("/"), host


def host_of(netloc: str) -> str | None:
    """Return the name of a host without its port, or None if it is none."""
    match = _HOST.fullmatch(netloc.lower())
    return None if match is None else match[1]


def bracketed(host: str) -> str:
    """Write a host as it stands in a URL."""
    host = host.lower()
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
