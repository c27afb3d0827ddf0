"""Lets in whom a trusted proxy names, as far as their roles go."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from signoff.errors import AccessDenied, NotAuthenticated
from signoff.server.actors import Actor
from signoff.server.hosts import LOCAL, SAFE, bracketed, host_of, netloc_of, route_path
from signoff.server.identity import TrustedProxy
from signoff.server.problems import problem
from signoff.server.rights import reach_of, rights_on


class Guard:
    """Lets a request pass if its person may send it; before anybody reads its body.

    Args:
        app: What comes next.
        proxy: What says who people are.
        allowed_hosts: Names of the server besides the local ones.
    """

    def __init__(self, app: ASGIApp, proxy: TrustedProxy, allowed_hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._proxy = proxy
        self._names = frozenset(map(bracketed, allowed_hosts)) - frozenset(LOCAL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                scope["signoff.actor"] = self._actor(scope)
            except (NotAuthenticated, AccessDenied) as refusal:
                await problem(refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _actor(self, scope: Scope) -> Actor:
        """Raises NotAuthenticated, AccessDenied."""
        method, path = scope["method"], route_path(scope)
        rights = rights_on(method, path)
        if rights is None:
            return Actor()
        person = self._proxy.person_of(scope)
        if method not in SAFE:
            self._check_site(Headers(scope=scope))
        reach = reach_of(person.roles, rights)
        if reach is None:
            needed = ", ".join(sorted(role.value for role in rights)) or "no role there is"
            raise AccessDenied(
                f"{method} {path}", f"{person.user_id!r} has no role that may; it needs: {needed}"
            )
        return Actor(person, reach)

    def _check_site(self, headers: Headers) -> None:
        """Refuse what a page of another site sends with the cookies that people have for the proxy.

        Raises:
            AccessDenied: The browser says that a page of elsewhere sends it. Programs say nothing of the sort.
        """
        for site in headers.getlist("sec-fetch-site"):
            if site not in ("same-origin", "none"):
                raise AccessDenied("a write from another page", f"the browser says Sec-Fetch-Site: {site}")
        for origin in headers.getlist("origin"):
            netloc = netloc_of(origin)
            if netloc != headers["host"].lower() and host_of(netloc) not in self._names:
                raise AccessDenied(
                    f"a write from a page of {origin!r}",
                    f"this is {headers['host']!r}; have the proxy pass on Host, or --allow-host what people call it",
                )
