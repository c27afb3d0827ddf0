"""One long run: the cost of a step as the journal grows, and the replay of a long journal."""

from __future__ import annotations

import time
from itertools import pairwise
from statistics import median

from benchmarks.programs import evict_all, new_app, park, question_of
from benchmarks.row import Figures, Line, Place, Row
from benchmarks.yardsticks import COMMIT, MANY_ROUND_TRIPS
from signoff import AsyncClient


async def long_run(place: Place) -> Figures:
    app = new_app(place.new_store())
    async with app.worker(), AsyncClient(app) as client:
        with place.measured():
            began = await (await client.start("time_of_each_step", place.sizes.long_steps)).result()
    await app.store.close()
    costs = [1_000 * (later - earlier) for earlier, later in pairwise(began)]
    tenth = len(costs) // 10
    early, late = costs[10:tenth], costs[-tenth:]
    return {
        "early": [median(early)],
        "late": [median(late)],
        "growth": [median(late) / median(early)],
    }


async def replay(place: Place) -> Figures:
    app = new_app(place.new_store())
    steps = place.sizes.long_steps
    async with app.worker() as worker, AsyncClient(app) as client:
        await park(client, ["long"], steps)
        await evict_all(worker)
        began = time.time()
        with place.measured():
            await client.answer(question_of("long", steps), True)
            at = await (await client.get("long")).result()
    await app.store.close()
    return {"seconds": [at - began]}


ROWS = (
    Row(
        "long-run",
        long_run,
        COMMIT,
        (
            Line("early", "a step among the first tenth of a long run", "ms", less_is_better=True),
            Line("late", "a step among the last tenth", "ms", less_is_better=True),
            Line("growth", "... late to early", "x", target=1.1, less_is_better=True, has_ratio=False),
        ),
        lambda sizes: sizes.long_steps,
    ),
    Row(
        "replay",
        replay,
        MANY_ROUND_TRIPS,
        (Line("seconds", "replay of a long run, answer to next line", "s", target=0.5, less_is_better=True),),
        lambda sizes: sizes.long_steps,
    ),
)
