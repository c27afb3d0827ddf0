"""From an answer's arrival to the workflow's next line, one answer at a time."""

from __future__ import annotations

import asyncio
import time

from benchmarks.processes import command, url_of
from benchmarks.programs import evict_all, new_app, park, question_of
from benchmarks.row import Figures, Line, Place, Row
from benchmarks.yardsticks import COMMIT
from signoff import AsyncClient

REPLAYED = 50
REST_SECONDS = 1.5


async def answer_one_by_one(
    client: AsyncClient, ids: list[str], steps: int, *, rest_seconds: float = 0.0
) -> list[float]:
    """Answer each parked run once the previous one has ended. Returns milliseconds to the line after the answer."""
    waits: list[float] = []
    for id in ids:
        await asyncio.sleep(rest_seconds)
        asked_at = time.time()
        await client.answer(question_of(id, steps), True)
        waits.append(1_000 * (await (await client.get(id)).result() - asked_at))
    return waits


async def resumed_hot(place: Place) -> Figures:
    app = new_app(place.new_store())
    ids = [f"run-{number}" for number in range(place.sizes.answers)]
    async with app.worker(), AsyncClient(app) as client:
        await park(client, ids, REPLAYED)
        with place.measured():
            waits = await answer_one_by_one(client, ids, REPLAYED)
    await app.store.close()
    return {"wait": waits}


async def resumed_replayed(place: Place) -> Figures:
    app = new_app(place.new_store())
    ids = [f"run-{number}" for number in range(place.sizes.answers)]
    async with app.worker() as worker, AsyncClient(app) as client:
        await park(client, ids, REPLAYED)
        await evict_all(worker)
        with place.measured():
            waits = await answer_one_by_one(client, ids, REPLAYED)
    await app.store.close()
    return {"wait": waits}


async def resumed_over_http(place: Place) -> Figures:
    """The answer goes to a server process; a worker process on the same store continues the run."""
    store = place.new_store()
    at_once = [f"run-{number}" for number in range(place.sizes.answers)]
    after_rest = [f"rested-{number}" for number in range(place.sizes.answers_after_rest)]
    async with (
        command(place, "server", "--store", store, "--port", "0", "--json") as server,
        command(place, "worker", "benchmarks.remote_app:app", "--json", SIGNOFF_STORE=store),
    ):
        url = await url_of(server)
        async with AsyncClient(url) as client:
            await park(client, [*at_once, *after_rest], REPLAYED)
        async with AsyncClient(url) as client:  # with one connection, not those of all the starts
            with place.measured():
                waits = await answer_one_by_one(client, at_once, REPLAYED)
            waits_after_rest = await answer_one_by_one(
                client, after_rest, REPLAYED, rest_seconds=REST_SECONDS
            )
    return {"wait": waits, "wait after rest": waits_after_rest}


ROWS = (
    Row(
        "resumed-hot",
        resumed_hot,
        COMMIT,
        (Line("wait", "answer to next line, run still in memory", "ms", target=2, less_is_better=True),),
        lambda sizes: sizes.answers,
    ),
    Row(
        "resumed-replayed",
        resumed_replayed,
        COMMIT,
        (Line("wait", "answer to next line, replayed from 50 entries", "ms", target=4, less_is_better=True),),
        lambda sizes: sizes.answers,
    ),
    Row(
        "resumed-over-http",
        resumed_over_http,
        COMMIT,
        (
            Line(
                "wait",
                "answer over HTTP to next line in another process",
                "ms",
                target=8,
                less_is_better=True,
            ),
            Line(
                "wait after rest", "... after a rest of 1.5 s before each answer", "ms", less_is_better=True
            ),
        ),
        lambda sizes: sizes.answers,
    ),
)
