"""A coroutine that is never awaited stops its run, even if no source names an async function."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from signoff import Context, RetryPolicy, Signoff
from signoff.engine.run.unawaited_coroutines import watch_coroutines
from signoff.errors import NotAwaited
from signoff.testing import MemoryStore
from tests.places import NewStore
from tests.support import comes, in_asyncio, running

paid: list[str] = []


@pytest.fixture(autouse=True)
def nothing_paid() -> None:
    paid.clear()


def pay() -> None:
    paid.append("paid")


async def ask(ctx: Context) -> bool:
    return bool((await ctx.wait_for_user("Pay?")).approved)


async def yes() -> bool:
    return True


HELPERS: dict[str, Callable[..., Any]] = {"ask": ask, "yes": yes}


async def through_a_table(ctx: Context) -> None:
    if HELPERS["ask"](ctx):
        await ctx.step(pay)


async def through_a_parameter(ctx: Context) -> None:
    async def guarded(check: Callable[..., Any]) -> None:
        if check(ctx):
            await ctx.step(pay)

    await guarded(ask)


async def as_a_statement(ctx: Context) -> None:
    HELPERS["ask"](ctx)
    await ctx.step(pay)


async def in_a_comprehension(ctx: Context) -> None:
    if all(bool(each(ctx)) for each in [HELPERS["ask"]]):
        await ctx.step(pay)


async def beside_a_caught_error(ctx: Context) -> None:
    try:
        raise KeyError("x")
    except KeyError:
        if HELPERS["ask"](ctx):
            await ctx.step(pay)


@pytest.mark.parametrize(
    "body",
    [through_a_table, through_a_parameter, as_a_statement, in_a_comprehension, beside_a_caught_error],
)
@in_asyncio
async def test_code_that_drops_a_coroutine_pays_nothing(body: Any, new_store: NewStore) -> None:
    app = Signoff(new_store())
    app.workflow(body)
    async with running(app) as client:
        for _ in range(2):  # Python's own filters show a line's warning once
            run = await client.start(body)
            with pytest.raises(
                NotAwaited, match=rf"coroutine 'ask', at {__file__}:\d+ in [<\w>]+, was never awaited"
            ):
                await run.result(60)
    assert paid == []


async def kept(ctx: Context) -> str:
    kept = HELPERS["ask"](ctx)
    return f"done {kept is None}"


async def kept_in_a_list(ctx: Context) -> str:
    all = [HELPERS["yes"]() for _ in range(2)]
    return f"done {await all[0]}"


@pytest.mark.parametrize("keep", [kept, kept_in_a_list])
@in_asyncio
async def test_a_coroutine_kept_until_the_end_stops_the_run_with_its_line(
    new_store: NewStore, keep: Callable[[Context], Awaitable[str]]
) -> None:
    app = Signoff(new_store())

    @app.workflow
    async def flow(ctx: Context) -> str:
        return await keep(ctx)

    async with running(app) as client:
        run = await client.start(flow)
        line = rf"coroutine '(ask|yes)', at {__file__}:\d+ in ({keep.__name__}|<listcomp>), was never awaited"
        with pytest.raises(NotAwaited, match=line):
            await run.result(60)
    assert sys.get_coroutine_origin_tracking_depth() == 0


@pytest.mark.parametrize("is_async", [True, False])
@in_asyncio
async def test_a_step_that_drops_a_coroutine_stops_its_run(is_async: bool) -> None:
    app, tries = Signoff(MemoryStore()), list[int]()

    def plain() -> str:
        tries.append(1)
        return "paid" if HELPERS["yes"]() else "refused"

    async def on_the_loop() -> str:
        return plain()

    @app.workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step(on_the_loop if is_async else plain, retry=RetryPolicy(initial_seconds=0.01))

    async with running(app) as client:
        run = await client.start(flow)
        with pytest.raises(NotAwaited, match="coroutine 'yes', at .* in plain"):
            await run.result(60)
    assert tries == [1]


@in_asyncio
async def test_an_error_excuses_what_its_code_has_not_come_to_await() -> None:
    app = Signoff(MemoryStore())

    def fail() -> None:
        raise ValueError("no stock")

    @app.workflow
    async def flow(ctx: Context) -> str:
        async def inner() -> None:
            later = HELPERS["ask"](ctx)
            await ctx.step(fail, retry=RetryPolicy(max_attempts=1))
            await later

        try:
            await inner()
        except ValueError:
            return "no stock"
        return "stock"

    with pytest.warns(RuntimeWarning, match="was never awaited") as warned:  # noqa: PT031
        async with running(app) as client:
            assert await (await client.start(flow)).result(60) == "no stock"

        async def is_collected() -> bool:
            gc.collect()  # the step's thread may still hold the error, whose frame holds the coroutine
            return len(warned) > 0

        await comes(is_collected)


@in_asyncio
async def test_a_coroutine_that_is_awaited_late_is_fine() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def flow(ctx: Context) -> bool:
        later = HELPERS["yes"]()
        await ctx.step(pay)
        return await later

    async with running(app) as client:
        assert await (await client.start(flow)).result(60)


class Cycle:
    """Refers to itself, so that only the collector frees it."""

    def __init__(self) -> None:
        self.me, self.coroutine = self, yes()


@in_asyncio
async def test_a_run_is_not_blamed_for_what_the_collector_finds() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def flow(ctx: Context) -> str:
        gc.collect()
        return "fine"

    with pytest.warns(RuntimeWarning, match="coroutine 'yes' was never awaited"):  # noqa: PT031
        async with running(app) as client:
            gc.disable()
            try:
                Cycle()
                assert await (await client.start(flow)).result(60) == "fine"
            finally:
                gc.enable()


def test_outside_of_runs_the_filters_of_the_process_decide(recwarn: pytest.WarningsRecorder) -> None:
    warnings.simplefilter("default")
    watch_coroutines()
    watch_coroutines()
    for _ in range(3):
        HELPERS["yes"]()
    assert [str(each.message).strip() for each in recwarn] == ["coroutine 'yes' was never awaited"]
    recwarn.clear()
    warnings.simplefilter("ignore")
    HELPERS["yes"]()
    warnings.warn("another", RuntimeWarning, stacklevel=1)
    assert not recwarn.list
