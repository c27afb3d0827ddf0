"""A worker process that is killed at one place."""

from __future__ import annotations

import asyncio
from pathlib import Path

from signoff.stores.sqlite.store import SqliteStore
from signoff.testing import DoomedStore
from tests.crash.programs import bring_agent, make_app


def work(database: Path, effects: Path, run_id: str, seq: int, when: str) -> None:
    """Work until the journal of a run comes to ``seq``: ``before`` or ``after`` that entry is written it is killed."""
    if run_id.startswith("agent"):
        bring_agent()
    asyncio.run(_work(DoomedStore(SqliteStore(database), run_id, seq, when=when), effects))


async def _work(store: DoomedStore, effects: Path) -> None:
    async with make_app(store, effects).worker():
        await asyncio.sleep(120)  # it is killed long before
