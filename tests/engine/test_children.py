"""Child runs and functions: called, invoked, detached, abandoned."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from signoff import Context, IdConflict, RetryPolicy
from signoff.errors import RunTimeout
from signoff.testing import VirtualClock
from tests.support import doomed_worker, in_asyncio, new_app, opens, pauses, running, until


@in_asyncio
async def test_a_child_run_is_called_by_function_and_by_name(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def double(ctx: Context, number: int) -> int:
        return 2 * number

    @app.workflow
    async def parent(ctx: Context) -> list[int]:
        handle = await ctx.rfi("double", 3)
        return [await ctx.rfc(double, 1), await ctx.rfc("double", 2), await handle]

    async with running(app) as client:
        run = await client.start(parent, id="r")
        assert await run.result(60) == [2, 4, 6]
        assert (await app.store.get_run("r.1")).parent_id == "r"


@in_asyncio
async def test_the_error_of_a_child_run_is_raised_in_its_parent_with_its_type(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def child(ctx: Context) -> None:
        raise ZeroDivisionError("by zero")

    @app.workflow
    async def parent(ctx: Context) -> str:
        try:
            await ctx.rfc(child)
        except ZeroDivisionError as error:
            return str(error)
        return "no error"

    async with running(app) as client:
        assert await (await client.start(parent)).result(60) == "by zero"


@in_asyncio
async def test_a_child_of_a_chosen_id_is_joined_or_conflicts(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def child(ctx: Context, number: int) -> int:
        return number

    @app.workflow
    async def parent(ctx: Context) -> list[object]:
        joined = await ctx.rfc(child, 7).options(id="shared")
        try:
            await ctx.rfc(child, 8).options(id="shared")
        except IdConflict as error:
            return [joined, error.id]
        return []

    async with running(app) as client:
        assert await (await client.start(child, 7, id="shared")).result(60) == 7
        assert await (await client.start(parent)).result(60) == [7, "shared"]


@in_asyncio
async def test_a_child_past_its_deadline_raises_in_its_parent(tmp_path: Path) -> None:
    clock = VirtualClock()
    app = new_app(tmp_path, clock=clock)

    @app.workflow
    async def child(ctx: Context) -> None:
        await ctx.wait_for_signal("never")

    @app.workflow
    async def parent(ctx: Context) -> str:
        try:
            await ctx.rfc(child).options(timeout=60)
        except RunTimeout as error:
            return error.run_id
        return "no timeout"

    async with running(app) as client:
        run = await client.start(parent, id="r")
        await pauses(app, "r.1")
        clock.advance(61)
        assert await run.result(60) == "r.1"


@in_asyncio
async def test_a_child_with_a_target_runs_only_in_that_group(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    by: list[list[str]] = []

    @app.workflow
    async def child(ctx: Context) -> str:
        by.append(list(other.held))
        return "done"

    @app.workflow
    async def parent(ctx: Context) -> str:
        await ctx.rfc(child).options(target="poll://any@other")
        return await ctx.rfc(child).options(target="default")

    async with running(app) as client:
        run = await client.start(parent, id="r")
        await pauses(app, "r")
        assert not by
        async with doomed_worker(app, group="other") as other:
            assert await run.result(60) == "done"
        assert by == [["r.1"], []]


@in_asyncio
async def test_a_handle_is_done_when_its_value_is_there(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    async def inner(ctx: Context) -> None:
        await ctx.wait_for_signal("function")

    @app.workflow
    async def child(ctx: Context) -> None: ...

    @app.workflow
    async def parent(ctx: Context) -> list[list[bool]]:
        handles = [await ctx.lfi(inner), await ctx.rfi(child), await ctx.promise(id="p")]
        done = [[handle.done() for handle in handles]]
        for handle in handles:
            await handle
            done.append([each.done() for each in handles])
        return done

    async with running(app) as client:
        run = await client.start(parent, id="r")
        await run.signal("function")
        await opens(app, "p")
        await client.promises.resolve("p")
        first, *_, last = await run.result(60)
        assert first == [False] * 3
        assert last == [True] * 3


@in_asyncio
async def test_workflow_code_called_as_a_function_is_retried_and_timed_out(
    tmp_path: Path,
) -> None:
    clock = VirtualClock()
    app = new_app(tmp_path, clock=clock)
    policy = RetryPolicy(initial_seconds=20, factor=3, max_attempts=3, jitter=False)

    @app.workflow
    async def flow(ctx: Context) -> list[float]:
        began = ctx.now()
        called: list[float] = []

        async def inner(ctx: Context) -> None:
            called.append((ctx.now() - began).total_seconds())
            await ctx.wait_for_signal("never")

        try:
            await ctx.lfc(inner).options(timeout=10).options(retry=policy)
        except TimeoutError:
            called.append((ctx.now() - began).total_seconds())
        return called

    async with running(app) as client:
        begun_at = clock.now()
        run = await client.start(flow, id="r")
        for at in (10, 30, 40, 100, 110):

            async def waits_until_then() -> bool:
                return (await app.store.get_run("r")).wake_at == begun_at + at  # noqa: B023

            await until(app, waits_until_then)
            clock.set(begun_at + at)
        assert await run.result(60) == [0, 30, 100, 110]


@in_asyncio
async def test_a_detached_run_outlives_the_run_that_started_it(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def long(ctx: Context) -> str:
        return await ctx.wait_for_signal("go")

    @app.workflow
    async def starter(ctx: Context) -> str:
        return await ctx.detached(long).options(id="free")

    async with running(app) as client:
        assert await (await client.start(starter)).result(60) == "free"
        free = await client.get("free")
        await free.signal("go", "gone")
        assert await free.result(60) == "gone"
        assert (await app.store.get_run("free")).parent_id is None


@in_asyncio
async def test_children_not_awaited_are_awaited_before_the_run_ends(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    done: list[str] = []

    def plain(ctx: Context) -> None:
        done.append("plain")

    async def inner(ctx: Context) -> None:
        await ctx.sleep(0.01)
        await ctx.step("inner", lambda: done.append("inner"))

    @app.workflow
    async def child(ctx: Context) -> None:
        await ctx.step("child", lambda: done.append("child"))

    @app.workflow
    async def parent(ctx: Context) -> str:
        await ctx.lfi(plain)
        await ctx.lfi(inner)
        await ctx.rfi(child)
        return "ended"

    async with running(app) as client:
        assert await (await client.start(parent)).result(60) == "ended"
        assert sorted(done) == ["child", "inner", "plain"]


@pytest.mark.parametrize("kind", ["function", "run"])
@in_asyncio
async def test_the_error_of_a_child_not_awaited_fails_the_run(tmp_path: Path, kind: str) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def broken(ctx: Context) -> None:
        raise LookupError("lost")

    @app.workflow
    async def parent(ctx: Context) -> None:
        await (ctx.lfi(broken) if kind == "function" else ctx.rfi(broken))

    async with running(app) as client:
        with pytest.raises(LookupError, match="lost"):
            await (await client.start(parent)).result(60)


@in_asyncio
async def test_tasks_left_behind_are_cancelled_and_may_clean_up(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    seen: list[str] = []

    @app.workflow
    async def flow(ctx: Context) -> str:
        async def background() -> None:
            try:
                await ctx.sleep(10_000)
            finally:
                await ctx.step("clean", lambda: seen.append("clean"))

        left = asyncio.create_task(background())
        await asyncio.sleep(0)
        return f"ended {left.done()}"

    async with running(app) as client:
        assert await (await client.start(flow)).result(60) == "ended False"
        assert seen == ["clean"]
