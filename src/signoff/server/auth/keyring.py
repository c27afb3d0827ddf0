"""The keys that a server accepts: stored keys of services and workers, and the keys of its key file."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Scope

from signoff.errors import NotAuthenticated
from signoff.records import Token, TokenKind
from signoff.records.responders import Responder
from signoff.server.auth.authenticators import Identity
from signoff.server.auth.key_file import WorkerKey, WorkerKeys
from signoff.server.auth.stored_keys import KeyScope
from signoff.server.limits.wrong_secrets import WrongSecretLimit
from signoff.stores.contract.store import Store
from signoff.stores.contract.tokens import TOUCH_SECONDS
from signoff.stores.tokens import PREFIXES, find_token


class Keyring:
    """Authenticator for API keys, and lookup of worker keys.

    Args:
        store: The store of the keys. Each key names its own namespace.
        from_file: The worker keys that the server was started with.
        wrong: Limits wrong keys.
    """

    def __init__(self, store: Store, from_file: WorkerKeys, wrong: WrongSecretLimit) -> None:
        self._store = store
        self._from_file = from_file
        self._wrong = wrong

    async def has_key(self) -> bool:
        """Return whether the database has a valid key of a service or a worker, in any namespace."""
        return await self._store.has_token([TokenKind.API_KEY, TokenKind.WORKER_KEY])

    async def identify(self, scope: Scope) -> Identity | None:
        """Return the service whose API key a request carries; None without one.

        Raises:
            NotAuthenticated: The key is unknown, expired, revoked or a worker key.
            TooManyRequests: The client has sent too many wrong keys.
        """
        secret = bearer_of(scope)
        if secret is None or not secret.startswith(
            (PREFIXES[TokenKind.API_KEY], PREFIXES[TokenKind.WORKER_KEY])
        ):
            return None  # a proxy may forward a bearer token of another kind
        token = await self._open(TokenKind.API_KEY, secret, scope)
        if token is None:
            raise NotAuthenticated("this API key is unknown, expired or revoked")
        scoped = KeyScope.of(token)
        roles = frozenset(role.value for role in scoped.roles)
        service = Responder(token.subject, roles=roles)
        return Identity(service, "key", token.namespace, scoped.groups, scoped.act_as, token.id)

    async def worker_key(self, secret: str, scope: Scope) -> WorkerKey | None:
        """Return the worker key of a secret, or None if it is not valid. Raises TooManyRequests."""
        found = self._from_file.find(secret)
        if found is not None:
            return found
        own = self._from_file.find_own(secret)
        if own is not None and await find_token(self._store, TokenKind.WORKER_KEY, secret) is None:
            return own  # the database does not know the key, so it neither limits nor revokes it
        token = await self._open(TokenKind.WORKER_KEY, secret, scope)
        if token is None:
            return None
        return WorkerKey(token.hash, token.namespace, KeyScope.of(token).groups, token.id, token.subject)

    async def _open(self, kind: TokenKind, secret: str, scope: Scope) -> Token | None:
        """Return the token of a secret if it is valid now. Raises TooManyRequests, but never for a valid secret."""
        token = await find_token(self._store, kind, secret)
        now = self._store.clock.now()
        if token is None or not token.is_open(now):
            self._wrong.note(scope)
            return None
        if token.used_at is None or now - token.used_at >= TOUCH_SECONDS:
            await self._store.within(token.namespace).touch_token(token.id)
        return token


def bearer_of(scope: Scope) -> str | None:
    """Return the bearer token of a request; None without one, or with two, which is ambiguous."""
    said = Headers(scope=scope).getlist("authorization")
    scheme, _, secret = (said[0] if len(said) == 1 else "").partition(" ")
    return (secret.strip() or None) if scheme.lower() == "bearer" else None
