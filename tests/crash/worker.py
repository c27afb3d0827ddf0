"""A worker process that is killed at one place: ``worker.py DATABASE EFFECTS RUN SEQ before|after``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from signoff.stores.sqlite import SqliteStore
from signoff.testing import DoomedStore
from tests.crash.programs import bring_agent, make_app


async def work(database: str, effects: str, run_id: str, seq: str, when: str) -> None:
    if run_id.startswith("agent"):
        bring_agent()
    store = DoomedStore(SqliteStore(database), run_id, int(seq), when=when)
    async with make_app(store, Path(effects)).worker():
        await asyncio.sleep(120)  # it is killed long before


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
