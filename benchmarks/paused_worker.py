"""A worker in its own process: ``python -m benchmarks.paused_worker STORE RUN...`` prints its costs."""

from __future__ import annotations

import asyncio
import json
import sys
import time

import psutil

from benchmarks.programs import new_app
from benchmarks.rows.resumed import answer_one_by_one
from signoff import AsyncClient


async def measure(store: str, run_ids: list[str]) -> dict[str, object]:
    """Start a worker on the store, and answer these runs."""
    app = new_app(store)
    began = time.perf_counter()
    async with app.worker(), AsyncClient(app) as client:
        ready_at = time.perf_counter()
        await asyncio.sleep(1.5)  # its first scans are over
        memory = _mebibytes()
        waits = await answer_one_by_one(client, run_ids, 0)
        return {"start-up": ready_at - began, "memory": memory, "memory later": _mebibytes(), "waits": waits}


def _mebibytes() -> float:
    return psutil.Process().memory_info().rss / 2**20


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(sys.argv[1], sys.argv[2:]))))
