"""A hundred thousand paused runs: their cost for a starting worker, and how soon one of them continues."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

from benchmarks.programs import new_app, park
from benchmarks.row import Figures, Line, Place, Row
from benchmarks.yardsticks import COMMIT
from signoff import AsyncClient

PROBES = 20


async def paused(place: Place) -> Figures:
    few, _ = await _store_with(place, PROBES)
    many, parked_in = await _store_with(place, place.sizes.paused)
    small = await _new_worker(place, few, PROBES)
    large = await _new_worker(place, many, place.sizes.paused)
    return {
        "parking": [place.sizes.paused / parked_in],
        "start-up": [large["start-up"]],
        "memory": [large["memory"] - small["memory"]],
        "memory later": [large["memory later"] - small["memory later"]],
        "wait": large["waits"],
        "wait of few": small["waits"],
    }


async def _store_with(place: Place, runs: int) -> tuple[str, float]:
    store = place.new_store()
    app = new_app(store)
    began = time.perf_counter()
    async with app.worker(), AsyncClient(app) as client:
        await park(client, (f"run-{number}" for number in range(runs)), 0)
    seconds = time.perf_counter() - began
    await app.store.close()
    return store, seconds


async def _new_worker(place: Place, store: str, runs: int) -> dict[str, Any]:
    """Measure a worker in its own process, so that its memory is only its own."""
    every = max(1, runs // PROBES)
    probes = [f"run-{number}" for number in range(0, runs, every)]
    process = await asyncio.create_subprocess_exec(
        *place.python("worker"),
        "-m",
        "benchmarks.paused_worker",
        store,
        *probes,
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        env=os.environ,
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"benchmarks.paused_worker ended with {process.returncode}")
    return json.loads(output)


ROWS = (
    Row(
        "paused",
        paused,
        COMMIT,
        (
            Line("parking", "started and paused: a store full of paused runs", "runs/s", has_ratio=False),
            Line(
                "start-up",
                "a worker's start on that store",
                "s",
                target=5,
                less_is_better=True,
                has_ratio=False,
            ),
            Line(
                "memory",
                "... its memory then, above one with 20",
                "MiB",
                less_is_better=True,
                has_ratio=False,
            ),
            Line(
                "memory later",
                "... and after answers to 20 of them",
                "MiB",
                target=8,
                less_is_better=True,
                has_ratio=False,
            ),
            Line("wait", "... answer to next line for one of them", "ms", target=50, less_is_better=True),
            Line("wait of few", "... the same with only 20 paused", "ms", less_is_better=True),
        ),
        lambda sizes: sizes.paused,
        most_rounds=1,
    ),
)
