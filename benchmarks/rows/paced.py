"""Answers over HTTP at a steady rate, whether or not earlier ones have been acknowledged."""

from __future__ import annotations

import asyncio
import json
import time

import httpx

from benchmarks.processes import command, url_of
from benchmarks.programs import new_app
from benchmarks.row import Figures, Line, Place, Row
from benchmarks.yardsticks import COMMIT, Yardstick
from signoff import Question
from signoff.records import NewPromise, PromiseKind

PER_SECOND = 100
SECONDS = 10


async def paced(place: Place) -> Figures:
    """Milliseconds from the time at which an answer is due to its acknowledgement."""
    address = place.new_store()
    count = PER_SECOND * SECONDS
    app = new_app(address)
    await app.store.open()
    data = Question.make("Refund?").to_json()
    for number in range(count):
        await app.store.create_promise(NewPromise(f"q{number}", PromiseKind.QUESTION, data=data))
    await app.store.close()
    async with (
        command(place, "server", "--store", address, "--port", "0", "--json") as server,
        httpx.AsyncClient(base_url=await url_of(server), timeout=60) as client,  # slow answers count, too
    ):
        await client.get("/health")
        with place.measured():
            began = time.perf_counter() + 0.1
            looks = [_look(client, began + number / PER_SECOND) for number in range(PER_SECOND)]
            looked = await asyncio.gather(*looks)
            began = time.perf_counter() + 0.1
            answers = [_answer(client, number, began + number / PER_SECOND) for number in range(count)]
            answered = await asyncio.gather(*answers)
    return {"answered": answered, "looked": looked}


async def _answer(client: httpx.AsyncClient, number: int, due: float) -> float:
    await asyncio.sleep(due - time.perf_counter())
    body = {"value": True, "user_id": f"user-{number}"}
    reply = await client.post(f"/v1/questions/q{number}/answer", json=body)
    assert json.loads(reply.content)["state"] == "resolved", reply.text
    return 1_000 * (time.perf_counter() - due)


async def _look(client: httpx.AsyncClient, due: float) -> float:
    """The same way without an answer: the cost of HTTP and the two processes."""
    await asyncio.sleep(due - time.perf_counter())
    (await client.get("/health")).raise_for_status()
    return 1_000 * (time.perf_counter() - due)


def row(yardstick: Yardstick) -> Row:
    """The row, with one raw commit of the database as its yardstick."""
    return Row(
        "paced",
        paced,
        yardstick,
        (
            Line(
                "answered", f"answer over HTTP, {PER_SECOND} per second", "ms", target=10, less_is_better=True
            ),
            Line("looked", "... GET /health at the same rate", "ms", less_is_better=True),
        ),
        lambda sizes: PER_SECOND * SECONDS,
    )


ROWS = (row(COMMIT),)
