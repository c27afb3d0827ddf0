"""The benchmarks on Postgres."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

import psycopg

from benchmarks.postgres import Bench
from benchmarks.processes import command
from benchmarks.programs import new_app, park
from benchmarks.row import Figures, Line, Place, Row
from benchmarks.rows import answered, concurrent, inbox, paced, resonate, resumed, sequential
from benchmarks.rows.resumed import REPLAYED, answer_one_by_one
from signoff import AsyncClient
from signoff.stores.postgres.store import PostgresStore

NAMES = (
    "sequential",
    "sequential-threads",
    "concurrent",
    "across",
    "resumed-over-http",
    "paced",
    "answered",
    "workers",
    "claims",
    "inbox",
    "promises",
    "remote-steps",
    "remote-steps-2",
)

STEPS = 10
STEP_SECONDS = 0.002

# The given number of finished and paused runs, with one journal entry each, and a question for each paused one.
LIE = """
INSERT INTO signoff.runs (id, namespace, workflow, group_name, state, created_at, ready_at, ended_at, wake_at, epoch,
    arguments, arguments_digest)
SELECT kind || n, 'default', 'async_steps', 'default', kind, n, n, CASE kind WHEN 'succeeded' THEN n END,
    CASE kind WHEN 'paused' THEN 4e9 + n END, 1, '{"args": [10]}', ''
FROM generate_series(1, %(count)s) AS n, unnest(ARRAY['succeeded', 'paused']) AS kind
"""

EXPLAIN_CLAIM = """
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF)
SELECT id, priority, ready_at, number FROM signoff.runs
WHERE workflow = 'async_steps' AND group_name = 'default' AND namespace = 'default' AND state = 'ready' AND NOT blocked
ORDER BY priority DESC, ready_at, number LIMIT 100
"""


async def across(place: Place) -> Figures:
    """One process answers; a worker process continues the run."""
    address = place.new_store()
    app = new_app(address)
    ids = [f"run-{number}" for number in range(place.sizes.answers)]
    async with (
        AsyncClient(app) as client,
        command(place, "worker", "benchmarks.remote_app:app", "--json", SIGNOFF_STORE=address),
    ):
        await park(client, ids, REPLAYED)
        with place.measured():
            waits = await answer_one_by_one(client, ids, REPLAYED)
    await app.store.close()
    return {"wait": waits}


async def workers(place: Place) -> Figures:
    """Steps per second of one worker process and of two, for the same runs."""
    one, two = [await _steps_per_second(place, number) for number in (1, 2)]
    return {"one": [one], "two": [two], "gain": [two / one]}


async def _steps_per_second(place: Place, number: int) -> float:
    address = place.new_store()
    app = new_app(address)
    runs = place.sizes.many_runs
    async with AsyncClient(app) as client:
        handles = []
        for first in range(0, runs, 500):
            handles += await asyncio.gather(
                *(client.start("async_steps", STEPS) for _ in range(first, min(first + 500, runs)))
            )
        began = time.perf_counter()
        arguments = ("worker", "benchmarks.remote_app:app", "--json", "--concurrency", "100")
        async with asyncio.TaskGroup() as group, asyncio.timeout(600):
            stop = asyncio.Event()
            for _ in range(number):
                group.create_task(_work_until(stop, place, arguments, address))
            await handles[0].result()
            began = time.perf_counter()
            already = await _ended(client)
            await asyncio.gather(*(handle.result() for handle in handles))
            seconds = time.perf_counter() - began
            stop.set()
    await app.store.close()
    return (runs - already) * STEPS / seconds


async def _work_until(stop: asyncio.Event, place: Place, arguments: Sequence[str], address: str) -> None:
    async with command(place, *arguments, SIGNOFF_STORE=address):
        await stop.wait()


async def _ended(client: AsyncClient) -> int:
    return len((await client.list(states=["succeeded"], limit=100_000)).items)


async def claims(place: Place) -> Figures:
    """Milliseconds per claim of 100 runs, in an almost empty database and among many other runs."""
    address = place.new_store()
    few = await _milliseconds_of_claims(address, "few")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(LIE, {"count": place.sizes.lying})
        connection.execute("VACUUM (ANALYZE) signoff.runs")
    many = await _milliseconds_of_claims(address, "many")
    with psycopg.connect(address, autocommit=True) as connection:
        for (line,) in connection.execute(EXPLAIN_CLAIM).fetchall():
            print(line)
    return {"few": few, "many": many, "growth": [sorted(many)[len(many) // 2] / sorted(few)[len(few) // 2]]}


async def _milliseconds_of_claims(address: str, name: str) -> list[float]:
    app = new_app(address)
    assert isinstance(app.store, PostgresStore)
    spent: list[float] = []
    async with AsyncClient(app) as client:
        for round in range(20):
            await asyncio.gather(
                *(client.start("async_steps", 1, id=f"{name}-{round}-{number}") for number in range(100))
            )
            began = time.perf_counter()
            claimed = await app.store.claim("bench", "default", ["async_steps"], 100)
            spent.append(1_000 * (time.perf_counter() - began))
            assert len(claimed) == 100
    await app.store.close()
    return spent


def rows(bench: Bench) -> Sequence[Row]:
    """The rows, with raw statements on the same server as yardsticks."""
    one_step, one_in_threads = sequential.ROWS
    [many] = concurrent.ROWS
    [parked] = answered.ROWS
    over_http = resumed.ROWS[2]
    return (
        _row(one_step, bench, "commits", target_ratio=0.6),
        _row(one_in_threads, bench, "commits", target_ratio=0.6),
        _row(many, bench, "batches", target=4_000),
        Row(
            "across",
            across,
            bench.commit,
            (
                Line(
                    "wait",
                    "answer in one process to next line in another",
                    "ms",
                    target=6,
                    less_is_better=True,
                ),
            ),
            lambda sizes: sizes.answers,
        ),
        _row(over_http, bench, "commit", target=None),
        paced.row(bench.commit),
        _row(parked, bench, "batches", target=None),
        Row(
            "workers",
            workers,
            bench.batches,
            (
                Line("one", "1,000 runs of 10 steps, one worker process", "steps/s"),
                Line("two", "... two worker processes", "steps/s"),
                Line("gain", "... two to one", "x", target=1.6, has_ratio=False),
            ),
            lambda sizes: sizes.many_runs * STEPS,
        ),
        Row(
            "claims",
            claims,
            bench.commit,
            (
                Line("few", "claiming 100 runs, nothing else in the tables", "ms", less_is_better=True),
                Line("many", "... beside millions of finished and paused runs", "ms", less_is_better=True),
                Line("growth", "... to the former", "x", target=1.3, less_is_better=True, has_ratio=False),
            ),
            lambda sizes: 20,
            most_rounds=1,
        ),
        inbox.row(bench.commit),
        *resonate.rows(bench.commit, bench.batches),
    )


def _row(
    row: Row, bench: Bench, yardstick: str, *, target: float | None = None, target_ratio: float | None = None
) -> Row:
    """A row of SQLite's, with the target for Postgres in its first line."""
    first = replace(row.lines[0], target=target, target_ratio=target_ratio)
    others = tuple(replace(line, target=None) for line in row.lines[1:])
    return replace(row, yardstick=getattr(bench, yardstick), lines=(first, *others))
