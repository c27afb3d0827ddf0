"""A paused run holds nothing, loses no answer, and its code is never closed before its end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import sqlite3
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from signoff import AsyncClient, Context, RunState, Signoff
from signoff.engine.run.execution import Execution
from signoff.errors import StoreUnavailable
from signoff.records import EntryKind, Message
from signoff.stores.contract.leases import Write
from signoff.stores.sqlite.store import SqliteStore
from tests.stores.scene import multiply
from tests.support import doomed_worker, in_asyncio, journaled, new_app, opened, pauses, running, until

SEED = int(os.environ.get("SIGNOFF_SEED", "20260714"))

# What it holds


class Large:
    """Something in a workflow's memory."""


async def forget_cancelled_timers() -> None:
    """Have asyncio drop cancelled timers, which it keeps until they are more than half of all and over a hundred."""
    loop = asyncio.get_running_loop()
    for timer in [loop.call_later(60, print) for _ in range(2_000)]:
        timer.cancel()
    await asyncio.sleep(0)


def is_dead_reference(value: object) -> bool:
    """Tell whether `value` is a reference to nothing, of which `sqlite3` keeps some hundreds per connection."""
    return type(value) is weakref.ReferenceType and value() is None


@in_asyncio
async def test_a_paused_run_holds_no_lease_and_no_task(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.wait_for_user("one?"))
            group.create_task(ctx.sleep(3600))

    async with opened(app) as client, doomed_worker(app) as worker:
        tasks: list[int] = []
        for n in range(20):
            await client.start(flow, id=f"r{n}")
            run = await pauses(app, f"r{n}")
            assert (run.worker_id, run.lease_until) == (None, None)
            async with asyncio.timeout(60):
                while worker.held:  # the row may be seen before its worker hears of the commit
                    await asyncio.sleep(0)
            tasks.append(len(asyncio.all_tasks()))
        assert tasks[-1] <= tasks[0] + 1


