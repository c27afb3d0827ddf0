"""The FastAPI application."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.middleware import Middleware

import signoff
from signoff.app import Signoff
from signoff.engine.retention import Retention
from signoff.engine.timers import TimerService
from signoff.local import LocalBackend
from signoff.metrics import collecting
from signoff.people.duties import DUTIES
from signoff.server import (
    audit,
    events,
    groups,
    health,
    links,
    metrics,
    operations,
    promises,
    questions,
    runs,
    schedules,
    workers,
)
from signoff.server import retention as pruning_routes
from signoff.server.bodies import BodyLimit
from signoff.server.feeds import Feeds
from signoff.server.guard import Guard
from signoff.server.hosts import HostCheck, checked_public_url
from signoff.server.identity import TrustedProxy
from signoff.server.ids import EncodedPaths
from signoff.server.keys import WorkerKeys
from signoff.server.problems import add_handlers
from signoff.server.scrape import Scrape
from signoff.server.services import Services
from signoff.stores.base import Store
from signoff.stores.operations import PATH

log = logging.getLogger("signoff.server")


WORKER_LEASE_SECONDS = 90.0
"""Longer than a worker in the store's own process needs, so that a cut of a minute takes no run from its worker."""


def create_server_app(
    app_or_store: Signoff | Store,
    *,
    allowed_hosts: Iterable[str] = (),
    worker_keys: WorkerKeys | None = None,
    proxy: TrustedProxy | None = None,
    public_url: str | None = None,
    worker_lease_seconds: float | None = WORKER_LEASE_SECONDS,
    retention_days: float | None = None,
) -> FastAPI:
    """Return the HTTP API of a store as an ASGI application.

    Its lifespan opens the store and has deadlines fire. The store stays open: it is the caller's.

    Args:
        app_or_store: A store, or the app whose store it is and in whose group runs are started.
        allowed_hosts: Names the server is reached by, besides localhost, 127.0.0.1 and [::1].
        worker_keys: The keys of remote workers. Without any, programs of this machine may work, and no others.
        proxy: What says who people are, in headers. Without it the API is for a laptop: whoever reaches it may say who
            they are. Another ASGI server than ``Server`` must not replace the peer's address by a header's.
        public_url: Where people reach the server, for answer links, such as ``https://signoff.example.com``; its name
            is allowed. None: where whoever makes a link reaches it.
        worker_lease_seconds: How long a claim or a heartbeat of a remote worker holds a run. After so long without a
            word from it, others may claim its runs. None: as long as the store has it.
        retention_days: How long ended runs are kept; None: for ever.

    Raises:
        InvalidValue: The days are not above 0, or the URL is none.
    """
    app = app_or_store if isinstance(app_or_store, Signoff) else Signoff(app_or_store)
    store, group, function = app.store, app.group, app.registry.function

    hosts = tuple(allowed_hosts)
    if public_url is not None:
        public_url, host = checked_public_url(public_url)
        hosts = (*hosts, host)
    retention = None if retention_days is None else Retention(store, retention_days)

    @asynccontextmanager
    async def lifespan(api: FastAPI) -> AsyncGenerator[None, None]:
        await store.open()
        backend = LocalBackend(store)
        timers = asyncio.create_task(TimerService(store, duties=DUTIES).run(), name="signoff timers")
        timers.add_done_callback(_timers_ended)
        pruning = (
            None if retention is None else asyncio.create_task(retention.run(), name="signoff retention")
        )
        feeds = Feeds(store)
        scrape = Scrape(store, lambda: not timers.done())
        keys = worker_keys or WorkerKeys()
        services = Services(
            store,
            backend,
            group,
            timers,
            function,
            keys,
            proxy,
            public_url,
            worker_lease_seconds,
            feeds,
            scrape,
        )
        api.state.services = services
        try:
            with collecting():
                yield
        finally:
            await services.readiness.close()
            await services.sessions.close()
            await scrape.close()
            feeds.close()
            tasks = {timers} if pruning is None else {timers, pruning}
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await backend.close()

    api = FastAPI(
        title="Signoff",
        version=signoff.__version__,
        lifespan=lifespan,
        middleware=[
            Middleware(HostCheck, allowed_hosts=hosts, forms=links.FORMS),
            Middleware(EncodedPaths),
            *([] if proxy is None else [Middleware(Guard, proxy=proxy, allowed_hosts=hosts)]),
            Middleware(BodyLimit, unread=(PATH,)),
        ],
        redirect_slashes=False,
    )
    add_handlers(api)
    for noun in (
        runs,
        events,
        questions,
        links,
        promises,
        audit,
        groups,
        workers,
        pruning_routes,
        schedules,
        operations,
        health,
        metrics,
    ):
        api.include_router(noun.router)
    return api


def _timers_ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("deadlines no longer fire: the timers ended by an error", exc_info=error)
