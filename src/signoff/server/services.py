"""The objects that routes work with."""

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
from signoff.server.auth.authenticators import Authenticators
from signoff.server.auth.client_address import Forwarding, address_of
from signoff.server.auth.keyring import Keyring
from signoff.server.auth.oidc_flow import OidcFlow
from signoff.server.feeds.commit_feed import PING_SECONDS, Feeds
from signoff.server.feeds.inbox_feed import Inboxes
from signoff.server.limits.long_bodies import LongBodies
from signoff.server.limits.streams import Streams
from signoff.server.limits.wrong_secrets import WrongSecretLimit
from signoff.server.mcp.door import McpDoor
from signoff.server.mcp.settings import McpSettings
from signoff.server.process.prometheus import Scrape
from signoff.server.process.readiness import Readiness
from signoff.server.redacted_service import backend_of
from signoff.server.store_api.remote_clients import RemoteClients
from signoff.service.service import LocalBackend
from signoff.stores.contract.store import Store
from signoff.stores.wrappers.origin_stamping import origin_stamped
from signoff.stores.wrappers.sealed_cursors import CursorKeys, with_sealed_cursors

T = TypeVar("T")


@dataclass(eq=False)
class Services:
    """The state of a running server.

    Attributes:
        store: An open store.
        backend: The service backend of the store.
        group: The group that runs are started in by default.
        timers: The task that fires deadlines.
        timer_service: The service that ``timers`` runs.
        function: Finds a workflow's code by name, if the server was started with an app that has it.
        keyring: The keys of services and remote workers.
        authenticators: Authenticate requests.
        login: The OIDC flow; None without an identity provider.
        forwarding: Names the header that carries a client's address; None: the connection's address counts.
        public_url: The public URL of the server; None: the one that a link's creator uses.
        worker_lease_seconds: How long remote workers hold runs; None: the store's lease.
        cursor_keys: The keys that seal list cursors.
        remote_clients: The recent requests of remote stores.
        long_bodies: Limits how many long bodies of one caller are read at once.
        wrong_secrets: Limits wrong keys, links and callbacks.
        streams: Counts the open streams of each caller.
        feeds: The commit feeds of remote stores.
        inboxes: The inbox feeds of users.
        scrape: Answers Prometheus.
        redaction: The redaction rules for payloads.
        channels: The notification channels, by name.
        mcp_settings: The settings of the MCP server; None: it is off.
        mcp: The MCP server.
        stopping: Set when the server is about to stop, so that waiting requests end.
        readiness: Reports whether the server can work.
    """

    store: Store
    backend: LocalBackend
    group: str
    timers: asyncio.Task[None]
    function: Callable[[str], Callable[..., Any] | None]
    keyring: Keyring
    authenticators: Authenticators
    login: OidcFlow | None
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
    mcp_settings: McpSettings | None = field(default_factory=McpSettings)
    mcp: McpDoor = field(default_factory=McpDoor)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    readiness: Readiness = field(init=False)
    _others: dict[str, Services] = field(default_factory=dict[str, "Services"], init=False)

    def __post_init__(self) -> None:
        self.readiness = Readiness(self.store, self.timers, self.stopping, self.timer_service)

    def within(self, namespace: str | None) -> Services:
        """Return the services of a namespace; None means this one."""
        if namespace in (None, self.store.namespace):
            return self
        if namespace not in self._others:
            store = self.store.within(namespace)
            self._others[namespace] = replace(self, store=store, backend=backend_of(store, self.redaction))
        return self._others[namespace]

    def with_origin(self, origin: Origin) -> Services:
        """Return the services of one request: its writes are stamped with their origin, and its cursors are sealed."""
        services = copy(self)
        services.store = with_sealed_cursors(origin_stamped(self.store, origin), self.cursor_keys)
        services.backend = self.backend.on(services.store)
        return services

    async def shown(self, record: T) -> T:
        """Return a record, redacted."""
        return await Redactor(self.store, self.redaction).shown(record)

    def address_of(self, scope: Scope) -> str | None:
        """Return the client address of a request, if known."""
        return address_of(scope, self.forwarding)

    async def close(self) -> None:
        """Close the backends of other namespaces."""
        for other in self._others.values():
            await other.backend.close()

    def store_of(self, namespace: str) -> Store:
        """Return the store of a namespace, with the lease of remote workers."""
        store = self.store.within(namespace)
        if self.worker_lease_seconds is not None:
            store.lease_seconds = self.worker_lease_seconds
        return store

    async def wait_for_event(self, added: asyncio.Event) -> bool:
        """Wait for an event to send, at most until the next keep-alive is due. Return False if the server stops."""
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
    return services.within(actor.namespace).with_origin(actor.origin(services.address_of(request.scope)))


ServicesOf = Annotated[Services, Depends(_services)]
"""Route parameter: the services, bound to the actor's namespace and the request's origin.

The dependency is async: a plain one costs a thread switch.
"""


async def _caller(request: Request, services: ServicesOf) -> str:
    return actor_of(request).caller(services.address_of(request.scope))


CallerOf = Annotated[str, Depends(_caller)]
"""Route parameter: the caller that open streams are counted for."""
