"""What the routes work on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request

from signoff.local import LocalBackend
from signoff.server.feeds import Feeds
from signoff.server.identity import TrustedProxy
from signoff.server.keys import WorkerKeys
from signoff.server.rates import LinkLimits
from signoff.server.readiness import Readiness
from signoff.server.scrape import Scrape
from signoff.server.sessions import Sessions
from signoff.stores.base import Store

T = TypeVar("T")


@dataclass(frozen=True)
class Services:
    """What a server has while it runs.

    Attributes:
        store: An open store.
        backend: The way to it.
        group: The group that runs are started in unless the caller says another.
        timers: What has deadlines fire.
        function: Finds a workflow's code by its name, if the server was started with an app that has it.
        worker_keys: The keys of remote workers; without any, those of this machine need none.
        proxy: What says who people are; None: they say so themselves.
        public_url: Where people reach the server; None: where whoever asks for a link does.
        worker_lease_seconds: How long remote workers hold runs; None: as the store has it.
        sessions: What remote stores have asked for lately.
        link_limits: How often links may be asked for.
        feeds: What is told to remote stores.
        scrape: What is told to Prometheus.
        stopping: Set when the server is about to stop, so that nobody who waits holds it up.
        readiness: Whether it can work.
    """

    store: Store
    backend: LocalBackend
    group: str
    timers: asyncio.Task[None]
    function: Callable[[str], Callable[..., Any] | None]
    worker_keys: WorkerKeys
    proxy: TrustedProxy | None
    public_url: str | None
    worker_lease_seconds: float | None
    feeds: Feeds
    scrape: Scrape
    sessions: Sessions = field(default_factory=Sessions)
    link_limits: LinkLimits = field(default_factory=LinkLimits)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    readiness: Readiness = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "readiness", Readiness(self.store, self.timers, self.stopping))

    def store_of(self, namespace: str) -> Store:
        """Return the store of a namespace, as remote workers use it."""
        store = self.store.within(namespace)
        if self.worker_lease_seconds is not None:
            store.lease_seconds = self.worker_lease_seconds
        return store

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
    return request.app.state.services


ServicesOf = Annotated[Services, Depends(_services)]
"""A route's parameter that gets the services. (An async dependency: a plain one costs a thread switch.)"""
