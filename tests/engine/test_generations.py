"""A run's next generation: started from any branch, with the newest code."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from signoff import Context
from tests.support import in_asyncio, new_app, opened, pauses, running


@in_asyncio
async def test_a_branch_of_a_task_group_may_begin_the_next_generation(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    async def branch(ctx: Context, n: int) -> None:
        async with asyncio.TaskGroup() as inner:
            inner.create_task(ctx.sleep(3600))
            await ctx.step("work", lambda: n)
            ctx.continue_as_new(n + 1)

    @app.workflow
    async def flow(ctx: Context, n: int) -> int:
        if n < 3:
            async with asyncio.TaskGroup() as outer:
                outer.create_task(branch(ctx, n))
        return n

    async with running(app) as client:
        assert await (await client.start(flow, 0)).result(60) == 3


@in_asyncio
async def test_an_error_beside_it_is_not_swallowed_by_the_next_generation(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    async def go_on(ctx: Context) -> None:
        ctx.continue_as_new()

    async def break_down() -> None:
        raise ValueError("broken")

    @app.workflow
    async def flow(ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(go_on(ctx))
            group.create_task(break_down())

    async with running(app) as client:
        with pytest.raises(Exception, match="ValueError|BaseExceptionGroup"):
            await (await client.start(flow)).result(60)


@in_asyncio
async def test_a_new_generation_runs_the_newest_version(tmp_path: Path) -> None:
    old = new_app(tmp_path)

    @old.workflow(name="flow", version="1")
    async def flow_1(ctx: Context, n: int) -> str:
        await ctx.wait_for_signal("go")
        ctx.continue_as_new(n + 1)

    async with opened(old) as client, old.worker():
        await client.start(flow_1, 0, id="r")
        await pauses(old, "r")

    new = new_app(tmp_path)
    new.workflow(name="flow", version="1")(flow_1)

    @new.workflow(name="flow", version="2")
    async def flow_2(ctx: Context, n: int) -> str:
        return f"version {ctx.version}, generation {n}"

    async with running(new) as client:
        await client.signal("r", "go")
        assert await (await client.get("r")).result(60) == "version 2, generation 1"
