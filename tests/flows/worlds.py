"""The places where an execution may live: each kind of store, with a worker of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from signoff import Signoff
from signoff.flows import Executions, Flow
from signoff.server import Server
from signoff.stores.contract.store import Store
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.remote.store import RemoteStore
from signoff.stores.sqlite.store import SqliteStore
from tests import worker_keys
from tests.postgres.databases import migrated_database
from tests.support import OnThread, running

WORLDS = ("sqlite", "postgres", "remote")


@asynccontextmanager
async def world(kind: str, folder: Path, *flows: Flow, **options: Any) -> AsyncIterator[Executions]:
    """The executions of the first of some flows, with a worker in this process."""
    async with store_of(kind, folder) as make:
        app = Signoff(make())
        for flow in flows:
            app.register(flow)
        async with running(app, **options) as client:
            yield Executions(client, flows[0].name)


@asynccontextmanager
async def store_of(kind: str, folder: Path) -> AsyncIterator[Callable[[], Store]]:
    """What opens one store, as often as wanted."""
    match kind:
        case "sqlite":
            yield lambda: SqliteStore(folder / "signoff.db")
        case "postgres":
            with migrated_database() as url:
                yield lambda: PostgresStore(url)
        case _:
            with OnThread(lambda: _serving(folder)) as server:
                yield lambda: RemoteStore(server.url, key=worker_keys.SECRET)


@asynccontextmanager
async def _serving(folder: Path) -> AsyncIterator[Server]:
    store = SqliteStore(folder / "signoff.db")
    try:
        async with Server(store, port=0, worker_keys=worker_keys.KEYS) as server:
            yield server
    finally:
        await store.close()
