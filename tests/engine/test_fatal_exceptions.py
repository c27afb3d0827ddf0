"""Exceptions of user code end only its run: the worker and other runs continue."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
from collections.abc import Callable
from typing import Any

import pytest

from signoff import Context, RetryPolicy, RunState, Signoff
from signoff.engine.run.fatal_exceptions import is_stop
from signoff.observability import events
from tests.places import NewStore
from tests.support import in_asyncio, running


class Own(BaseException):
    pass


class Unreadable(BaseException):
    def __str__(self) -> str:
        raise SystemExit(5)

    __repr__ = __str__


KINDS: dict[str, Callable[[], BaseException]] = {
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "Own": lambda: Own("mine"),
    "StopIteration": StopIteration,
    "StopAsyncIteration": StopAsyncIteration,
    "CancelledError": asyncio.CancelledError,
    "MemoryError": MemoryError,
    "RecursionError": RecursionError,
    "Unreadable": Unreadable,
    "BaseExceptionGroup": lambda: BaseExceptionGroup("two", [SystemExit(1), ValueError("no")]),
}
ENDS_PROCESSES = ("SystemExit", "KeyboardInterrupt")


def boom(kind: str) -> Any:
    raise KINDS[kind]()


async def aboom(kind: str) -> Any:
    raise KINDS[kind]()


async def in_code(ctx: Context, kind: str) -> None:
    boom(kind)


def in_generator(ctx: Context, kind: str) -> Any:
    yield ctx.step("before", lambda: 1)
    boom(kind)


async def in_task(ctx: Context, kind: str) -> None:
    await asyncio.create_task(aboom(kind))


async def in_clean_up(ctx: Context, kind: str) -> None:
    try:
        raise ValueError("first")
    finally:
        boom(kind)


async def in_function(ctx: Context, kind: str) -> None:
    async def inner(ctx: Context) -> None:
        boom(kind)

    await ctx.lfc(inner)


ONCE = RetryPolicy(max_attempts=1)


async def in_async_step(ctx: Context, kind: str) -> None:
    await ctx.step("s", aboom, kind, retry=ONCE)


async def in_plain_step(ctx: Context, kind: str) -> None:
    await ctx.step("s", boom, kind, retry=ONCE)


async def in_undurable_step(ctx: Context, kind: str) -> None:
    await ctx.step("s", aboom, kind, retry=ONCE, durable=False)


async def in_timed_steps(ctx: Context, kind: str) -> None:
    with contextlib.suppress(RuntimeError):
        await ctx.step("a", aboom, kind, retry=ONCE, timeout=60)
    await ctx.step("b", boom, kind, retry=ONCE, timeout=60)


async def in_task_of_step(ctx: Context, kind: str) -> None:
    async def step() -> None:
        await asyncio.create_task(aboom(kind))

    await ctx.step("s", step, retry=ONCE)


@pytest.mark.parametrize(
    "code",
    [
        in_code,
        in_generator,
        in_task,
        in_clean_up,
        in_function,
        in_async_step,
        in_plain_step,
        in_undurable_step,
        in_timed_steps,
        in_task_of_step,
    ],
    ids=lambda code: code.__name__,
)
@in_asyncio
async def test_a_run_fails_whose_code_raises_anything(new_store: NewStore, code: Callable[..., Any]) -> None:
    app = Signoff(new_store())
    app.workflow(code)

    @app.workflow
    async def healthy(ctx: Context) -> str:
        return await ctx.step("works", lambda: "well")

    async with running(app) as client:
        for kind in KINDS:
            run = await client.start(code, kind, id=kind)
            with pytest.raises(BaseException) as raised:  # noqa: PT011
                await run.result(60)
            ended = await app.store.get_run(kind)
            stopped = kind == "CancelledError" and "step" not in code.__name__
            assert ended.state is (RunState.CANCELLED if stopped else RunState.FAILED)
            assert isinstance(raised.value, Exception)
            if kind in ENDS_PROCESSES:
                assert f"raised {kind}" in str(raised.value)
                assert "test_fatal_exceptions.py:" in str(raised.value)
        assert await (await client.start(healthy)).result(60) == "well"


@pytest.mark.parametrize("kind", ENDS_PROCESSES)
@pytest.mark.parametrize("how", ["call_soon", "done", "timer"])
@in_asyncio
async def test_a_run_fails_whose_callback_would_end_the_process(
    new_store: NewStore, kind: str, how: str
) -> None:
    app = Signoff(new_store())

    @app.workflow
    async def flow(ctx: Context) -> int:
        loop = asyncio.get_running_loop()
        if how == "call_soon":
            loop.call_soon(boom, kind)
        elif how == "timer":
            loop.call_later(0.01, boom, kind)
        else:
            asyncio.create_task(asyncio.sleep(0)).add_done_callback(lambda _: boom(kind))
        await ctx.sleep(0.02)
        return 1

    async with running(app) as client:
        with pytest.raises(Exception, match=rf"raised {kind}.*, at .*test_fatal_exceptions.py:\d+ in boom"):
            await (await client.start(flow, id="r")).result(60)
        assert (await app.store.get_run("r")).retryable


@in_asyncio
async def test_a_step_whose_task_is_never_awaited_does_not_end_the_worker(new_store: NewStore) -> None:
    app = Signoff(new_store())

    @app.workflow
    async def flow(ctx: Context) -> int:
        return await ctx.step("s", step)

    async def step() -> int:
        task = asyncio.create_task(aboom("SystemExit"))
        await asyncio.wait([task])
        return 1

    async with running(app) as client:
        assert await (await client.start(flow)).result(60) == 1
    assert asyncio.get_running_loop().get_task_factory() is None


@pytest.mark.parametrize("kind", ["async", "thread"])
@in_asyncio
async def test_a_step_does_not_stop_its_workers_loop(new_store: NewStore, kind: str) -> None:
    app, loop = Signoff(new_store()), asyncio.get_running_loop()

    async def stop() -> None:
        asyncio.get_running_loop().stop()

    def stop_from_a_thread() -> None:
        loop.call_soon_threadsafe(loop.stop)

    @app.workflow
    async def flow(ctx: Context) -> str:
        try:
            await ctx.step("stop", stop_from_a_thread if kind == "thread" else stop)
        except RuntimeError as error:
            return str(error)
        return "stopped"

    loop.set_exception_handler(lambda *_: None)
    async with running(app) as client:
        assert re.match("step 'stop' called loop.stop()", await (await client.start(flow)).result(60))
    assert "stop" not in vars(loop)


@pytest.mark.parametrize("kind", ENDS_PROCESSES)
@pytest.mark.parametrize("how", ["call_soon", "timer", "thread", "done"])
@in_asyncio
async def test_a_step_fails_whose_callback_would_end_the_worker(
    new_store: NewStore, kind: str, how: str
) -> None:
    app = Signoff(new_store())

    async def step() -> None:
        loop = asyncio.get_running_loop()
        if how == "call_soon":
            loop.call_soon(boom, kind)
        elif how == "timer":
            loop.call_later(0.01, boom, kind)
        elif how == "thread":
            await asyncio.to_thread(loop.call_soon_threadsafe, boom, kind)
        else:
            asyncio.create_task(asyncio.sleep(0)).add_done_callback(lambda _: boom(kind))
        await asyncio.Event().wait()

    async def leaves_it_behind() -> str:
        asyncio.get_running_loop().call_later(0.05, boom, kind)
        return "done"

    @app.workflow
    async def flow(ctx: Context) -> str:
        try:
            await ctx.step("s", step, retry=ONCE)
        except RuntimeError as error:
            await ctx.sleep(0.1)
            return await ctx.step("left", leaves_it_behind) + f": {error}"
        return "not failed"

    @app.workflow
    async def waits(ctx: Context) -> None:
        await ctx.sleep(0.2)

    async with running(app) as client:
        result = await (await client.start(flow, id="r")).result(60)
        assert re.search(
            rf"^done: a callback of step 's' raised {kind}.*, at .*test_fatal_exceptions.py:\d+ in boom",
            result,
        )
        await (await client.start(waits)).result(60)
        assert (await app.store.get_run("r")).takeovers == 0
    assert "_run_once" not in vars(asyncio.get_running_loop())


@in_asyncio
async def test_a_subscriber_that_exits_ends_nothing(new_store: NewStore) -> None:
    app = Signoff(new_store())

    @app.workflow
    async def flow(ctx: Context) -> int:
        return await ctx.step("s", lambda: 1)

    stop = events.subscribe(lambda event: boom("SystemExit"))
    try:
        async with running(app) as client:
            assert await (await client.start(flow)).result(60) == 1
    finally:
        stop()


def test_ctrl_c_is_distinguished_from_exceptions_of_code() -> None:
    raised: list[bool] = []

    async def press() -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raised.append(is_stop(error))
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt as error:
                raised.append(is_stop(error))

    asyncio.run(press())
    assert raised == [False, True]
