"""Two workers side by side."""

from __future__ import annotations

from signoff import AsyncClient
from tests.support import comes


async def two_work(client: AsyncClient) -> None:
    """Wait until two workers know of each other."""

    async def both() -> bool:
        return len(await client.workers()) == 2

    await comes(both)
