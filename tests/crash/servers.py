"""A forked server process: a new one serves at once."""

from __future__ import annotations

import asyncio

from signoff.server import Server
from signoff.stores.postgres.store import PostgresStore


def serve(url: str) -> None:
    """Serve a Postgres store until killed."""
    asyncio.run(_serve(url))


async def _serve(url: str) -> None:
    async with Server(PostgresStore(url), port=0):
        await asyncio.Event().wait()
