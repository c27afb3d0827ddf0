"""Workers of limited or paused groups: they start runs as soon as allowed, and poll for nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import BaseModel

from signoff import Client, Concurrency, Context, Group, Rate, RunState, Signoff
from signoff.errors import InvalidValue
from signoff.testing import VirtualClock
from tests.support import in_asyncio, new_app, opened, pauses, running

NEVER_SECONDS = 3600.0


@pytest.fixture(autouse=True)
def nobody_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers and timers act only when the test calls them."""
    monkeypatch.setattr("signoff.engine.worker.worker.LOOK_EVERY_SECONDS", NEVER_SECONDS)
    monkeypatch.setattr("signoff.engine.timers.timers.LOOK_EVERY_SECONDS", NEVER_SECONDS)


class Order(BaseModel):
    """What a workflow gets."""

    customer: str


class Crowd:
    """Steps that are under way at once. The first ones wait until there are as many as may be."""

    def __init__(self, expected: int) -> None:
        self.most = 0
        self._expected = expected
        self._now = 0
        self._complete = asyncio.Event()

    async def join(self) -> None:
        self._now += 1
        self.most = max(self.most, self._now)
        if self._now >= self._expected:
            self._complete.set()
        async with asyncio.timeout(60):
            await self._complete.wait()
        await asyncio.sleep(0)
        self._now -= 1


def crowded_app(folder: Path, crowd: Crowd) -> Signoff:
    app = new_app(folder)

    @app.workflow
    async def part(ctx: Context) -> None:
        await ctx.step("part", crowd.join)

    @app.workflow
    async def busy(ctx: Context) -> None:
        await ctx.step("first", crowd.join)
        await ctx.rfc(part)
        await ctx.step("second", crowd.join)

    _ = busy
    return app


@in_asyncio
async def test_workers_of_a_limited_group_finish_all_and_never_exceed_the_limit(
    tmp_path: Path,
) -> None:
    crowd = Crowd(2)
    app = crowded_app(tmp_path, crowd)
    async with running(app) as client, app.worker():
        await client.groups.limit("default", max_running=2)
        handles = [await client.start("busy") for _ in range(12)]
        for handle in handles:
            await handle.result(60)
    assert crowd.most == 2


