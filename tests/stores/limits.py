"""Several stores on one database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from signoff.stores.postgres.store import PostgresStore
from tests.postgres.databases import fresh_database

STORES = 4


WAITING = """
    SELECT FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
    WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted
"""


@asynccontextmanager
async def four_stores() -> AsyncIterator[list[PostgresStore]]:
    """Stores of one database, each with its own connections, as four processes have them."""
    async with AsyncExitStack() as stack:
        url = stack.enter_context(fresh_database())
        stores = [PostgresStore(url) for _ in range(STORES)]
        for store in stores:
            await store.open()
            stack.push_async_callback(store.close)
        yield stores
