"""A paused run holds nothing, loses no answer, and its code is never closed before its end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import subprocess
import sys
import textwrap
import weakref
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from signoff import AsyncClient, Context, RunCancelled, RunState, Signoff
from signoff.engine.worker import Worker
from tests.support import doomed_worker, in_asyncio, new_app, opened, pauses, running

SEED = int(os.environ.get("SIGNOFF_SEED", "20260714"))

# What it holds


class Large:
    """Something in a workflow's memory."""


@in_asyncio
async def test_a_paused_run_holds_no_lease_and_no_task(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.wait_for_user("one?"))
            group.create_task(ctx.sleep(3600))

    async with opened(app) as client, doomed_worker(app) as worker:
        before = len(asyncio.all_tasks())
        for n in range(20):
            await client.start(flow, id=f"r{n}")
        for n in range(20):
            run = await pauses(app, f"r{n}")
            assert (run.worker_id, run.lease_until) == (None, None)
        await asyncio.sleep(0)
        assert list(worker.held) == []
        assert len(asyncio.all_tasks()) <= before + 1


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
        await asyncio.sleep(0)
        gc.collect()
        assert len(alive) == 3
        worker.evict()
        gc.collect()
        assert len(alive) == 0


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
        assert await run.result(10) == [0, 1, 2]
        assert len(begun) == beginnings


async def _has_taken(app: Signoff, signals: int) -> None:
    from signoff.records import EntryKind
    from tests.support import journaled, until

    async def look() -> bool:
        return len(await journaled(app, "r", EntryKind.SIGNALLED)) == signals

    await until(app, look)


@in_asyncio
async def test_a_run_that_another_worker_moved_on_is_not_gone_on_with_from_memory(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    other = new_app(tmp_path)

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
            assert await run.result(10) == [1, 2, 3]


# What its code notices: nothing

ended: list[str] = []


class _With:
    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None:
        ended.append("with")

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *error: object) -> None:
        ended.append("async with")


@contextlib.contextmanager
def _managed() -> Iterator[None]:
    try:
        yield
    finally:
        ended.append("contextmanager")


@contextlib.asynccontextmanager
async def _async_managed() -> AsyncIterator[None]:
    try:
        yield
    finally:
        ended.append("asynccontextmanager")


async def _numbers(ctx: Context) -> AsyncIterator[int]:
    try:
        yield 1
        await ctx.wait_for_signal("go")
        yield 2
    finally:
        ended.append("async generator")


def _generating() -> Iterator[int]:
    try:
        yield 1
        yield 2
    finally:
        ended.append("generator")


async def _with_blocks(ctx: Context) -> None:
    with _With():
        async with _With():
            await ctx.wait_for_signal("go")


async def _managers(ctx: Context) -> None:
    with _managed():
        async with _async_managed():
            await ctx.wait_for_signal("go")


async def _exit_stacks(ctx: Context) -> None:
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(_async_managed())
        with contextlib.ExitStack() as inner:
            inner.enter_context(_managed())
            inner.callback(ended.append, "callback")
            await ctx.wait_for_signal("go")


async def _generators(ctx: Context) -> None:
    generating = _generating()
    next(generating)
    async for _ in _numbers(ctx):
        pass
    next(generating)
    assert next(generating, None) is None


async def _nested_tasks(ctx: Context) -> None:
    async def wait(name: str) -> None:
        try:
            with _managed():
                await ctx.wait_for_signal("go")
        finally:
            ended.append(name)

    async with asyncio.TaskGroup() as group, asyncio.timeout(3600):
        group.create_task(wait("task"))
        await asyncio.shield(
            ctx.lfc(lambda child: wait("never called")) if False else asyncio.create_task(wait("inner"))
        )


async def _catches_everything(ctx: Context) -> None:
    try:
        await ctx.wait_for_signal("go")
    except Exception as error:
        ended.append(f"except Exception: {error!r}")
    except BaseException as error:
        ended.append(f"except BaseException: {error!r}")
        raise
    else:
        ended.append("else")
    finally:
        ended.append("finally")


