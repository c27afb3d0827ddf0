"""One workflow of sequential steps. Each step is a commit of its own, so the disk is the limit."""

from __future__ import annotations

import time

from benchmarks.programs import new_app
from benchmarks.row import Figures, Line, Place, Row
from benchmarks.yardsticks import COMMITS
from signoff import AsyncClient


async def _steps_per_second(place: Place, workflow: str) -> Figures:
    app = new_app(place.new_store())
    steps = place.sizes.steps
    async with app.worker(), AsyncClient(app) as client:
        await (await client.start(workflow, 10)).result()
        began = time.perf_counter()
        with place.measured():
            await (await client.start(workflow, steps)).result()
        seconds = time.perf_counter() - began
    await app.store.close()
    return {"rate": [steps / seconds]}


async def sequential_async(place: Place) -> Figures:
    return await _steps_per_second(place, "async_steps")


async def sequential_threads(place: Place) -> Figures:
    return await _steps_per_second(place, "steps_in_threads")


ROWS = (
    Row(
        "sequential",
        sequential_async,
        COMMITS,
        (Line("rate", "one run, sequential async steps", "steps/s", target_ratio=0.7),),
        lambda sizes: sizes.steps,
    ),
    Row(
        "sequential-threads",
        sequential_threads,
        COMMITS,
        (Line("rate", "one run, sequential plain steps (threads)", "steps/s", target_ratio=0.7),),
        lambda sizes: sizes.steps,
    ),
)
