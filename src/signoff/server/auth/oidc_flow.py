"""Sign-in through an identity provider (OpenID Connect authorization code flow)."""

from __future__ import annotations

import hmac
import json
import re
import secrets
from html import escape
from typing import Final

from fastapi import Request
from starlette.responses import RedirectResponse, Response

from signoff.errors import InvalidValue, LoginFailed, ProviderUnavailable
from signoff.server.auth.login_sessions import Cookie, LoginSessions
from signoff.server.auth.oidc_settings import OpenIdConnect
from signoff.server.http.problems import problem
from signoff.stores.contract.store import Store

BEGUN_SECONDS: Final = 600.0
"""How long a user may take to sign in at the provider."""
_LONGEST_NEXT: Final = 2000  # characters: it travels in a cookie

_HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class OidcFlow:
    """Redirects users to the provider and signs them in when they return.

    Args:
        store: The store of the login sessions.
        settings: The provider and how to use it.

    Attributes:
        logins: The login sessions.
        provider: The client of the provider.
        settings: As given.
    """

    def __init__(self, store: Store, settings: OpenIdConnect) -> None:
        try:
            from signoff.server.auth.oidc_provider import Provider
        except ModuleNotFoundError:
            hint = "OpenID Connect needs the extra `oidc`: pip install 'signoff[oidc]'"
            raise InvalidValue("openid", hint) from None

        self.logins = LoginSessions(store, settings)
        self.provider = Provider(settings, store.clock)
        self.settings = settings
        self._clock = store.clock
        self._begun = Cookie("signoff-login", settings.is_secure)
        # servers that share the client secret accept each other's cookies
        own = settings.client_secret or secrets.token_urlsafe(32)
        self._key = hmac.digest(own.encode(), b"signoff: who has begun to sign in", "sha256")

    async def begin(self, back_to: str) -> Response:
        """Return a redirect to the provider. Raises ProviderUnavailable."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        answer = RedirectResponse(await self.provider.login_url(state, nonce, verifier), 303, _HEADERS)
        begun = [state, nonce, verifier, back_to, self._clock.now() + BEGUN_SECONDS]
        self._begun.put(answer, self._sealed(json.dumps(begun)), BEGUN_SECONDS)
        return answer

    async def finish(self, request: Request) -> Response:
        """Sign in a user whom the provider sent back. Raises LoginFailed, ProviderUnavailable."""
        state, nonce, verifier, back_to = self._read_begun(request)
        said = request.query_params
        if not hmac.compare_digest(said.get("state", "").encode(), state.encode()):
            raise LoginFailed("the provider's response belongs to another attempt, perhaps in another tab")
        await self.provider.check_sender(said.get("iss"))
        if "error" in said:
            raise LoginFailed(f"the provider reports {said['error'][:100]!r}")
        if not said.get("code"):
            raise LoginFailed("the provider sent no code")
        claims = await self.provider.redeem(said["code"], verifier, nonce)
        answer = RedirectResponse(back_to, 303, _HEADERS)
        await self.logins.begin(self.settings.person_of(claims), request.scope, answer)
        self._begun.drop(answer)
        return answer

    async def close(self) -> None:
        """Close the connections to the provider."""
        await self.provider.close()

    def failed(self, request: Request, error: LoginFailed | ProviderUnavailable) -> Response:
        """Return the error as a page for browsers, or as a problem for programs."""
        refusal = problem(error)
        if "text/html" not in request.headers.get("accept", ""):
            return refusal
        answer = page("Not signed in", str(error), refusal.status_code, request.scope.get("root_path", ""))
        if "retry-after" in refusal.headers:
            answer.headers["retry-after"] = refusal.headers["retry-after"]
        return answer

    # The state of an attempt, in a cookie: not secret from the user, but signed so that it cannot be forged

    def _sealed(self, text: str) -> str:
        return f"{text.encode().hex()}.{hmac.new(self._key, text.encode(), 'sha256').hexdigest()}"

    def _read_begun(self, request: Request) -> tuple[str, str, str, str]:
        """Raises LoginFailed."""
        written, _, mac = (self._begun.read(request.scope) or "").partition(".")
        try:
            text = bytes.fromhex(written).decode()
        except ValueError:
            text = ""
        if not hmac.compare_digest(self._sealed(text).rpartition(".")[2].encode(), mac.encode()):
            raise LoginFailed("this browser has not started to sign in, or has finished already")
        state, nonce, verifier, back_to, until = json.loads(text)
        if self._clock.now() >= until:
            raise LoginFailed("it took too long")
        return state, nonce, verifier, back_to


def own_path(next: str, root: str) -> str:
    """Return the path to open after signing in: ``next``, or the first page if ``next`` could lead to another site.

    Browsers read a backslash as a slash and drop tabs and line breaks, so ``/\\evil.example`` is another site.
    """
    leads_here = re.fullmatch(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]*", next) is not None
    is_below = next.startswith(f"{root}/")
    return next if leads_here and is_below and len(next) <= _LONGEST_NEXT else f"{root}/"


def page(title: str, text: str, status: int, root: str) -> Response:
    """Return a short page with a sign-in link below the server's root path."""
    html = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><main><h1>{escape(title)}</h1><p>{escape(text)}</p>"
        f'<p><a href="{escape(root)}/login">Sign in</a></p></main></html>'
    )
    return Response(html, status, _HEADERS, media_type="text/html")
