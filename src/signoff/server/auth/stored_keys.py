"""Keys that the store keeps: making, listing, rotating and revoking them while servers run."""

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
"""How long a key that is rotated goes on to open what it opened."""
LONGEST_SECONDS: Final = 10 * 366 * 86400.0
_KINDS: Final = (TokenKind.API_KEY, TokenKind.WORKER_KEY)


@dataclass(frozen=True)
class KeyScope:
    """What a key opens.

    Attributes:
        roles: What a service may do; a worker has none.
        groups: The groups that a service starts runs in, or whose runs a worker works on; None: all.
        act_as: Whether a service may say for which person it acts.
    """

    roles: frozenset[Role] = frozenset()
    groups: frozenset[str] | None = None
    act_as: bool = False

    @classmethod
    def of(cls, token: Token) -> KeyScope:
        """Read what a token opens. A role that this version does not know opens nothing."""
        data: dict[str, Any] = json.loads(token.data or "{}")
        known = {role.value: role for role in Role}
        groups = data.get("groups")
        return cls(
            frozenset(known[name] for name in data.get("roles", ()) if name in known),
            None if groups is None else frozenset(groups),
            data.get("act_as") is True,
        )

    def to_json(self) -> str:
        """Write it for a token."""
        return json.dumps(
            {
                "roles": sorted(role.value for role in self.roles),
                "act_as": self.act_as,
                **({} if self.groups is None else {"groups": sorted(self.groups)}),
            }
        )


class IssuedKeys:
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
        """Make an API key.

        Args:
            name: Of the service, which is known as ``service:NAME``.
            roles: What it may do.
            start_groups: The groups that it starts runs in; None: all.
            act_as: Whether it may say for which person it acts.
            lifetime_seconds: After so long it opens nothing; None: never.
            created_by: Who makes it.

        Returns:
            The secret, which nobody can be told again, and what is known of it.

        Raises:
            InvalidValue: A name is none, there is no role or no group, or the lifetime is none.
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
        """Make a worker key.

        Args:
            name: What people call it.
            groups: The groups whose runs it opens; None: all.
            lifetime_seconds: After so long it opens nothing; None: never.
            created_by: Who makes it.

        Returns:
            The secret, which nobody can be told again, and what is known of it.

        Raises:
            InvalidValue: A name is none, there is no group, or the lifetime is none.
        """
        scope = KeyScope(groups=_groups("groups", groups))
        subject = check_part("name", name)
        return await self._create(TokenKind.WORKER_KEY, subject, scope, lifetime_seconds, created_by)

    async def list_keys(self, kind: TokenKind, *, after: str | None = None, limit: int = 100) -> Page[Token]:
        """List keys of services (``API_KEY``) or workers (``WORKER_KEY``), oldest first, also those that ended."""
        return await self._store.list_tokens(TokenFilter(kind), after=after, limit=limit)

    async def rotate(
        self, key_id: str, *, grace_seconds: float = GRACE_SECONDS, created_by: str | None = None
    ) -> tuple[str, Token]:
        """Make another key that opens the same for as long, and have the old one end.

        Args:
            key_id: The old one.
            grace_seconds: How long the old one still opens something.
            created_by: Who does it.

        Returns:
            The new secret and what is known of it.

        Raises:
            NotFound: There is no such key.
            InvalidState: It has ended.
            InvalidValue: The seconds are none.
        """
        if not 0 <= grace_seconds <= LONGEST_SECONDS:
            raise InvalidValue("grace_seconds", f"{grace_seconds} is no number of seconds from 0 on")
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
        """Have a key open nothing any more. Raises NotFound."""
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
                "lifetime_seconds", f"{lifetime_seconds} is no number of seconds, up to ten years"
            )
        expires_at = None if lifetime_seconds is None else self._store.clock.now() + lifetime_seconds
        secret, new = new_token(
            kind, subject, data=scope.to_json(), created_by=created_by, expires_at=expires_at
        )
        return secret, await self._store.create_token(new)


def key_to_wire(token: Token) -> dict[str, Any]:
    """Return what may be told of a key, as plain JSON data."""
    scope = KeyScope.of(token)
    told: dict[str, Any] = {
        "id": token.id,
        "kind": "service" if token.kind is TokenKind.API_KEY else "worker",
        "name": token.subject.removeprefix(SERVICE),
        "namespace": token.namespace,
        "roles": sorted(role.value for role in scope.roles),
        "groups": None if scope.groups is None else sorted(scope.groups),
        "act_as": scope.act_as,
    }
    times = ("created_at", "created_by", "expires_at", "revoked_at", "used_at")
    return {**told, **{name: getattr(token, name) for name in times}}


def _groups(path: str, groups: Collection[str] | None) -> frozenset[str] | None:
    if groups is None:
        return None
    if not groups:
        raise InvalidValue(path, "name a group, or leave it out for all")
    return frozenset(check_part(path, group) for group in groups)
