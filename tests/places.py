"""The kinds of stores for tests of rules that hold in each: in memory, a file, Postgres, a server.

Postgres and the server are imported once a test wants them: tests of a door also run with its extra alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from signoff.stores.contract.store import Store
from signoff.stores.remote.store import RemoteStore
from signoff.stores.sqlite.store import SqliteStore
from signoff.testing import MemoryStore
from tests.support import OnThread

if TYPE_CHECKING:
    from signoff.server import Server

KINDS = ("memory", "sqlite", "postgres", pytest.param("remote", marks=pytest.mark.long))
"""A server has one of the other stores behind it, so what is tried through it, too, is long."""
NewStore = Callable[..., Store]
"""Makes one more store of a place, as another process would. Options are those of the stores' classes."""


@contextmanager
def place(kind: str, folder: Path) -> Iterator[NewStore]:
    """A place of one kind. A server has a thread of its own: a worker that blocks its loop does not block it."""
    with ExitStack() as stack:
        memory: list[Store] = []
        servers: list[Server] = []

        def new_memory(**options: Any) -> Store:
            memory.append(memory[0] if memory else MemoryStore(**options))
            return memory[0]

        def new_remote(**options: Any) -> Store:
            from tests import worker_keys

            if not servers:
                served = SqliteStore(folder / "signoff.db", **options)
                lease = options.get("lease_seconds")
                servers.append(stack.enter_context(OnThread(lambda: _serving(served, lease))))
            return RemoteStore(servers[0].url, key=worker_keys.SECRET)

        match kind:
            case "memory":
                yield new_memory
            case "sqlite":
                yield lambda **options: SqliteStore(folder / "signoff.db", **options)
            case "postgres":
                from signoff.stores.postgres.store import PostgresStore
                from tests.postgres.databases import migrated_database

                url = stack.enter_context(migrated_database())
                yield lambda **options: PostgresStore(url, **options)
            case _:
                yield new_remote


@asynccontextmanager
async def _serving(store: Store, worker_lease_seconds: float | None) -> AsyncIterator[Server]:
    from signoff.server import Server
    from tests import worker_keys

    try:
        async with Server(
            store, port=0, worker_keys=worker_keys.KEYS, worker_lease_seconds=worker_lease_seconds
        ) as server:
            yield server
    finally:
        await store.close()


@asynccontextmanager
async def front_door(store: Store) -> AsyncIterator[str]:
    """The address of the HTTP API of a place, for callers without a key. A remote store's server has one."""
    if isinstance(store, RemoteStore):
        yield store.location
    else:
        from signoff.server import Server

        async with Server(store, port=0) as server:
            yield server.url


@pytest.fixture(params=KINDS)
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewStore]:
    """Makes stores of one place, in a test that is run in each kind of place."""
    with place(request.param, tmp_path) as make:
        yield make