CODES = {
    _with_blocks: ["async with", "with"],
    _managers: ["asynccontextmanager", "contextmanager"],
    _exit_stacks: ["callback", "contextmanager", "asynccontextmanager"],
    _generators: ["async generator", "generator"],
    _nested_tasks: ["contextmanager", "task", "contextmanager", "inner"],
    _catches_everything: ["else", "finally"],
}
BY_NAME = {code.__name__: code for code in CODES}


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.__name__.strip("_"))
@in_asyncio
async def test_code_is_closed_when_its_run_ends_and_not_at_pause_eviction_or_a_workers_stop(
    tmp_path: Path, code: Any
) -> None:
    ended.clear()
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> str:
        await code(ctx)
        return "done"

    signals = 2 if code is _nested_tasks else 1
    async with opened(app) as client:
        run = await client.start(flow, id="r")
        async with doomed_worker(app) as worker:
            await pauses(app, "r")
            await asyncio.sleep(0)
            assert ended == [], "at pause"
            worker.evict()
            gc.collect()
            assert ended == [], "at eviction"
            await run.signal("other")
            await pauses(app, "r")
        gc.collect()
        assert ended == [], "when the worker was torn away"
        async with app.worker():
            await run.signal("other")
            await pauses(app, "r")
        gc.collect()
        assert ended == [], "when the worker stopped in order"
        async with app.worker():
            for _ in range(signals):
                await run.signal("go")
            assert await run.result(10) == "done"
        gc.collect()
        assert ended == CODES[code]


@in_asyncio
async def test_a_worker_that_stops_while_a_step_runs_closes_no_workflow_code(tmp_path: Path) -> None:
    ended.clear()
    app = new_app(tmp_path)
    begun = asyncio.Event()

    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    @app.workflow
    async def flow(ctx: Context) -> None:
        try:
            with _managed():
                await ctx.step(endless)
        except BaseException as error:
            ended.append(repr(error))
            raise

    async with opened(app) as client:
        run = await client.start(flow, id="r")
        async with doomed_worker(app):
            await begun.wait()
        gc.collect()
        assert ended == []
        async with app.worker(grace_seconds=0):
            await run.cancel()
            with pytest.raises(RunCancelled):
                await run.result(10)
        assert ended == ["contextmanager", "CancelledError()"]


PROCESS = """
import sys
from pathlib import Path
from tests.engine.test_pause import BY_NAME, ended, new_app, pauses
import asyncio

app = new_app(Path(sys.argv[1]))
ended_here = ended

class Telling(list):
    def append(self, what):
        print("ended", what, flush=True)

import tests.engine.test_pause as module
module.ended = Telling()

for name, code in BY_NAME.items():
    app.workflow(name=name)(code)

with app.worker() as worker:
    for name in BY_NAME:
        app.start(name, id=name)
        app._client._background.call(pauses(app, name), "pauses")
    print("paused", flush=True)
    if sys.argv[2] == "inside":
        sys.exit()
    kept = dict(worker._worker._hot)
"""


@pytest.mark.parametrize("where", ["inside", "after"])
def test_a_process_that_ends_closes_no_workflow_code(tmp_path: Path, where: str) -> None:
    script = tmp_path / "process.py"
    script.write_text(textwrap.dedent(PROCESS))
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), where],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(root)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["paused"]


# No lost wake-up


@pytest.mark.timeout(110)
@in_asyncio
async def test_no_answer_is_lost_in_ten_thousand_races_with_a_pause(tmp_path: Path) -> None:
    """Answers come at random moments around the pause: before the question is journaled, while the run pauses, after."""
    print(f"SIGNOFF_SEED={SEED}")
    chance = random.Random(SEED)
    app = new_app(tmp_path)
    races, runs = 10_000, 100

    @app.workflow
    async def flow(ctx: Context, times: int) -> int:
        total = 0
        for n in range(times):
            total += await ctx.wait_for_signal("number") if n % 2 else await (await ctx.promise())
        return total

    async def settle(client: AsyncClient, run_id: str) -> None:
        for n in range(races // runs):
            for _ in range(chance.randrange(12)):
                await asyncio.sleep(0)
            if n % 2:
                await client.signal(run_id, "number", n)
            else:
                await _resolve(client, f"{run_id}.{n + 1}", n)

    async def _resolve(client: AsyncClient, promise_id: str, value: int) -> None:
        from signoff import NotFound

        while True:
            try:
                await client.promises.resolve(promise_id, value)
            except NotFound:
                await asyncio.sleep(0)
            else:
                return

    async with running(app, hot_runs=50) as client:
        started = [await client.start(flow, races // runs, id=f"r{n}") for n in range(runs)]
        async with asyncio.timeout(100):
            await asyncio.gather(*(settle(client, run.id) for run in started))
            for run in started:
                assert await run.result(20) == sum(range(races // runs))
                assert await run.status() is RunState.SUCCEEDED
    assert Worker.__name__
