"""Runs with large arguments: a worker computes few of them at once, and none waits for another's memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from signoff import AsyncClient, Context, RunState, Signoff
from signoff.engine.worker import memory_load
from signoff.engine.worker.worker import Worker
from signoff.errors import StoreUnavailable
from signoff.observability import events
from signoff.stores.contract.leases import Claim, Write
from tests.support import comes, doomed_worker, in_asyncio, new_app, opened, pauses, reaches

SIZE = 100 * 1024
BOUND = 4 * SIZE
LARGE = "x" * SIZE
NEVER = 3600.0
"""Between the looks of workers, each of which may pass the bound."""


@pytest.fixture(autouse=True)
def bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_load, "LOAD_BYTES", BOUND)


@dataclass
class Gate:
    """Holds up a method of a store, and counts the calls that it holds up."""

    store: Any
    method: str
    at_once: int = 0
    most: int = 0
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._through: Callable[..., Awaitable[Any]] = getattr(self.store, self.method)
        setattr(self.store, self.method, self)

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await self.opened.wait()
            return await self._through(*args, **kwargs)
        finally:
            self.at_once -= 1


async def _ends(client: AsyncClient, handles: list[Any]) -> list[Any]:
    return [await handle.result(60) for handle in handles]


def _measuring(app: Signoff) -> Callable[..., Any]:
    @app.workflow
    async def measuring(ctx: Context, text: str) -> int:
        return len(text)

    return measuring


async def _is_full(worker: Worker) -> bool:
    return worker.load.room == 0


@in_asyncio
async def test_few_are_computed_at_once_and_all_end(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    flow = _measuring(app)
    async with opened(app) as client:
        handles = [await client.start(flow, LARGE) for _ in range(20)]
        gate = Gate(app.store, "complete")
        async with doomed_worker(app, look_seconds=NEVER) as worker:
            await comes(lambda: _is_full(worker))
            await comes(lambda: _counts(gate, len(worker.held)))
            gate.opened.set()
            assert await _ends(client, handles) == [SIZE] * 20
            await comes(lambda: _is_done(worker))
            assert worker.load.bytes == 0
    assert 2 <= gate.most <= 5  # of 100 KiB and a little, and one more


async def _counts(gate: Gate, held: int) -> bool:
    return gate.at_once == held


async def _is_done(worker: Worker) -> bool:
    return not worker.held


@in_asyncio
async def test_one_that_is_larger_than_the_bound_goes_on(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    flow = _measuring(app)
    async with opened(app) as client:
        handles = [await client.start(flow, "x" * (BOUND + 1)) for _ in range(4)]
        async with doomed_worker(app, look_seconds=NEVER):
            assert await _ends(client, handles) == [BOUND + 1] * 4


@in_asyncio
async def test_small_runs_are_not_counted(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    flow = _measuring(app)
    async with opened(app) as client:
        handles = [await client.start(flow, "x" * 15_000) for _ in range(100)]
        gate = Gate(app.store, "complete")
        async with doomed_worker(app, look_seconds=NEVER) as worker:
            await comes(lambda: _counts(gate, 100))
            assert worker.load.bytes == 0
            gate.opened.set()
            assert await _ends(client, handles) == [15_000] * 100


@pytest.mark.parametrize("concurrency", [2, 1000])
@in_asyncio
async def test_parents_do_not_keep_their_children_from_beginning(tmp_path: Path, concurrency: int) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def family(ctx: Context, text: str, below: int) -> int:
        if below == 0:
            return len(text)
        children = [ctx.rfc(family, text, below - 1) for _ in range(3)]
        return sum(await asyncio.gather(*children))

    async with opened(app) as client:
        handles = [await client.start(family, "x" * BOUND, 2) for _ in range(3)]
        async with doomed_worker(app, look_seconds=NEVER, concurrency=concurrency):
            assert await _ends(client, handles) == [9 * BOUND] * 3


@in_asyncio
async def test_a_step_that_waits_for_another_run_does_not_keep_it_from_beginning(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    flow = _measuring(app)

    @app.workflow
    async def asking(ctx: Context, text: str) -> int:
        async def ask() -> int:
            handle = await client.start(flow, text)
            return await handle.result(60)

        return await ctx.step("ask", ask)

    async with opened(app) as client:
        handles = [await client.start(asking, LARGE) for _ in range(10)]
        async with doomed_worker(app, look_seconds=NEVER):
            assert await _ends(client, handles) == [SIZE] * 10


@pytest.mark.parametrize("hot_runs", [0, 5000])
@in_asyncio
async def test_paused_runs_that_wake_are_few_at_once_and_all_end(tmp_path: Path, hot_runs: int) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def waiting(ctx: Context, text: str) -> int:
        return len(text) + await ctx.wait_for_signal("go", returns=int)

    async with opened(app) as client:
        handles = [await client.start(waiting, LARGE) for _ in range(20)]
        async with doomed_worker(app, look_seconds=NEVER, hot_runs=hot_runs) as worker:
            for handle in handles:
                await pauses(app, handle.id)
            await comes(lambda: _is_done(worker))
            assert worker.load.bytes == 0  # what waits for an answer is not counted
            gate = Gate(app.store, "complete")
            for handle in handles:
                await client.signal(handle.id, "go", 1)
            await comes(lambda: _is_full(worker))
            await comes(lambda: _counts(gate, len(worker.held)))
            gate.opened.set()
            assert await _ends(client, handles) == [SIZE + 1] * 20
    assert gate.most <= 5


@in_asyncio
async def test_turns_of_sessions_follow_one_another(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    flow = _measuring(app)
    async with opened(app) as client:
        handles = [await client.start(flow, "x" * BOUND, session_id=f"s{n % 3}") for n in range(12)]
        async with doomed_worker(app, look_seconds=NEVER):
            assert await _ends(client, handles) == [BOUND] * 12


@in_asyncio
async def test_large_journals_and_messages_count_as_arguments_do(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def reading(ctx: Context) -> int:
        text = await ctx.wait_for_signal("text", returns=str)
        return len(text) + len(await ctx.wait_for_signal("go", returns=str))

    async with opened(app) as client:
        handles = [await client.start(reading) for _ in range(10)]
        async with doomed_worker(app, look_seconds=NEVER, hot_runs=0) as worker:
            for handle in handles:
                await client.signal(handle.id, "text", LARGE)
            for handle in handles:
                await comes(lambda run_id=handle.id: _has_read(app, run_id))
            await comes(lambda: _is_done(worker))
        gate = Gate(app.store, "complete")
        async with doomed_worker(app, look_seconds=NEVER, hot_runs=0) as worker:
            await client.signal(handles[0].id, "go", "y")
            await comes(lambda: _counts(gate, 1))
            assert worker.load.bytes > SIZE
            gate.opened.set()
            for handle in handles[1:]:
                await client.signal(handle.id, "go", LARGE)
            assert await _ends(client, handles) == [SIZE + 1] + [2 * SIZE] * 9
            await comes(lambda: _is_done(worker))
            assert worker.load.bytes == 0


async def _has_read(app: Signoff, run_id: str) -> bool:
    run = await app.store.get_run(run_id)
    return run.state is RunState.PAUSED and len(await app.store.read_journal(run_id)) >= 2


@in_asyncio
async def test_what_a_worker_held_when_it_stopped_ends_elsewhere(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    flow = _measuring(app)
    async with opened(app) as client:
        handles = [await client.start(flow, LARGE) for _ in range(20)]
        held_up = app.store.complete
        gate = Gate(app.store, "complete")
        async with doomed_worker(app, look_seconds=NEVER) as worker:
            await comes(lambda: _is_full(worker))
            await comes(lambda: _counts(gate, len(worker.held)))
            await worker.drain(grace_seconds=0)
        assert worker.load.bytes == 0
        app.store.complete = held_up
        async with doomed_worker(app, look_seconds=NEVER):
            assert await _ends(client, handles) == [SIZE] * 20


async def _claims_large_after_small(
    app: Signoff, client: AsyncClient, worker: Worker, gate: Gate
) -> list[Any]:
    """Have a worker that has learned that runs are small claim thirty large ones at once. All are held, few begin."""
    small = [await client.start("measuring", "x") for _ in range(30)]
    gate.opened.set()
    await _ends(client, small)
    await comes(lambda: _is_done(worker))
    gate.opened.clear()
    gate.most = 0
    await client.groups.pause("default")
    large = [await client.start("measuring", LARGE) for _ in range(30)]
    await client.groups.resume("default")
    await comes(lambda: _holds(worker, 30))
    await comes(lambda: _is_full(worker))
    await comes(lambda: _counts(gate, 4))
    return large


async def _holds(worker: Worker, count: int) -> bool:
    return len(worker.held) == count


@in_asyncio
async def test_of_large_runs_claimed_after_small_ones_few_begin_at_once(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    _measuring(app)
    gate = Gate(app.store, "complete")
    async with opened(app) as client, doomed_worker(app, look_seconds=NEVER) as worker:
        handles = await _claims_large_after_small(app, client, worker, gate)
        gate.opened.set()
        assert await _ends(client, handles) == [SIZE] * 30
        await comes(lambda: _is_done(worker))
        assert worker.load.bytes == 0
    assert gate.most <= 5


@in_asyncio
async def test_runs_that_wait_to_begin_are_given_back_when_their_worker_stops(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    _measuring(app)
    through = app.store.complete
    gate = Gate(app.store, "complete")
    async with opened(app) as client:
        async with doomed_worker(app, look_seconds=NEVER) as worker:
            handles = await _claims_large_after_small(app, client, worker, gate)
            await worker.drain(grace_seconds=0)
        assert worker.load.bytes == 0
        app.store.complete = through
        async with doomed_worker(app, look_seconds=NEVER):
            assert await _ends(client, handles) == [SIZE] * 30


@in_asyncio
async def test_runs_of_a_dead_worker_are_taken_over(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    flow = _measuring(app)
    async with opened(app) as client:
        handles = [await client.start(flow, LARGE) for _ in range(20)]
        assert len(await app.store.claim("dead", "default", ["measuring"], 15)) == 15
        async with doomed_worker(app, look_seconds=NEVER) as worker:
            assert await _ends(client, handles[15:]) == [SIZE] * 5
            await app.store.release("dead", dead=True)
            assert await _ends(client, handles) == [SIZE] * 20
            await comes(lambda: _is_done(worker))
            assert worker.load.bytes == 0


@in_asyncio
async def test_runs_that_cannot_be_written_do_not_keep_others_from_beginning(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    flow = _measuring(app)
    written = app.store.complete
    refused: set[str] = set()

    async def complete(write: Write, *args: Any) -> None:
        if write.run_id in refused:
            raise StoreUnavailable(app.store.location, "its row is refused")
        await written(write, *args)

    app.store.complete = complete
    async with opened(app) as client:
        bad = [await client.start(flow, "x" * BOUND) for _ in range(5)]
        refused.update(handle.id for handle in bad)
        good = [await client.start(flow, LARGE) for _ in range(5)]
        async with doomed_worker(app, look_seconds=NEVER):
            assert await _ends(client, good) == [SIZE] * 5
            refused.clear()
            assert await _ends(client, bad) == [BOUND] * 5


@in_asyncio
async def test_a_look_passes_the_bound(tmp_path: Path) -> None:
    """What is computed may wait in a way that the worker does not know: here for a store."""
    app = new_app(tmp_path)
    flow = _measuring(app)
    async with opened(app) as client:
        handles = [await client.start(flow, "x" * BOUND) for _ in range(4)]
        gate = Gate(app.store, "complete")
        async with doomed_worker(app, look_seconds=0.01):
            await comes(lambda: _counts(gate, 4))
            gate.opened.set()
            assert await _ends(client, handles) == [BOUND] * 4


@pytest.mark.parametrize("method", ["pause", "complete"])
@in_asyncio
async def test_a_lease_that_is_given_back_is_not_lost(
    tmp_path: Path, method: str, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    """Leases are extended between the write that gives one back and the moment at which the worker hears of it."""
    app = new_app(tmp_path)
    begun: list[str] = []
    said: list[str] = []
    request.addfinalizer(events.subscribe(lambda event: said.append(type(event).__name__)))

    @app.workflow
    async def flow(ctx: Context) -> int:
        begun.append(ctx.run_id)
        return await ctx.wait_for_signal("go", returns=int)

    write = getattr(app.store, method)
    async with opened(app) as client, doomed_worker(app, look_seconds=NEVER) as worker:

        async def beats_meanwhile(*args: Any, **kwargs: Any) -> Any:
            done = await write(*args, **kwargs)
            assert worker._leases is not None
            await worker._leases.extend()
            for _ in range(3):  # the worker hears of what was lost
                await asyncio.sleep(0)
            return done

        setattr(app.store, method, beats_meanwhile)
        handle = await client.start(flow, id="r")
        await pauses(app, "r")
        await comes(lambda: _is_done(worker))
        with caplog.at_level(logging.INFO, "signoff.worker"):
            await client.signal("r", "go", 3)
            assert await handle.result(60) == 3
            await comes(lambda: _is_done(worker))
    assert begun == ["r"]  # it was kept in memory
    assert [each for each in said if each.startswith("Run")] == [
        "RunClaimed",
        "RunPaused",
        "RunClaimed",
        "RunEnded",
    ]
    assert "is lost" not in caplog.text


@in_asyncio
async def test_a_lease_that_is_lost_while_it_is_given_back_changes_nothing(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    flow = _measuring(app)
    async with opened(app) as client:
        handle = await client.start(flow, LARGE, id="r")
        through = app.store.complete
        gate = Gate(app.store, "complete")
        async with doomed_worker(app, look_seconds=NEVER) as first:
            await comes(lambda: _counts(gate, 1))
            first.draining = True  # it claims nothing more
            await app.store.release(first.info.id)
            [claim] = await app.store.claim("second", "default", ["measuring"], 1)
            assert isinstance(claim, Claim)
            assert first._leases is not None
            await first._leases.extend()
            gate.opened.set()
            await comes(lambda: _is_done(first))
            assert (await app.store.get_run("r")).state is RunState.RUNNING
            assert first.load.bytes == 0
        app.store.complete = through
        await app.store.release("second")
        async with doomed_worker(app):
            assert await handle.result(60) == SIZE
            await reaches(app, "r", RunState.SUCCEEDED)
