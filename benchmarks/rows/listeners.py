"""Many people listen to their inboxes on one server."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

from benchmarks.programs import new_app
from benchmarks.row import Figures, Line, Place, Row
from benchmarks.yardsticks import COMMIT, Yardstick
from signoff import Question
from signoff.records import NewPromise, PromiseKind
from signoff.server import Server
from signoff.stores.contract.store import Store

LISTENERS = 500
CHANGES = 5
READS = ("get_promise", "list_promises", "list_audit")
"""The reads that listeners could cause. In addition, the timers read the trail once per turn in any case."""


async def listeners(place: Place) -> Figures:
    """Queries per change, and milliseconds until the last listener receives it."""
    app = new_app(place.new_store())
    asked = _count_reads(app.store)
    figures: Figures = {"queries": [], "informed": []}
    async with Server(app, port=0) as server, AsyncExitStack() as stack:
        streams = [await _listen(stack, server) for _ in range(LISTENERS)]
        with place.measured():
            for number in range(CHANGES):
                asked.clear()
                began = time.perf_counter()
                data = Question.make("Refund?").to_json()
                await app.store.create_promise(NewPromise(f"q{number}", PromiseKind.QUESTION, data=data))
                await asyncio.gather(*(_informed(stream, f"q{number}") for stream in streams))
                figures["informed"].append(1_000 * (time.perf_counter() - began))
                figures["queries"].append(float(asked.total()))
    await app.store.close()
    return figures


def _count_reads(store: Store) -> Counter[str]:
    asked: Counter[str] = Counter()

    def counted(name: str) -> Any:
        read = getattr(store, name)

        async def ask(*args: Any, **options: Any) -> Any:
            asked[name] += 1
            return await read(*args, **options)

        return ask

    for name in READS:
        setattr(store, name, counted(name))
    return asked


async def _listen(stack: AsyncExitStack, server: Server) -> asyncio.StreamReader:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    stack.callback(writer.close)
    writer.write(b"GET /v1/questions/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert b"200" in await reader.readline()
    return reader


async def _informed(stream: asyncio.StreamReader, question_id: str) -> None:
    while f'"id":"{question_id}"'.encode() not in await stream.readline():
        pass


def row(yardstick: Yardstick) -> Row:
    """The row, with one raw commit of the database as its yardstick."""
    return Row(
        "listeners",
        listeners,
        yardstick,
        (
            Line(
                "queries",
                f"queries for a change of the inbox, sent to {LISTENERS} listeners",
                "",
                target=1,
                less_is_better=True,
                has_ratio=False,
            ),
            Line(
                "informed",
                "... until the last of them knows (sealed once a second)",
                "ms",
                less_is_better=True,
            ),
        ),
        lambda sizes: CHANGES,
        most_rounds=1,
    )


ROWS = (row(COMMIT),)
