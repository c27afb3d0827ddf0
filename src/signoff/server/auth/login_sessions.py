"""Login sessions: the secret is in a cookie; the store keeps its hash with the user's groups and roles."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Scope

from signoff.records import Token, TokenKind
from signoff.records.responders import Responder
from signoff.server.auth.authenticators import Identity
from signoff.server.auth.oidc_settings import OpenIdConnect
from signoff.stores.contract.store import Store
from signoff.stores.contract.tokens import TOUCH_SECONDS
from signoff.stores.tokens import find_token, new_token

_NAME: Final = "signoff"


class LoginSessions:
    """Authenticator for users who signed in with a browser.

    Args:
        store: The store of the sessions. Servers with the same store share them.
        settings: How long a session lasts, and whether browsers connect by https.
    """

    def __init__(self, store: Store, settings: OpenIdConnect) -> None:
        self._store = store
        self._settings = settings
        self._cookie = Cookie(_NAME, settings.is_secure)

    @property
    def cookie_name(self) -> str:
        """The name of the cookie."""
        return self._cookie.name

    async def begin(self, person: Responder, before: Scope, answer: Response) -> None:
        """Sign a user in with a new secret, and revoke the session that the request carries.

        Args:
            person: The user.
            before: The request.
            answer: The response that sets the cookie.
        """
        await self._revoke(before)
        lifetime = self._settings.lifetime_seconds
        secret, new = new_token(
            TokenKind.LOGIN,
            person.user or "",
            data=json.dumps({"groups": sorted(person.groups), "roles": sorted(person.roles)}),
            expires_at=self._store.clock.now() + lifetime,
        )
        await self._store.create_token(new)
        self._cookie.put(answer, secret, lifetime)

    async def end(self, scope: Scope, answer: Response) -> None:
        """End the session of a request, if it has one, and delete its cookie."""
        await self._revoke(scope)
        self._cookie.drop(answer)

    async def identify(self, scope: Scope) -> Identity | None:
        """Return the signed-in user. An expired or forged cookie is ignored: the user signs in again."""
        token = await self._open_token(scope)
        if token is None:
            return None
        if token.used_at is None or self._store.clock.now() - token.used_at >= TOUCH_SECONDS:
            await self._store.touch_token(token.id)
        said: Mapping[str, list[str]] = json.loads(token.data or "{}")
        user = token.subject.removeprefix("user:")
        person = Responder(user, frozenset(said["groups"]), frozenset(said["roles"]))
        return Identity(person, "login", credential=token.id)

    async def _open_token(self, scope: Scope) -> Token | None:
        secret = self._cookie.read(scope)
        token = None if secret is None else await find_token(self._store, TokenKind.LOGIN, secret)
        if token is None or token.namespace != self._store.namespace:
            return None
        now = self._store.clock.now()
        idle = now - (token.used_at or token.created_at)
        return token if token.is_open(now) and idle < self._settings.idle_seconds else None

    async def _revoke(self, scope: Scope) -> None:
        token = await self._open_token(scope)
        if token is not None:
            await self._store.revoke_token(token.id)


class Cookie:
    """A cookie for this host alone, hidden from scripts and not sent with forms of other sites.

    Args:
        name: The name, without prefix.
        is_secure: Whether browsers connect by https. Then no other host of the domain can set it (``__Host-``).
    """

    def __init__(self, name: str, is_secure: bool) -> None:
        self.name = f"__Host-{name}" if is_secure else name
        self._is_secure = is_secure

    def read(self, scope: Scope) -> str | None:
        """Return the cookie's value in a request."""
        return HTTPConnection(scope).cookies.get(self.name)

    def put(self, answer: Response, value: str, seconds: float) -> None:
        """Set the cookie for ``seconds``."""
        answer.set_cookie(
            self.name,
            value,
            max_age=int(seconds),
            path="/",
            secure=self._is_secure,
            httponly=True,
            samesite="lax",
        )

    def drop(self, answer: Response) -> None:
        """Delete the cookie."""
        self.put(answer, "", 0)
