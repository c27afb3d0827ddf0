"""Delayed starts and priorities."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from signoff import AsyncClient, Context, RunState, RunTimeout, Signoff
from signoff.errors import InvalidValue, RegistrationError
from signoff.testing import MemoryStore, VirtualClock, environment
from tests.support import fails, in_asyncio, new_app, opened, pauses, reaches, running, until

NOON = 1_800_000_000.0


def app_with_children(folder: Path, clock: VirtualClock) -> Signoff:
    app = new_app(folder, clock=clock)

    @app.workflow
    async def child(ctx: Context, name: str) -> str:
        return name

    @app.workflow
    async def parent(ctx: Context) -> list[str]:
        soon = await ctx.rfi(child, "soon").options(delay_seconds=60, timeout=5)
        at = datetime.fromtimestamp(NOON + 120, UTC)
        later = await ctx.rfi(child, "later").options(start_at=at, priority=9)
        aside = await ctx.detached(child, "aside").options(delay_seconds=60)
        return [await soon, await later, aside]

    @app.workflow
    async def twice(ctx: Context) -> None:
        call = ctx.rfc(child, "x")
        await call
        call.options(priority=1)

    @app.workflow
    async def both(ctx: Context) -> None:
        await ctx.rfc(child, "x").options(delay_seconds=1, start_at=datetime.fromtimestamp(NOON, UTC))

    _ = (parent, twice, both)
    return app


@in_asyncio
async def test_children_start_at_their_time_and_have_their_parents_priority(tmp_path: Path) -> None:
    clock = VirtualClock(NOON)
    app = app_with_children(tmp_path, clock)
    async with running(app) as client:
        handle = await client.start("parent", id="p", priority=4)
        await pauses(app, "p")
        soon, later, aside = [await app.store.get_run(f"p.{n}") for n in (1, 2, 3)]
        assert [run.is_delayed for run in (soon, later, aside)] == [True, True, True]
        assert [run.start_at for run in (soon, later, aside)] == [NOON + 60, NOON + 120, NOON + 60]
        assert [run.priority for run in (soon, later, aside)] == [4, 9, 4]
        assert (soon.deadline_at, aside.parent_id) == (NOON + 65, None)
        clock.advance(60)
        await reaches(app, "p.1", RunState.SUCCEEDED)
        await reaches(app, "p.3", RunState.SUCCEEDED)
        assert (await app.store.get_run("p.2")).is_delayed
        clock.advance(60)
        assert await handle.result() == ["soon", "later", "p.3"]


@in_asyncio
async def test_options_of_a_child_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    app = app_with_children(tmp_path, VirtualClock(NOON))
    async with running(app) as client:
        with pytest.raises(InvalidValue, match="cannot be combined"):
            await (await client.start("both")).result()
        with pytest.raises(RegistrationError, match="already started"):
            await (await client.start("twice", id="t")).result()


@in_asyncio
async def test_a_workflow_that_starts_later_has_its_whole_time(tmp_path: Path) -> None:
    clock = VirtualClock(NOON)
    app = new_app(tmp_path, clock=clock)

    @app.workflow
    async def patient(ctx: Context) -> None:
        await ctx.wait_for_signal("never")

    async with running(app) as client:
        handle = await client.start(patient, id="r", delay_seconds=60, timeout_seconds=10)
        clock.advance(60)

        async def begun() -> bool:
            return (await app.store.get_run("r")).epoch > 0

        await until(app, begun)
        await pauses(app, "r")
        clock.advance(10)
        await fails(app, "r")
        with pytest.raises(RunTimeout):
            await handle.result()


@in_asyncio
async def test_a_worker_takes_what_matters_most(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    order: list[int] = []

    @app.workflow
    async def note(ctx: Context, priority: int) -> None:
        await ctx.step("note", order.append, priority)

    async with opened(app) as client:
        handles = [await client.start(note, number, priority=number) for number in (1, 3, -2, 2)]
        async with app.worker(concurrency=1):
            for handle in handles:
                await handle.result()
    assert order == [3, 2, 1, -2]


def test_blocking_starts_take_the_same_options(tmp_path: Path) -> None:
    app = app_with_children(tmp_path, VirtualClock(NOON))
    try:
        app.start("child", "a", id="a", priority=2, delay_seconds=5)
        app.options(priority=3, delay_seconds=5).options(target="poll://any@gpu").begin_rpc("b", "child", "b")
        at = datetime.fromtimestamp(NOON + 5, UTC)
        app.options(start_at=at).begin_rpc("c", "child", "c")

        async def found() -> list[tuple[int, float | None, str]]:
            async with AsyncClient(app) as client:
                runs = [await client.backend.get_run(id) for id in "abc"]
            return [(run.priority, run.start_at, run.group) for run in runs]

        assert asyncio.run(found()) == [
            (2, NOON + 5, "default"),
            (3, NOON + 5, "gpu"),
            (0, NOON + 5, "default"),
        ]
    finally:
        app.close()


@in_asyncio
async def test_a_delay_of_more_than_30_million_years_is_refused() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def child(ctx: Context) -> None: ...

    @app.workflow
    async def parent(ctx: Context) -> None:
        await ctx.rfc(child).options(delay_seconds=1e300)

    async with environment(app) as env:
        with pytest.raises(
            InvalidValue, match=r"delay_seconds: 1e\+300 seconds are more than 30 million years"
        ):
            await env.client.start(child, delay_seconds=1e300)
        with pytest.raises(InvalidValue, match="delay_seconds: 1e"):
            await env.run(parent)
