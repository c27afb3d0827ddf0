"""What the routes work on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from starlette.types import Scope

from signoff.engine.timers.timers import TimerService
from signoff.people.notifications.channels.channel import Channel
from signoff.records import Origin
from signoff.redaction import Redaction, Redactor
from signoff.server.auth.actors import actor_of
from signoff.server.auth.authenticators import Ways
from signoff.server.auth.client_address import Forwarding, address_of
from signoff.server.auth.keyring import Keyring
from signoff.server.auth.oidc_flow import LoginDoor
from signoff.server.feeds.commit_feed import PING_SECONDS, Feeds
from signoff.server.feeds.inbox_feed import Inboxes
from signoff.server.limits.long_bodies import LongBodies
from signoff.server.limits.streams import Streams
from signoff.server.limits.wrong_secrets import WrongSecretLimit
from signoff.server.process.prometheus import Scrape
from signoff.server.process.readiness import Readiness
from signoff.server.redacted_service import backend_of
from signoff.server.store_api.remote_clients import RemoteClients
from signoff.service.service import LocalBackend
from signoff.stores.contract.store import Store
from signoff.stores.wrappers.origin_stamping import stated
from signoff.stores.wrappers.sealed_cursors import CursorKeys, with_sealed_cursors

T = TypeVar("T")


@dataclass(frozen=True)
class Services:
    """What a server has while it runs.

    Attributes:
        store: An open store.
        backend: The way to it.
        group: The group that runs are started in unless the caller says another.
        timers: What has deadlines fire.
        timer_service: What ``timers`` runs.
        function: Finds a workflow's code by its name, if the server was started with an app that has it.
        keyring: The keys that services and remote workers prove themselves by.
        ways: How requests say whose they are.
        login: Takes people to the identity provider; None: there is none.
        forwarding: What says in a header from which address a request comes; None: nothing does.
        public_url: Where people reach the server; None: where whoever asks for a link does.
        worker_lease_seconds: How long remote workers hold runs; None: as the store has it.
        cursor_keys: Seal the cursors of lists.
        remote_clients: What remote stores have asked for lately.
        long_bodies: Limits the long bodies of each caller that are read at once.
        wrong_secrets: Limits wrong keys, links and callbacks.
        streams: What callers keep open.
        feeds: What is told to remote stores.
        inboxes: What is told to people.
        scrape: What is told to Prometheus.
        redaction: What of payloads nobody is shown.
        channels: Where notifications go, by name.
        stopping: Set when the server is about to stop, so that nobody who waits holds it up.
        readiness: Whether it can work.
    """

    store: Store
    backend: LocalBackend
    group: str
    timers: asyncio.Task[None]
    function: Callable[[str], Callable[..., Any] | None]
    keyring: Keyring
    ways: Ways
    login: LoginDoor | None
    forwarding: Forwarding | None
    public_url: str | None
    worker_lease_seconds: float | None
    feeds: Feeds
    inboxes: Inboxes
    scrape: Scrape
    redaction: Redaction
    wrong_secrets: WrongSecretLimit
    channels: Mapping[str, Channel] = field(default_factory=dict[str, Channel])
    timer_service: TimerService | None = None
    cursor_keys: CursorKeys = field(default_factory=CursorKeys)
    remote_clients: RemoteClients = field(default_factory=RemoteClients)
    long_bodies: LongBodies = field(default_factory=LongBodies)
    streams: Streams = field(default_factory=Streams)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    readiness: Readiness = field(init=False)
    _others: dict[str, Services] = field(default_factory=dict[str, "Services"], init=False)

    def __post_init__(self) -> None:
        readiness = Readiness(self.store, self.timers, self.stopping, self.timer_service)
        object.__setattr__(self, "readiness", readiness)

    def within(self, namespace: str | None) -> Services:
        """Return the same for another namespace; None: this one."""
        if namespace in (None, self.store.namespace):
            return self
        if namespace not in self._others:
            store = self.store.within(namespace)
            self._others[namespace] = replace(self, store=store, backend=backend_of(store, self.redaction))
        return self._others[namespace]

    def coming_from(self, origin: Origin) -> Services:
        """Return the same for one request: its writes state their origin, and its cursors are sealed."""
        services = copy(self)
        store = with_sealed_cursors(stated(self.store, origin), self.cursor_keys)
        object.__setattr__(services, "store", store)
        object.__setattr__(services, "backend", self.backend.on(store))
        return services

    async def shown(self, record: T) -> T:
        """Return a record as it may leave the server."""
        return await Redactor(self.store, self.redaction).shown(record)

    def address_of(self, scope: Scope) -> str | None:
        """Return from which address a request comes, as far as that is known."""
        return address_of(scope, self.forwarding)

    async def close(self) -> None:
        """Let go of what it has for other namespaces."""
        for other in self._others.values():
            await other.backend.close()

    def store_of(self, namespace: str) -> Store:
        """Return the store of a namespace, as remote workers use it."""
        store = self.store.within(namespace)
        if self.worker_lease_seconds is not None:
            store.lease_seconds = self.worker_lease_seconds
        return store

    async def wait_to_tell(self, added: asyncio.Event) -> bool:
        """Wait for something to tell, for so long that a word is due in any case; False: the server stops."""
        await self.wait_for(added.wait(), seconds=PING_SECONDS)
        return not self.stopping.is_set()

    async def wait_for(self, work: Coroutine[Any, Any, T], *, seconds: float | None = None) -> T | None:
        """Return what ``work`` returns, or None if it takes longer than ``seconds`` or the server stops."""
        working = asyncio.create_task(work)
        stopping = asyncio.create_task(self.stopping.wait())
        try:
            await asyncio.wait({working, stopping}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else None
        finally:
            working.cancel()
            stopping.cancel()
            await asyncio.gather(working, stopping, return_exceptions=True)


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    actor = actor_of(request)
    return services.within(actor.namespace).coming_from(actor.origin(services.address_of(request.scope)))


ServicesOf = Annotated[Services, Depends(_services)]
"""A route's parameter that gets the services, for the namespace of whoever acts, and from where they do.

It is an async dependency: a plain one costs a thread switch.
"""


async def _caller(request: Request, services: ServicesOf) -> str:
    return actor_of(request).caller(services.address_of(request.scope))


CallerOf = Annotated[str, Depends(_caller)]
"""A route's parameter that gets who it is, to count what they keep open."""