@in_asyncio
async def test_a_worker_keeps_nothing_of_the_paused_runs_it_let_go(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> None:
        await ctx.wait_for_signal("go")

    async with opened(app) as client, doomed_worker(app, hot_runs=0) as worker:

        async def objects_after(first: int, last: int) -> int:
            for n in range(first, last):
                await client.start(flow, id=f"r{n}")
            for n in range(first, last):
                await pauses(app, f"r{n}")
            async with asyncio.timeout(60):
                while worker.held:
                    await asyncio.sleep(0)
            await forget_cancelled_timers()
            gc.collect()
            return sum(not is_dead_reference(each) for each in gc.get_objects())

        before = await objects_after(0, 100)
        assert await objects_after(100, 900) - before < 800  # not even one object a run


@in_asyncio
async def test_its_memory_is_freed_when_it_is_evicted(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    alive: weakref.WeakSet[Large] = weakref.WeakSet()

    @app.workflow
    async def flow(ctx: Context) -> None:
        large = Large()
        alive.add(large)
        with contextlib.suppress(LookupError):
            await asyncio.gather(ctx.wait_for_user("one?"), ctx.wait_for_signal("two"))
        del large

    async with opened(app) as client, doomed_worker(app, hot_runs=3) as worker:
        for n in range(10):
            await client.start(flow, id=f"r{n}")
            await pauses(app, f"r{n}")
        while worker.held:  # it hears of its own commit later than we do
            await asyncio.sleep(0.001)
        gc.collect()
        assert len(alive) == 3
        worker.evict()
        gc.collect()
        assert len(alive) == 0


async def _asks(ctx: Context, below: int) -> object:
    return await (_asks(ctx, below - 1) if below else ctx.wait_for_user("?"))


async def _says_what_is_asked(ctx: Context, below: int) -> AsyncGenerator[object]:
    yield await _asks(ctx, below)


async def _plain(ctx: Context) -> None:
    await _asks(ctx, 0)


async def _side_by_side(ctx: Context) -> None:
    await asyncio.gather(*(_asks(ctx, 0) for _ in range(15)))


async def _deep(ctx: Context) -> None:
    await _asks(ctx, 50)


async def _deep_in_a_generator(ctx: Context) -> None:
    async for _ in _says_what_is_asked(ctx, 50):
        pass


async def _large(ctx: Context) -> None:
    await asyncio.gather(*(_asks(ctx, 100) for _ in range(10)))


@pytest.mark.parametrize(
    ("flow", "hot"),
    [
        (_plain, range(25, 26)),
        (_side_by_side, range(11, 25)),
        (_deep, range(11, 25)),
        (_deep_in_a_generator, range(11, 25)),
        (_large, range(10, 11)),  # none counts for more than a tenth
    ],
)
@in_asyncio
async def test_how_many_stay_in_memory_is_reckoned_by_what_they_weigh(
    tmp_path: Path, flow: Callable[[Context], Awaitable[None]], hot: range
) -> None:
    app = new_app(tmp_path)
    alive: weakref.WeakSet[Large] = weakref.WeakSet()

    @app.workflow
    async def weighed(ctx: Context) -> None:
        large = Large()
        alive.add(large)
        await flow(ctx)
        del large

    async with opened(app) as client, doomed_worker(app, hot_runs=100) as worker:
        for n in range(25):
            await client.start(weighed, id=f"r{n}")
            await pauses(app, f"r{n}")
        while worker.held:  # it hears of its own commit later than we do
            await asyncio.sleep(0.001)
        gc.collect()
        assert len(alive) in hot


@in_asyncio
async def test_its_memory_is_freed_when_it_waits_in_a_cancel_scope_of_anyio(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    alive: weakref.WeakSet[Large] = weakref.WeakSet()
    left: list[int] = []

    @app.workflow
    async def flow(ctx: Context, n: int) -> None:
        large = Large()
        alive.add(large)
        try:
            with anyio.CancelScope():
                async with anyio.create_task_group() as group:
                    group.start_soon(_wait_for, ctx.wait_for_user("one?"))
                    await ctx.wait_for_signal("two")
        finally:
            left.append(n)
        del large

    async with opened(app) as client, doomed_worker(app) as worker:
        for n in range(3):
            await client.start(flow, n, id=f"r{n}")
            await pauses(app, f"r{n}")
        while worker.held:  # it hears of its own commit later than we do
            await asyncio.sleep(0.001)
        gc.collect()
        assert len(alive) == 3
        worker.evict()
        gc.collect()
        assert (len(alive), left) == (0, [])
        for question in (await client.questions()).items:
            await client.answer(question.id, True)
            await client.signal(question.run_id or "", "two")
        for n in range(3):
            await (await client.get(f"r{n}")).result(60)
        assert sorted(left) == [0, 1, 2]


async def _wait_for(awaitable: Awaitable[object]) -> None:
    await awaitable


@pytest.mark.parametrize(("hot_runs", "beginnings"), [(100, 1), (0, 4)])
@in_asyncio
async def test_a_hot_run_goes_on_without_replay_and_a_cold_one_is_replayed(
    tmp_path: Path, hot_runs: int, beginnings: int
) -> None:
    app = new_app(tmp_path)
    begun: list[int] = []

    @app.workflow
    async def flow(ctx: Context) -> list[Any]:
        begun.append(1)
        return [await ctx.wait_for_signal("go") for _ in range(3)]

    async with running(app, hot_runs=hot_runs) as client:
        run = await client.start(flow, id="r")
        for n in range(3):
            await pauses(app, "r")
            await asyncio.sleep(0)
            await run.signal("go", n)
            if n < 2:
                await _has_taken(app, n + 1)
        assert await run.result(60) == [0, 1, 2]
        assert len(begun) == beginnings


async def _has_taken(app: Signoff, signals: int) -> None:
    async def look() -> bool:
        return len(await journaled(app, "r", EntryKind.SIGNALLED)) == signals

    await until(app, look)


@in_asyncio
async def test_a_run_that_another_worker_advanced_is_not_continued_from_memory(tmp_path: Path) -> None:
    # With such a lease an error of the first worker would stop the run for good.
    app, other = (Signoff(SqliteStore(tmp_path / "signoff.db", lease_seconds=3600)) for _ in range(2))

    async def flow(ctx: Context) -> list[Any]:
        return [await ctx.wait_for_signal("go") for _ in range(3)]

    for each in (app, other):
        each.workflow(name="flow")(flow)
    async with opened(app) as client, opened(other):
        run = await client.start("flow", id="r")
        async with doomed_worker(app) as first:
            await pauses(app, "r")
            first.draining = True  # it keeps what it has and claims nothing
            async with doomed_worker(other):
                await run.signal("go", 1)
                await _has_taken(app, 1)
                await pauses(app, "r")
            first.draining = False
            await run.signal("go", 2)
            await _has_taken(app, 2)
            await run.signal("go", 3)
            assert await run.result(60) == [1, 2, 3]


@in_asyncio
async def test_a_run_that_has_ended_is_freed_without_the_collector(tmp_path: Path) -> None:
    """Each may hold a MiB of arguments, and a busy worker's collector seldom looks."""
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> int:
        return await ctx.step("one", lambda: 1)

    gc.collect()
    before = sum(type(each) is Execution for each in gc.get_objects())
    gc.disable()
    try:
        async with running(app) as client:
            for _ in range(50):
                assert await (await client.start(flow)).result(60) == 1
            assert sum(type(each) is Execution for each in gc.get_objects()) - before < 10
    finally:
        gc.enable()


# No lost wake-up


_reached: dict[str, asyncio.Event] = {}  # by promise; no part of the workflow, which only sets them


@pytest.mark.timeout(400)  # seconds; it takes 5 on an idle machine
@in_asyncio
async def test_no_answer_is_lost_in_thousands_of_races_with_a_pause(tmp_path: Path) -> None:
    """Each answer comes some turns of the loop after the code has come to wait for it, and none comes after it."""
    print(f"SIGNOFF_SEED={SEED}")
    chance = random.Random(SEED)
    app = new_app(tmp_path)
    runs, times = 80, 25

    @app.workflow
    async def flow(ctx: Context) -> int:
        total = 0
        for n in range(times):
            _reached[f"{ctx.run_id}-{n}"].set()
            if n % 2:
                total += await ctx.wait_for_signal("number")
            else:
                total += await (await ctx.promise(id=f"{ctx.run_id}-{n}"))
        return total

    async def settle(client: AsyncClient, run_id: str) -> None:
        for n in range(times):
            await _reached[f"{run_id}-{n}"].wait()
            for _ in range(chance.randrange(12)):
                await asyncio.sleep(0)
            if n % 2:
                await client.signal(run_id, "number", n)
            else:
                await client.promises.resolve(f"{run_id}-{n}", n)

    async with running(app, hot_runs=50) as client:
        _reached.update({f"r{run}-{n}": asyncio.Event() for run in range(runs) for n in range(times)})
        await asyncio.gather(
            *(client.promises.create(f"r{run}-{n}") for run in range(runs) for n in range(0, times, 2))
        )
        started = [await client.start(flow, id=f"r{n}") for n in range(runs)]
        async with asyncio.timeout(300):
            await asyncio.gather(*(settle(client, run.id) for run in started))
        for run in started:
            assert await run.result(60) == sum(range(times))
    _reached.clear()


@pytest.mark.long
@in_asyncio
async def test_a_worker_holds_nothing_of_100_000_paused_runs_and_resumes_any(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> bool:
        return (await ctx.wait_for_user("ok?")).approved

    async with opened(app) as client:
        await client.start(flow, id="r0")
        async with app.worker():
            await pauses(app, "r0")
        with closing(sqlite3.connect(tmp_path / "signoff.db")) as db, db:
            for table in ("runs", "promises", "journal"):
                multiply(db, table, 100_000)
        gc.collect()
        before = len(gc.get_objects())
        async with app.worker():
            for id in ("r1", "r77777", "r99999"):
                await client.answer(f"{id}.1", True)
                assert await (await client.get(id)).result(60) is True
            gc.collect()
            assert len(gc.get_objects()) - before < 5_000
        assert len((await client.list(states=[RunState.PAUSED], limit=10)).items) == 10


class _CutOff(SqliteStore):
    """Loses the first pause, after a signal has come and the worker has seen it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.pauses = 0
        self.read = asyncio.Event()

    async def pause(self, write: Write, *, wakes: int, wake_at: float | None) -> bool:
        self.pauses += 1
        if self.pauses == 1:
            await self.signal("r", "go", '"came"')
            await self.read.wait()
            raise StoreUnavailable(self.location, "the cable was cut")
        return await super().pause(write, wakes=wakes, wake_at=wake_at)

    async def read_messages(self, run_ids: Sequence[str]) -> Sequence[tuple[Message, int]]:
        messages = await super().read_messages(run_ids)
        if messages:
            self.read.set()
        return messages


@in_asyncio
async def test_a_signal_during_a_repeated_pause_is_not_slept_through(tmp_path: Path) -> None:
    store = _CutOff(tmp_path / "signoff.db")
    app = Signoff(store)

    @app.workflow
    async def flow(ctx: Context) -> object:
        return await ctx.wait_for_signal("go")

    async with running(app) as client:
        run = await client.start("flow", id="r")
        assert await run.result(60) == "came"
    assert store.pauses >= 2
