"""Stored keys of services and workers: creates, lists, rotates and revokes them."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from signoff.errors import InvalidState, InvalidValue, NotFound
from signoff.records import Token, TokenKind
from signoff.records.names import check_part, check_user
from signoff.records.paging import Page, TokenFilter
from signoff.records.responders import SERVICE
from signoff.server.auth.roles import Role
from signoff.stores.contract.store import Store
from signoff.stores.tokens import new_token

GRACE_SECONDS: Final = 86400.0
"""How long a rotated key stays valid."""
LONGEST_SECONDS: Final = 10 * 366 * 86400.0
_KINDS: Final = (TokenKind.API_KEY, TokenKind.WORKER_KEY)


@dataclass(frozen=True)
class KeyScope:
    """The access that a key grants.

    Attributes:
        roles: The roles of a service; empty for a worker.
        groups: The groups that a service may start runs in, or whose runs a worker may execute; None: all.
        act_as: Whether a service may name the user it acts for.
    """

    roles: frozenset[Role] = frozenset()
    groups: frozenset[str] | None = None
    act_as: bool = False

    @classmethod
    def of(cls, token: Token) -> KeyScope:
        """Return the scope of a token. Roles that this version does not know are ignored."""
        data: dict[str, Any] = json.loads(token.data or "{}")
        known = {role.value: role for role in Role}
        groups = data.get("groups")
        return cls(
            frozenset(known[name] for name in data.get("roles", ()) if name in known),
            None if groups is None else frozenset(groups),
            data.get("act_as") is True,
        )

    def to_json(self) -> str:
        """Return it as a token's JSON data."""
        return json.dumps(
            {
                "roles": sorted(role.value for role in self.roles),
                "act_as": self.act_as,
                **({} if self.groups is None else {"groups": sorted(self.groups)}),
            }
        )


class StoredKeys:
    """The keys of services and workers of one namespace.

    Args:
        store: An open store, bound to the namespace.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def create_for_service(
        self,
        name: str,
        roles: Collection[Role],
        *,
        start_groups: Collection[str] | None = None,
        act_as: bool = False,
        lifetime_seconds: float | None = None,
        created_by: str | None = None,
    ) -> tuple[str, Token]:
        """Create an API key.

        Args:
            name: The name of the service, which is then known as ``service:NAME``.
            roles: Its roles.
            start_groups: The groups that it may start runs in; None: all.
            act_as: Whether it may name the user it acts for.
            lifetime_seconds: How long the key is valid; None: until it is revoked.
            created_by: The user who creates it.

        Returns:
            The secret, which is returned this once, and its token.

        Raises:
            InvalidValue: A name or the lifetime is not valid, or the roles or groups are empty.
        """
        check_user("name", SERVICE + check_part("name", name))
        if not roles:
            raise InvalidValue("roles", f"a key needs one of {', '.join(role.value for role in Role)}")
        scope = KeyScope(frozenset(roles), _groups("start_groups", start_groups), act_as)
        return await self._create(TokenKind.API_KEY, SERVICE + name, scope, lifetime_seconds, created_by)

    async def create_for_worker(
        self,
        name: str,
        *,
        groups: Collection[str] | None = None,
        lifetime_seconds: float | None = None,
        created_by: str | None = None,
    ) -> tuple[str, Token]:
        """Create a worker key.

        Args:
            name: Its name.
            groups: The groups whose runs its workers may execute; None: all.
            lifetime_seconds: How long the key is valid; None: until it is revoked.
            created_by: The user who creates it.

        Returns:
            The secret, which is returned this once, and its token.

        Raises:
            InvalidValue: A name or the lifetime is not valid, or the groups are empty.
        """
        scope = KeyScope(groups=_groups("groups", groups))
        subject = check_part("name", name)
        return await self._create(TokenKind.WORKER_KEY, subject, scope, lifetime_seconds, created_by)

    async def list_keys(self, kind: TokenKind, *, after: str | None = None, limit: int = 100) -> Page[Token]:
        """List keys of services (``API_KEY``) or workers (``WORKER_KEY``), oldest first, ended ones included."""
        return await self._store.list_tokens(TokenFilter(kind), after=after, limit=limit)

    async def rotate(
        self, key_id: str, *, grace_seconds: float = GRACE_SECONDS, created_by: str | None = None
    ) -> tuple[str, Token]:
        """Create another key with the same scope and lifetime, and let the old one expire.

        Args:
            key_id: The old key.
            grace_seconds: How long the old key stays valid.
            created_by: The user who rotates it.

        Returns:
            The new secret and its token.

        Raises:
            NotFound: There is no such key.
            InvalidState: The key has expired or was revoked.
            InvalidValue: ``grace_seconds`` is not valid.
        """
        if not 0 <= grace_seconds <= LONGEST_SECONDS:
            raise InvalidValue(
                "grace_seconds", f"{grace_seconds} is not a number of seconds from 0 to ten years"
            )
        old = await self._get(key_id)
        now = self._store.clock.now()
        if not old.is_open(now):
            state = "expired" if old.revoked_at is None else "revoked"
            raise InvalidState(key_id, state, "rotate")
        lifetime = None if old.expires_at is None else old.expires_at - old.created_at
        made = await self._create(old.kind, old.subject, KeyScope.of(old), lifetime, created_by)
        await self._store.expire_token(old.id, now + grace_seconds)
        return made

    async def revoke(self, key_id: str) -> Token:
        """Revoke a key. Raises NotFound."""
        return await self._store.revoke_token((await self._get(key_id)).id)

    async def _get(self, key_id: str) -> Token:
        token = await self._store.get_token(key_id)
        if token.kind not in _KINDS:
            raise NotFound("key", key_id)
        return token

    async def _create(
        self,
        kind: TokenKind,
        subject: str,
        scope: KeyScope,
        lifetime_seconds: float | None,
        created_by: str | None,
    ) -> tuple[str, Token]:
        if lifetime_seconds is not None and not 0 < lifetime_seconds <= LONGEST_SECONDS:
            raise InvalidValue(
                "lifetime_seconds",
                f"{lifetime_seconds} is not a number of seconds above 0, up to ten years",
            )
        expires_at = None if lifetime_seconds is None else self._store.clock.now() + lifetime_seconds
        secret, new = new_token(
            kind, subject, data=scope.to_json(), created_by=created_by, expires_at=expires_at
        )
        return secret, await self._store.create_token(new)


def key_to_wire(token: Token) -> dict[str, Any]:
    """Return a key's public data as plain JSON data."""
    scope = KeyScope.of(token)
    members: dict[str, Any] = {
        "id": token.id,
        "kind": "service" if token.kind is TokenKind.API_KEY else "worker",
        "name": token.subject.removeprefix(SERVICE),
        "namespace": token.namespace,
        "roles": sorted(role.value for role in scope.roles),
        "groups": None if scope.groups is None else sorted(scope.groups),
        "act_as": scope.act_as,
    }
    times = ("created_at", "created_by", "expires_at", "revoked_at", "used_at")
    return {**members, **{name: getattr(token, name) for name in times}}


def _groups(path: str, groups: Collection[str] | None) -> frozenset[str] | None:
    if groups is None:
        return None
    if not groups:
        raise InvalidValue(path, "name a group, or leave it out for all")
    return frozenset(check_part(path, group) for group in groups)
