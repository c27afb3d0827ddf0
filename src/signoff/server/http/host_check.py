"""Refuses requests that another site's page can make a browser send, by DNS rebinding or with a form.

Also bodies that another program may read differently: compressed ones, and those with two lengths.
"""

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
_PLAIN = frozenset({"", "identity"})
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change no data."""


class HostCheck:
    """Refuses requests with a foreign ``Host``, writes from other sites, and bodies that are not plain JSON.

    Args:
        app: The next ASGI app.
        allowed_hosts: Names besides the local ones, without ports.
        forms: Prefixes of paths that take forms from any origin. Their routes authenticate the sender by a secret in
            the path or a signature. Browsers send no origin from a page with the policy ``no-referrer``.
        hooks: Prefixes of paths that take any body from any origin, likewise.
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
                response = problem(*refusal)
                if (
                    refusal[1] == 400
                ):  # where this body ends is disputed, and so where the next request begins
                    response.headers["connection"] = "close"
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, method: str, path: str, headers: Headers) -> tuple[InvalidValue, int] | None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._allows(hosts[0]):
            named = ", ".join(hosts) or "nothing"
            return InvalidValue(
                "Host",
                f"this server has no host name {named!r}; allow it with signoff server --allow-host",
            ), 421
        is_chunked = "transfer-encoding" in headers
        if is_chunked and "content-length" in headers:
            return InvalidValue("Content-Length", "a body has it or Transfer-Encoding, not both"), 400
        has_body = is_chunked or headers.get("content-length", "0") != "0"
        if has_body and not _PLAIN.issuperset(map(str.lower, headers.getlist("content-encoding"))):
            return InvalidValue("Content-Encoding", "a body must not be compressed"), 415
        if method in SAFE or path.startswith(self._hooks):
            return None
        takes_forms = path.startswith(self._forms)
        for origin in [] if takes_forms else headers.getlist("origin"):
            if not self._may_write(origin, hosts[0]):
                return InvalidValue(
                    "Origin",
                    f"pages of {origin!r} may not write to {hosts[0]!r}; let the proxy pass on Host, allow this "
                    "server's public name with --allow-host, or allow the other site with --allow-origin",
                ), 403
        needed = "application/x-www-form-urlencoded" if takes_forms else "application/json"
        if has_body and headers.get("content-type", "").partition(";")[0].strip().lower() != needed:
            return InvalidValue("Content-Type", f"a body must be {needed}"), 415
        return None

    def _allows(self, host: str) -> bool:
        return host_of(host) in self._allowed

    def _may_write(self, origin: str, host: str) -> bool:
        """Whether a page may write. Another port of this machine is another program, and so another site."""
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
    """Return a host as it is written in a URL: an IPv6 address gets brackets."""
    host = host.lower()
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
