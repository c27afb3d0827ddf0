"""Authenticates requests and checks roles."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from signoff.errors import AccessDenied, NotAuthenticated, SignoffError, TooManyRequests
from signoff.runtime.clock import Clock
from signoff.server.auth.actors import UNAUTHENTICATED, Actor
from signoff.server.auth.authenticators import RECHECK_SECONDS, Authenticators, Identity
from signoff.server.auth.role_refusals import keep_refusal
from signoff.server.auth.roles import Rights, never_open, path_of, reach_of, rights_on
from signoff.server.http.host_check import SAFE
from signoff.server.http.problems import problem
from signoff.server.mcp.request import KEY as MCP
from signoff.server.mcp.request import PATH as MCP_PATH
from signoff.server.mcp.request import McpRequest

LATE_SECONDS: Final = 1.0
"""A read that took longer is answered only if its sender is still authenticated."""
NOT_KEPT: Final = {"cache-control": "no-store"}


class AuthMiddleware:
    """Middleware that authenticates each request and checks its role before the body is read.

    Args:
        app: The next ASGI app.
        authenticators: Authenticate requests.
        clock: The clock for repeated checks of streams.
        login_path: The path that browsers without a login are redirected to; None: they get an error.
        metadata_url: The URL that MCP clients find the identity provider by; None: there is none.
        allowed_origins: Other sites whose pages may write.
        forms: Path prefixes whose forms may come from pages of any site. Their routes authenticate the sender.
    """

    def __init__(
        self,
        app: ASGIApp,
        authenticators: Authenticators,
        clock: Clock,
        login_path: str | None = None,
        metadata_url: str | None = None,
        allowed_origins: Collection[str] = (),
        forms: tuple[str, ...] = (),
    ) -> None:
        self._app = app
        self._origins = allowed_origins
        self._forms = forms
        self._authenticators = authenticators
        self._clock = clock
        self._login_path = login_path
        self._metadata_url = metadata_url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            scope["signoff.actor"] = actor = await self._actor(scope)
        except SignoffError as refusal:
            await self._refused(scope, refusal)(scope, receive, send)
            return
        if actor.identity is None:
            await self._app(scope, receive, send)
        else:
            await self._stream(scope, receive, send, actor.identity)

    async def _stream(self, scope: Scope, receive: Receive, send: Send, identity: Identity) -> None:
        """Pass a request on. End its response, or refuse it late, once its sender is no longer authenticated."""
        checked_at = self._clock.now()
        ended = False

        async def send_while_known(message: Message) -> None:
            nonlocal checked_at, ended
            waited = message["type"] == "http.response.start" and scope["method"] in SAFE
            if waited and self._clock.now() - checked_at >= LATE_SECONDS:
                checked_at = self._clock.now()
                if ended := not await self._is_still(scope, identity):
                    await self._refused(
                        scope, NotAuthenticated("the key or login ended while the request waited")
                    )(scope, receive, send)
                    raise ConnectionAbortedError("the sender is no longer authenticated")
            goes_on = message["type"] == "http.response.body" and message.get("more_body", False)
            if goes_on and self._clock.now() - checked_at >= RECHECK_SECONDS:
                checked_at = self._clock.now()
                ended = not await self._is_still(scope, identity)
            if ended:
                await send({"type": "http.response.body"})
                raise ConnectionAbortedError("the stream's reader is no longer authenticated")
            await send(message)

        try:
            await self._app(scope, receive, send_while_known)
        except Exception:
            if not ended:
                raise

    async def _is_still(self, scope: Scope, identity: Identity) -> bool:
        try:
            return await self._authenticators.identify(scope) == identity
        except (NotAuthenticated, TooManyRequests):
            return False

    async def _actor(self, scope: Scope) -> Actor:
        """Return the actor. Raises NotAuthenticated, AccessDenied, TooManyRequests, and errors of the store."""
        mcp: McpRequest | None = scope.get(MCP)
        if mcp is not None and mcp.local is not None:
            return Actor(mcp=mcp)
        return replace(await self._known(scope), mcp=mcp)

    async def _known(self, scope: Scope) -> Actor:
        method, path = scope["method"], path_of(scope)
        rights = rights_on(method, path)
        identity = None if rights is None else await self._authenticators.identify(scope)
        if identity is None and not (
            self._authenticators.required if rights is None else await self._authenticators.look()
        ):
            if rights is not None and never_open(path):
                raise NotAuthenticated(
                    "keys and the audit trail need a key even on this open server; create one on the machine with the "
                    "database (signoff keys create NAME --role admin), after which every request needs a key"
                )
            return UNAUTHENTICATED
        if identity is None and rights is not None:
            raise NotAuthenticated("sign in, or send an API key")
        if method not in SAFE and not path.startswith(self._forms):
            self._check_site(Headers(scope=scope))
        if identity is None or rights is None:
            return UNAUTHENTICATED
        try:
            return self._allowed(identity, rights, f"{method} {path}")
        except AccessDenied as refusal:
            await keep_refusal(scope, identity, refusal)
            raise

    def _allowed(self, identity: Identity, rights: Rights, what: str) -> Actor:
        reach = reach_of(identity.person.roles, rights)
        if reach is None:
            needed = ", ".join(sorted(role.value for role in rights)) or "there is none"
            raise AccessDenied(what, f"{identity.person.user_id!r} needs a role with access: {needed}")
        return Actor(identity, reach)

    def _refused(self, scope: Scope, refusal: SignoffError) -> Response:
        if not isinstance(refusal, NotAuthenticated):
            return problem(refusal)
        if self._login_path is not None and _is_page(scope):
            root = scope.get("root_path", "")
            back = (
                root
                + path_of(scope)
                + (f"?{query.decode('latin-1')}" if (query := scope["query_string"]) else "")
            )
            return RedirectResponse(f"{root}{self._login_path}?next={quote(back, safe='')}", 303, NOT_KEPT)
        answer = problem(refusal)
        is_mcp = self._metadata_url is not None and path_of(scope) == MCP_PATH
        found_by = f' resource_metadata="{self._metadata_url}"' if is_mcp else ""
        answer.headers["www-authenticate"] = f"Bearer{found_by}"
        return answer

    def _check_site(self, headers: Headers) -> None:
        """Refuse requests that a page of another site sends with a user's cookies for the proxy.

        Raises:
            AccessDenied: The browser reports another site. Programs other than browsers do not send these headers.
        """
        if (origins := headers.getlist("origin")) and all(origin in self._origins for origin in origins):
            return
        for site in headers.getlist("sec-fetch-site"):
            if site not in ("same-origin", "none"):
                raise AccessDenied("a write from another page", f"the browser says Sec-Fetch-Site: {site}")


def _is_page(scope: Scope) -> bool:
    """Whether a browser requests a page."""
    return scope["method"] == "GET" and "text/html" in Headers(scope=scope).get("accept", "")