@in_asyncio
async def test_a_paused_run_holds_no_slot(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def patient(ctx: Context) -> object:
        return await ctx.wait_for_signal("go")

    async with running(app) as client:
        await client.groups.limit("default", max_running=1)
        handles = [await client.start(patient, id=f"r{n}") for n in range(3)]
        for n in range(3):
            await pauses(app, f"r{n}")
        for handle in handles:
            await handle.signal("go", handle.id)
        assert [await handle.result(60) for handle in handles] == ["r0", "r1", "r2"]


@in_asyncio
async def test_a_resumed_group_goes_on_at_once(tmp_path: Path) -> None:
    app = crowded_app(tmp_path, Crowd(1))
    async with running(app) as client:
        await client.groups.pause("default")
        handle = await client.start("busy", id="r")
        assert await handle.status() is RunState.READY
        await client.groups.resume("default")
        await handle.result(60)


@in_asyncio
async def test_a_paused_group_lets_what_runs_come_to_its_pause(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    begun, go = asyncio.Event(), asyncio.Event()

    async def step() -> None:
        begun.set()
        await go.wait()

    @app.workflow
    async def work(ctx: Context) -> None:
        await ctx.step(step)
        await ctx.wait_for_signal("go")

    async with running(app) as client:
        handle = await client.start(work, id="r")
        await begun.wait()
        await client.groups.pause("default")
        go.set()
        await pauses(app, "r")
        await handle.signal("go")
        assert await client.groups.list() == [Group("default", True, ready=1)]
        await client.groups.resume("default")
        await handle.result(60)


@in_asyncio
async def test_runs_start_when_their_rate_lets_them(tmp_path: Path) -> None:
    clock = VirtualClock()
    app = new_app(tmp_path, clock=clock)

    @app.workflow
    async def quick(ctx: Context) -> float:
        return ctx.now().timestamp()

    async with opened(app) as client:
        await client.groups.limit("default", starts_per=Rate(2, 60))
        began = clock.now()
        handles = [await client.start(quick, id=f"r{n}") for n in range(4)]
        async with app.worker():
            for handle in handles[:2]:
                await handle.result(60)
            assert [await handle.status() for handle in handles[2:]] == [RunState.READY] * 2
            clock.advance(30)
            await handles[2].result(60)
            assert await handles[3].status() is RunState.READY
            clock.advance(30)
            await handles[3].result(60)
        assert [await handle.result() - began for handle in handles] == [0, 0, 30, 60]


@in_asyncio
async def test_a_worker_holds_no_more_runs_than_its_concurrency(tmp_path: Path) -> None:
    crowd = Crowd(3)
    app = crowded_app(tmp_path, crowd)
    async with running(app, concurrency=3) as client:
        handles = [await client.start("busy") for _ in range(12)]
        for handle in handles:
            await handle.result(60)
    assert crowd.most == 3


def app_one_by_one(folder: Path, crowd: Crowd) -> Signoff:
    app = new_app(folder)

    @app.workflow(concurrency=Concurrency(1, key=lambda name, number: name))
    async def one_by_one(ctx: Context, name: str, number: int) -> int:
        await ctx.step("join", crowd.join)
        return number

    @app.workflow(concurrency=2)
    async def two_at_once(ctx: Context, number: int) -> int:
        await ctx.step("join", crowd.join)
        return await ctx.rfc(one_by_one, "child", number)

    _ = two_at_once
    return app


@in_asyncio
async def test_runs_of_a_key_run_one_after_the_other_whatever_their_starter(tmp_path: Path) -> None:
    crowd = Crowd(1)
    app = app_one_by_one(tmp_path, crowd)
    async with running(app) as client, app.worker():
        handles = [await client.start("one_by_one", "ana", n) for n in range(10)]
        assert [await handle.result(60) for handle in handles] == list(range(10))
    assert crowd.most == 1


@in_asyncio
async def test_a_workflow_is_limited_as_a_whole_and_its_children_by_key(tmp_path: Path) -> None:
    crowd = Crowd(1)
    app = app_one_by_one(tmp_path, crowd)
    async with running(app) as client:
        handles = [await client.start("two_at_once", n) for n in range(6)]
        assert [await handle.result(60) for handle in handles] == list(range(6))
        runs = (await client.list()).items
    slots = {(run.workflow, run.concurrency_key, run.concurrency_limit) for run in runs}
    assert slots == {("two_at_once", "", 2), ("one_by_one", "child", 1)}
    assert crowd.most <= 3


@in_asyncio
async def test_a_key_is_made_of_the_arguments_as_the_workflow_gets_them(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow(concurrency=Concurrency(3, key=lambda order, gift=False: order.customer))
    async def ship(ctx: Context, order: Order, gift: bool = False) -> None:
        pass

    async with opened(app) as client:
        for number, (workflow, order) in enumerate(
            ((ship, Order(customer="ana")), ("ship", {"customer": "ana"}))
        ):
            await client.start(workflow, order, gift=True, id=str(number))
            run = await client.backend.get_run(str(number))
            assert (run.concurrency_key, run.concurrency_limit) == ("ana", 3)


@in_asyncio
async def test_a_concurrency_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    for limit in (0, -1):
        with pytest.raises(InvalidValue, match="allows no runs"):
            app.workflow(concurrency=limit)

    @app.workflow(concurrency=Concurrency(1, key=lambda key: key))
    async def keyed(ctx: Context, key: object) -> None:
        pass

    async with opened(app) as client:
        for key in (7, None, "x" * 257):
            with pytest.raises(InvalidValue, match="is not a text"):
                await client.start(keyed, key)


def names_and_pauses(groups: Sequence[Group]) -> list[tuple[str, bool]]:
    return [(group.name, group.is_paused) for group in groups]


def test_groups_of_blocking_code(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    try:
        app.groups.pause("gpu")
        with Client(app) as client:
            client.groups.limit("gpu", max_running=1)
            assert client.groups.list() == [Group("gpu", True, 1)]
            client.groups.resume("gpu")
        assert names_and_pauses(app.groups.list()) == [("gpu", False)]
    finally:
        app.close()
