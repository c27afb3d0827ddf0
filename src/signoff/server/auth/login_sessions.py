"""Who is signed in: a secret in a cookie, of which the store keeps the hash, and what the provider said of them."""

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


class Logins:
    """Everybody who is signed in; a way to say whose request it is.

    Args:
        store: Where they are kept. Servers of one store share them.
        settings: How long somebody stays signed in, and whether browsers come by https.
    """

    def __init__(self, store: Store, settings: OpenIdConnect) -> None:
        self._store = store
        self._settings = settings
        self._cookie = Cookie(_NAME, settings.is_secure)

    @property
    def cookie_name(self) -> str:
        """What browsers call the cookie."""
        return self._cookie.name

    async def begin(self, person: Responder, before: Scope, answer: Response) -> None:
        """Sign somebody in, with a new secret: what was in the cookie before opens nothing any more.

        Args:
            person: Who.
            before: The request that they come with.
            answer: What gets the cookie.
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
        """Sign out whoever sends a request, if anybody."""
        await self._revoke(scope)
        self._cookie.drop(answer)

    async def identify(self, scope: Scope) -> Identity | None:
        """Return who is signed in. A cookie that is old or forged says nothing: they sign in again."""
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
    """A cookie of this host alone, which no script reads and no other site's form sends.

    Args:
        name: What it is called.
        is_secure: Whether browsers come by https. Then no other host of the domain can set it (``__Host-``).
    """

    def __init__(self, name: str, is_secure: bool) -> None:
        self.name = f"__Host-{name}" if is_secure else name
        self._is_secure = is_secure

    def read(self, scope: Scope) -> str | None:
        """Return what a request says in it."""
        return HTTPConnection(scope).cookies.get(self.name)

    def put(self, answer: Response, value: str, seconds: float) -> None:
        """Have a browser keep it for a while."""
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
        """Have a browser forget it."""
        self.put(answer, "", 0)
