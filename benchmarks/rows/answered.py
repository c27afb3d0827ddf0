"""Thousands of parked runs, answered all at once."""

from __future__ import annotations

import asyncio
import time

from benchmarks.programs import new_app, park, question_of, until_none
from benchmarks.row import Figures, Line, Place, Row
from benchmarks.yardsticks import BATCHES
from signoff import AsyncClient


async def answered(place: Place) -> Figures:
    app = new_app(place.new_store())
    ids = [f"run-{number}" for number in range(place.sizes.parked)]
    async with app.worker(), AsyncClient(app) as client:
        await park(client, ids, 0)
        began = time.perf_counter()
        with place.measured():
            await asyncio.gather(*(client.answer(question_of(id, 0), True) for id in ids))
            accepted = time.perf_counter()
            await until_none(client, "paused", "ready", "running")
        ended = time.perf_counter()
    await app.store.close()
    return {"accepted": [len(ids) / (accepted - began)], "ended": [len(ids) / (ended - began)]}


ROWS = (
    Row(
        "answered",
        answered,
        BATCHES,
        (
            Line("accepted", "parked runs all answered at once, until the last is accepted", "answers/s"),
            Line("ended", "... until the last run has ended", "answers/s", target=2_000),
        ),
        lambda sizes: sizes.parked,
    ),
)
