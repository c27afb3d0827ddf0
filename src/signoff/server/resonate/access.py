"""Authenticates the senders of requests of the protocol, and limits what they may do.

A sender has an API key, with the roles that promises need in the HTTP API, or a worker key. A worker key works on
promises and tasks of its namespace; one for some groups only polls for these, and only acquires their tasks. On a
server without keys everything is open, as its HTTP API is.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers
from starlette.types import Scope

from signoff.errors import AccessDenied, NotAuthenticated, NotFound
from signoff.records import Origin, Promise, TokenKind
from signoff.server.auth.actors import UNAUTHENTICATED, Actor
from signoff.server.auth.keyring import bearer_of
from signoff.server.auth.roles import Reach, Rights, Role, reach_of
from signoff.server.resonate.addresses import PollAddress, read_address
from signoff.server.store_api.access import OF_A_CALL, SHOWN_OF_HASH, Access
from signoff.stores.contract.store import Store
from signoff.stores.tokens import PREFIXES

if TYPE_CHECKING:
    from signoff.server.services import Services

_READ: Final[Rights] = {
    Role.VIEWER: Reach.ALL,
    Role.OPERATOR: Reach.ALL,
    Role.ADMIN: Reach.ALL,
}
_WORK: Final[Rights] = {Role.OPERATOR: Reach.ALL, Role.ADMIN: Reach.ALL}


@dataclass(frozen=True, slots=True)
class Sender:
    """The sender of a request.

    Attributes:
        actor: The service of an API key; unauthenticated on an open server.
        worker: The access of a worker key; None for any other sender.
    """

    actor: Actor
    worker: Access | None = None

    @property
    def namespace(self) -> str | None:
        """The sender's namespace; None means the server's."""
        return self.actor.namespace if self.worker is None else self.worker.namespace

    @property
    def by(self) -> str | None:
        """The user id to record for its settlements."""
        return None if self.worker is not None else self.actor.user_id("by", None)

    def origin(self, address: str | None) -> Origin:
        """Return the origin of its writes from a client address."""
        return self.actor.origin(address) if self.worker is None else self.worker.origin(address)

    def caller(self, address: str | None) -> str:
        """Return the caller that its open streams are counted for."""
        return self.actor.caller(address) if self.worker is None else self.worker.caller

    @property
    def is_for_groups(self) -> bool:
        """Whether it has a worker key for some groups only."""
        return self.worker is not None and self.worker.groups is not None

    def check_role(self, kind: str, *, reads: bool) -> None:
        """Raise AccessDenied if it may not perform an operation."""
        identity, needed = self.actor.identity, _READ if reads else _WORK
        if identity is None or reach_of(identity.person.roles, needed) is not None:
            return
        roles = " or ".join(role.value for role in needed)
        raise AccessDenied(kind, f"{identity.person.user_id!r} needs the role {roles}")

    def check_group(self, what: str, group: str | None) -> None:
        """Raise AccessDenied if a worker key is not for a group."""
        if self.worker is not None:
            self.worker.check_group(what, group)

    def check_target(self, what: str, target: str) -> None:
        """Raise AccessDenied if a worker key may not work on tasks with a target."""
        address = read_address(target)
        self.check_group(what, address.group if isinstance(address, PollAddress) else None)

    def sees_target(self, target: str) -> bool:
        """Whether it may work on tasks with a target."""
        try:
            self.check_target("task", target)
        except AccessDenied:
            return False
        return True

    def check_call(self, target: str) -> None:
        """Raise AccessDenied if an API key for some groups calls another group: the call may start a run there."""
        address = read_address(target)
        if isinstance(address, PollAddress):
            self.actor.check_start(address.group)

    async def check_id(self, store: Store, id: str) -> None:
        """Raise AccessDenied if a worker key creates the promise of a call in another group's run."""
        found = OF_A_CALL.fullmatch(id)
        if found is None or not self.is_for_groups:
            return
        with contextlib.suppress(NotFound):
            group = (await store.get_run(found[1])).group
            self.check_group(f"id {id!r}, which is reserved for a call of run {found[1]!r},", group)

    async def check_promise(self, store: Store, promise: Promise) -> None:
        """Raise AccessDenied if a worker key may not use a promise: that of a run of another group."""
        if promise.run_id is None or not self.is_for_groups:
            return
        self.check_group(f"promise {promise.id!r}", (await store.get_run(promise.run_id)).group)


def check_no_page(scope: Scope) -> None:
    """Refuse a poll that a page in a browser sends.

    Any site's page may send a GET to a server on the same machine. It could not read the messages, but other processes
    would not get them.

    Raises:
        AccessDenied: It has a header that browsers add and programs do not.
    """
    headers = Headers(scope=scope)
    if "origin" in headers or "sec-fetch-site" in headers:
        raise AccessDenied("the messages for a process", "a page in a browser gets none")


async def sender_of(services: Services, scope: Scope, auth: str | None = None) -> Sender:
    """Return the sender of a request.

    Args:
        services: The services of the server.
        scope: The request.
        auth: The key in its head. The header counts if it has both.

    Raises:
        NotAuthenticated: It has no valid key, and the server needs one.
        TooManyRequests: The client has sent too many wrong keys.
    """
    if auth is not None and bearer_of(scope) is None:
        scope = {**scope, "headers": [*scope["headers"], (b"authorization", f"Bearer {auth}".encode())]}
    secret = bearer_of(scope)
    if secret is not None and secret.startswith(PREFIXES[TokenKind.WORKER_KEY]):
        key = await services.keyring.worker_key(secret, scope)
        if key is None:
            raise NotAuthenticated("this worker key is unknown, expired or revoked")
        id = key.id or key.hash[:SHOWN_OF_HASH]
        return Sender(UNAUTHENTICATED, Access(key.hash, key.namespace, key.groups, id, key.name))
    identity = None if secret is None else await services.keyring.identify(scope)
    if identity is not None:
        return Sender(Actor(identity))
    if await services.authenticators.look():
        raise NotAuthenticated("send an API key or a worker key: Authorization: Bearer KEY")
    return Sender(UNAUTHENTICATED)
