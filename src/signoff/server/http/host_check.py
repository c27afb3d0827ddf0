"""Refusing what a web page of another site can make a browser send: by DNS rebinding, or by a form."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from signoff.errors import InvalidValue
from signoff.server.auth.roles import path_of
from signoff.server.http.problems import problem
from signoff.wire.public_url import host_of

LOCAL = ("localhost", "127.0.0.1", "[::1]")

_PORTS = {"http": ":80", "https": ":443"}
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""


class HostCheck:
    """Lets a request pass if its ``Host`` is this server's, it comes from no other site, and its body is JSON.

    Args:
        app: What comes next.
        allowed_hosts: Names besides the local ones, without ports.
        forms: How paths begin that take forms, of whatever origin: their routes see to who sends them, by a secret in
            the path or a signature, and browsers say no origin of a page that lets no address be told.
        hooks: Likewise, of paths that take any body.
        allowed_origins: Other sites whose pages may write.
    """

    def __init__(
        self,
        app: ASGIApp,
        allowed_hosts: Iterable[str] = (),
        forms: tuple[str, ...] = (),
        hooks: tuple[str, ...] = (),
        allowed_origins: Collection[str] = (),
    ) -> None:
        self._app = app
        self._origins = allowed_origins
        self._forms = forms
        self._hooks = hooks
        self._names = frozenset(map(bracketed, allowed_hosts)) - frozenset(LOCAL)
        self._allowed = self._names | frozenset(LOCAL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            refusal = self._refusal(scope["method"], path_of(scope), Headers(scope=scope))
            if refusal is not None:
                await problem(*refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, method: str, path: str, headers: Headers) -> tuple[InvalidValue, int] | None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._allows(hosts[0]):
            named = ", ".join(hosts) or "nothing"
            return InvalidValue(
                "Host",
                f"this server does not go by {named!r}; start it with that name: signoff server --allow-host",
            ), 421
        if method in SAFE or path.startswith(self._hooks):
            return None
        takes_forms = path.startswith(self._forms)
        for origin in [] if takes_forms else headers.getlist("origin"):
            if not self._may_write(origin, hosts[0]):
                return InvalidValue(
                    "Origin",
                    f"pages of {origin!r} may not write here, which is {hosts[0]!r}; have a proxy pass on Host, or "
                    "name what people call this server with --allow-host, or another site with --allow-origin",
                ), 403
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        needed = "application/x-www-form-urlencoded" if takes_forms else "application/json"
        if has_body and headers.get("content-type", "").partition(";")[0].strip().lower() != needed:
            return InvalidValue("Content-Type", f"a body must be {needed}"), 415
        return None

    def _allows(self, host: str) -> bool:
        return host_of(host) in self._allowed

    def _may_write(self, origin: str, host: str) -> bool:
        """Whether a page is this server's own. Another port of this machine is another program, so another site."""
        if origin in self._origins:
            return True
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        port = _PORTS.get(parts.scheme, "")
        same = parts.netloc.lower().removesuffix(port) == host.lower().removesuffix(port)
        return same or host_of(parts.netloc) in self._names


def bracketed(host: str) -> str:
    """Write a host as it stands in a URL."""
    host = host.lower()
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
