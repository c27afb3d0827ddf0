"""Runs that wait for each other in a circle, by child runs or in steps, are refused with the circle."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import pytest

from signoff import AsyncClient, Client, Context, Signoff
from signoff.agents.conversations.conversation import Conversation
from signoff.errors import CircularWait
from signoff.flows import Execution
from signoff.testing import MemoryStore
from tests.places import NewStore
from tests.support import in_asyncio, pauses, running


@pytest.mark.parametrize("kind", ["async", "generator"])
@in_asyncio
async def test_a_circle_of_three_runs_fails_at_the_one_that_closes_it(new_store: NewStore, kind: str) -> None:
    app = Signoff(new_store())
    following = {"a": "b", "b": "c", "c": "a"}

    @app.workflow(name="async")
    async def asynchronous(ctx: Context, id: str) -> Any:
        await ctx.wait_for_signal("go")
        return await ctx.rfc("async", following[id]).options(id=following[id])

    @app.workflow(name="generator")
    def generator(ctx: Context, id: str) -> Generator[Any, Any, Any]:
        yield ctx.wait_for_signal("go")
        return (yield ctx.rfc("generator", following[id]).options(id=following[id]))

    async with running(app) as client:
        runs = {id: await client.start(kind, id, id=id) for id in following}
        for id in following:
            await client.signal(id, "go")
            await pauses(app, id) if id != "c" else None
        with pytest.raises(CircularWait) as refused:
            await runs["c"].result(60)
        assert refused.value.circle == ["c", "a", "b", "c"]
        assert str(refused.value).startswith(
            "run 'c' would wait for run 'a', which waits for run 'b', which waits for run 'c': none of them could go on"
        )
        for id in "ab":
            with pytest.raises(CircularWait, match="run 'c' would wait for run 'a'"):
                await runs[id].result(60)


@in_asyncio
async def test_a_run_that_catches_its_circle_goes_on(new_store: NewStore) -> None:
    app = Signoff(new_store())

    @app.workflow
    async def top(ctx: Context) -> str:
        return await ctx.rfc(middle).options(id="m")

    @app.workflow
    async def middle(ctx: Context) -> str:
        return await ctx.rfc(bottom)

    @app.workflow
    async def bottom(ctx: Context) -> str:
        try:
            return await ctx.rfc(top).options(id="t")
        except CircularWait as error:
            return " ".join(error.circle)

    async with running(app) as client:
        assert await (await client.start(top, id="t")).result(60) == "m.1 t m m.1"


def waiting_for(app: Signoff, target: str, door: str) -> Any:
    """A step that waits for a run."""

    async def asynchronous() -> Any:
        async with AsyncClient(app) as client:
            if door == "flow":
                return await Execution(client, target).result(60)
            return await (await client.get(target)).result(60)

    def blocking() -> Any:
        with Client(app) as client:
            return client.get(target).result(60)

    return blocking if door == "blocking" else asynchronous


@pytest.mark.parametrize("door", ["async", "blocking", "flow"])
@pytest.mark.parametrize(
    ("target", "circle"), [("m", ["m", "m"]), ("t", ["m", "t", "m"]), ("top", ["m", "top", "t", "m"])]
)
@in_asyncio
async def test_a_step_does_not_wait_for_its_own_run_or_an_ancestor(
    door: str, target: str, circle: list[str]
) -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def above(ctx: Context, id: str) -> Any:
        return await (ctx.rfc(above, "t").options(id="t") if id == "top" else ctx.rfc(below).options(id="m"))

    @app.workflow
    async def below(ctx: Context) -> Any:
        return await ctx.step("wait", waiting_for(app, target, door))

    async with app.worker(), AsyncClient(app) as client:
        with pytest.raises(CircularWait) as refused:
            await (await client.start(above, "top", id="top")).result(60)
        assert refused.value.circle == circle


@in_asyncio
async def test_a_step_does_not_wait_for_a_later_run_of_its_session() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def turn(ctx: Context, number: int) -> Any:
        return await ctx.step("next", go_on, number)

    async def go_on(number: int) -> Any:
        if number == 2:
            return "done"
        async with AsyncClient(app) as client:
            return await (await client.start(turn, number + 1, session_id="s", id="r2")).result(60)

    async with app.worker(), AsyncClient(app) as client:
        with pytest.raises(CircularWait) as refused:
            await (await client.start(turn, 1, session_id="s", id="r1")).result(60)
        assert refused.value.circle == ["r1", "r2", "r1"]
        assert await (await client.get("r2")).result(60) == "done"


@in_asyncio
async def test_a_step_waits_for_runs_that_do_not_wait_for_it() -> None:
    app, elsewhere = Signoff(MemoryStore()), Signoff(MemoryStore())

    @app.workflow
    async def parent(ctx: Context) -> Any:
        other = await ctx.detached(quick)
        return [
            await ctx.step("detached", waiting_for(app, other, "async")),
            await ctx.step("of this id elsewhere", waiting_for(elsewhere, "p", "async")),
        ]

    @elsewhere.workflow(name="quick")
    @app.workflow
    async def quick(ctx: Context) -> str:
        await asyncio.sleep(0)
        return "done"

    async with app.worker(), AsyncClient(app) as client, elsewhere.worker(), AsyncClient(elsewhere) as other:
        await other.start("quick", id="p")
        assert await (await client.start(parent, id="p")).result(60) == ["done", "done"]


def test_conversations_wait_by_the_same_rule() -> None:
    assert "end_of" in Conversation.abort.__code__.co_names
