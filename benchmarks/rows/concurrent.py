"""Many workflows of 10 steps at once. They share commits, so the engine's own work is the limit."""

from __future__ import annotations

import asyncio
import time

from benchmarks.programs import new_app
from benchmarks.row import Figures, Line, Place, Row
from benchmarks.yardsticks import BATCHES
from signoff import AsyncClient

STEPS = 10


async def _from_first_start(place: Place, runs: int) -> float:
    """Return steps per second from the first start to the last result."""
    app = new_app(place.new_store())
    async with app.worker(), AsyncClient(app) as client:
        await (await client.start("async_steps", STEPS)).result()
        began = time.perf_counter()
        with place.measured():
            handles = await asyncio.gather(*(client.start("async_steps", STEPS) for _ in range(runs)))
            await asyncio.gather(*(handle.result() for handle in handles))
        seconds = time.perf_counter() - began
    await app.store.close()
    return runs * STEPS / seconds


async def _from_worker(place: Place, runs: int) -> float:
    """Return steps per second from a worker's start, with all runs ready, to the last result."""
    app = new_app(place.new_store())
    await app.store.open()
    async with AsyncClient(app) as client:
        handles = await asyncio.gather(*(client.start("async_steps", STEPS) for _ in range(runs)))
        began = time.perf_counter()
        async with app.worker():
            with place.measured():
                await asyncio.gather(*(handle.result() for handle in handles))
            seconds = time.perf_counter() - began
    await app.store.close()
    return runs * STEPS / seconds


async def concurrent(place: Place) -> Figures:
    few, many = place.sizes.runs, place.sizes.many_runs
    rate = await _from_first_start(place, few)
    rate_of_many = await _from_first_start(place, many)
    return {
        "rate": [rate],
        "without starts": [await _from_worker(place, few)],
        "rate of many": [rate_of_many],
        "growth": [rate / rate_of_many],
    }


ROWS = (
    Row(
        "concurrent",
        concurrent,
        BATCHES,
        (
            Line("rate", "concurrent runs of 10 steps, first start to last result", "steps/s", target=6_000),
            Line("without starts", "... the same without the starts", "steps/s"),
            Line("rate of many", "ten times as many runs", "steps/s"),
            Line(
                "growth",
                "... cost of a step there to the cost with fewer runs",
                "x",
                target=1.1,
                less_is_better=True,
                has_ratio=False,
            ),
        ),
        lambda sizes: STEPS * (2 * sizes.runs + sizes.many_runs),
    ),
)
