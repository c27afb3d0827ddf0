"""The stores that workers share: a file, a Postgres, a server with remote workers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from signoff.server import Server
from signoff.stores.contract.store import Store
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.remote.store import RemoteStore
from signoff.stores.sqlite.store import SqliteStore
from tests import worker_keys
from tests.postgres.databases import migrated_database

NewStore = Callable[[], Store]
"""Makes one more store of the place, as another process would."""


@asynccontextmanager
async def _sqlite(folder: Path) -> AsyncIterator[NewStore]:
    yield lambda: SqliteStore(folder / "signoff.db")


@asynccontextmanager
async def _postgres(_: Path) -> AsyncIterator[NewStore]:
    with migrated_database() as url:
        yield lambda: PostgresStore(url)


@asynccontextmanager
async def _remote(folder: Path) -> AsyncIterator[NewStore]:
    store = SqliteStore(folder / "signoff.db")
    try:
        async with Server(store, port=0, worker_keys=worker_keys.KEYS) as server:
            yield lambda: RemoteStore(server.url, key=worker_keys.SECRET)
    finally:
        await store.close()


PLACES = {"sqlite": _sqlite, "postgres": _postgres, "remote": _remote}
