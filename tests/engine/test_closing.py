"""Workflow code is closed when its run really ends, not at pauses, evictions and stops."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from signoff import Context, RunCancelled
from tests.support import doomed_worker, in_asyncio, new_app, opened, pauses

SEED = int(os.environ.get("SIGNOFF_SEED", "20260714"))

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


async def _exit_stack(ctx: Context) -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(_managed())
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
        await asyncio.shield(asyncio.create_task(wait("inner")))


async def _keeps_calls_for_later(ctx: Context) -> None:
    calls = [ctx.wait_for_signal("go"), ctx.step("later", lambda: None), ctx.lfc(_with_blocks)]
    await calls[0]
    await calls[1]
    calls[2].options(timeout=3600)
    await calls[2]


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
    _exit_stack: ["contextmanager"],
    _exit_stacks: ["callback", "contextmanager", "asynccontextmanager"],
    _generators: ["async generator", "generator"],
    _nested_tasks: ["contextmanager", "task", "contextmanager", "inner"],
    _keeps_calls_for_later: ["async with", "with"],
    _catches_everything: ["else", "finally"],
}
BY_NAME = {code.__name__: code for code in CODES}


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.__name__.strip("_"))
@in_asyncio
async def test_code_is_closed_when_its_run_ends_not_at_pause_eviction_or_stop(
    tmp_path: Path, code: Any
) -> None:
    ended.clear()
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> str:
        await code(ctx)
        return "done"

    signals = 2 if code in (_nested_tasks, _keeps_calls_for_later) else 1
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
            assert await run.result(60) == "done"
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
                await run.result(60)
        assert ended == ["contextmanager", "CancelledError()"]


@in_asyncio
async def test_a_worker_that_stops_during_a_rebuild_closes_no_workflow_code(tmp_path: Path) -> None:
    ended.clear()
    app = new_app(tmp_path)
    reads, hangs = 0, asyncio.Event()

    async def read() -> None:
        nonlocal reads
        reads += 1
        if reads > 1:
            hangs.set()
            await asyncio.Event().wait()

    @app.workflow
    async def flow(ctx: Context) -> None:
        try:
            with _managed():
                await ctx.step(read, durable=False)
                await ctx.wait_for_signal("go")
        except BaseException as error:
            ended.append(repr(error))
            raise

    async with opened(app) as client:
        run = await client.start(flow, id="r")
        async with app.worker():
            await pauses(app, "r")
        await run.signal("other")
        async with doomed_worker(app):
            await hangs.wait()  # the value is not in the journal: it is read anew
        gc.collect()
        assert ended == []


PROCESS = """
import sys
from pathlib import Path
from tests.engine.test_closing import BY_NAME, new_app, pauses
import asyncio

app = new_app(Path(sys.argv[1]))
class Telling(list):
    def append(self, what):
        print("ended", what, flush=True)

import tests.engine.test_closing as module
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
    kept = dict(worker._worker._paused_runs._runs)
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


@in_asyncio
async def test_an_eviction_leaves_tasks_alone_that_an_object_of_the_code_holds(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    async def serve() -> None:
        await asyncio.Event().wait()

    class Service:
        def __init__(self) -> None:
            self.task = asyncio.create_task(serve())

    service = Service()

    @app.workflow
    async def flow(ctx: Context) -> Service:
        held = service
        await ctx.wait_for_signal("go")
        return held

    async with opened(app) as client:
        await client.start(flow, id="r")
        async with doomed_worker(app) as worker:
            await pauses(app, "r")
            worker.evict()
            assert not gc.is_finalized(service.task.get_coro())
    service.task.cancel()
