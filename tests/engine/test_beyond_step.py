"""A step that ends or changes its worker's loop fails alone: the worker and other runs continue."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from pydantic_ai import Agent

from signoff import Context, RetryPolicy, RunState, Signoff, current_step
from signoff.agents import Durable
from signoff.errors import BeyondStep
from signoff.flows import Data, Executions, Flow
from signoff.records.paging import RunFilter
from tests.agents.scripts import Script, says
from tests.agents.scripts import calls as calls_tools
from tests.places import NewStore
from tests.support import doomed_worker, in_asyncio, opened, reaches, running

main: list[asyncio.Task[Any]] = []
"""The test's own task, which is not the worker's."""


def tasks(loop: asyncio.AbstractEventLoop | None = None) -> Iterable[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks(loop) if task not in main]


async def cancels_all() -> None:
    for task in tasks():
        task.cancel()
    await asyncio.sleep(3600)


async def cancels_itself_first() -> None:
    current = asyncio.current_task()
    for task in sorted(tasks(), key=lambda each: each is not current):
        task.cancel()
    await asyncio.sleep(3600)


async def cancels_and_returns() -> None:
    for task in tasks():
        with contextlib.suppress(RuntimeError):
            task.cancel()


async def cancels_and_speaks() -> None:
    current_step().live("here")
    await asyncio.sleep(0.2)  # for it to be heard
    await cancels_itself_first()


async def cancels_by_a_task() -> None:
    await asyncio.create_task(cancels_all())


async def cancels_by_a_callback() -> None:
    for task in tasks():
        asyncio.get_running_loop().call_soon(task.cancel)
    await asyncio.sleep(3600)


def cancels_from_a_thread() -> None:
    loop = main[0].get_loop()
    for task in tasks(loop):
        loop.call_soon_threadsafe(task.cancel)


def cancels_directly_from_a_thread() -> None:
    for task in tasks(main[0].get_loop()):
        task.cancel()


async def calls(name: str) -> None:
    made = getattr(asyncio.get_running_loop(), name)(
        *[None] * (name in ("set_default_executor", "set_task_factory"))
    )
    await made


def calls_from_a_thread(name: str) -> None:
    loop = main[0].get_loop()
    loop.call_soon_threadsafe(getattr(loop, name))


HARMFUL: dict[str, tuple[Callable[..., Any], *tuple[Any, ...]]] = {
    step.__name__: (step,)
    for step in (
        cancels_all,
        cancels_itself_first,
        cancels_and_returns,
        cancels_and_speaks,
        cancels_by_a_task,
        cancels_by_a_callback,
        cancels_from_a_thread,
        cancels_directly_from_a_thread,
    )
} | {
    "stop": (calls, "stop"),
    "close": (calls, "close"),
    "shutdown_asyncgens": (calls, "shutdown_asyncgens"),
    "shutdown_default_executor": (calls, "shutdown_default_executor"),
    "set_default_executor": (calls, "set_default_executor"),
    "set_task_factory": (calls, "set_task_factory"),
    "stop_from_a_thread": (calls_from_a_thread, "stop"),
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@in_asyncio
async def test_a_step_that_would_end_its_worker_fails_alone(new_store: NewStore) -> None:
    app, loop = Signoff(new_store()), asyncio.get_running_loop()

    @app.workflow
    async def harmful(ctx: Context, how: str) -> None:
        step, *args = HARMFUL[how]
        await ctx.step("s", step, *args)

    @app.workflow
    async def beside(ctx: Context) -> str:
        await ctx.step("waits", released.wait, effect="once")
        return await ctx.step("in a thread", lambda: "well")

    released = asyncio.Event()
    loop.set_exception_handler(lambda *_: None)
    async with opened(app) as client:
        main[:] = asyncio.all_tasks()
        async with app.worker():
            healthy = await client.start(beside, id="beside")
            await reaches(app, "beside", RunState.RUNNING)
            for how in HARMFUL:
                run = await client.start(harmful, how, id=how)
                with pytest.raises(BeyondStep, match="step 's' (cancelled the task|called loop)"):
                    await run.result(60)
            released.set()
            assert await healthy.result(60) == "well"
            runs = (await app.store.list_runs(RunFilter(), limit=100)).items
            assert {run.takeovers for run in runs} == {0}
    assert not {"stop", "set_task_factory", "shutdown_default_executor"} & vars(loop).keys()
    assert loop.get_task_factory() is None


@in_asyncio
async def test_two_workers_of_one_loop_are_both_kept_apart_from_steps(new_store: NewStore) -> None:
    app = Signoff(new_store())

    @app.workflow
    async def harmful(ctx: Context) -> None:
        await ctx.step("s", calls, "stop")

    async with opened(app) as client, app.worker():
        async with app.worker(group="other"):
            pass
        with pytest.raises(BeyondStep):
            await (await client.start(harmful)).result(60)


@in_asyncio
async def test_a_flows_chunk_that_cancels_every_task_fails_alone(new_store: NewStore) -> None:
    app, flow = Signoff(new_store()), Flow("harmful")

    @flow.chunk
    async def harm(data: Data[Any]) -> None:
        await cancels_all()

    flow.to(harm)
    app.register(flow)

    async with opened(app) as client:
        main[:] = asyncio.all_tasks()
        async with app.worker():
            execution = await Executions(client, "harmful").start(id="harmful")
            with pytest.raises(Exception, match="harm.*BeyondStep|BeyondStep.*harm|cancelled the task"):
                await execution.result()
            run = await app.store.get_run("harmful")
            assert run.takeovers == 0


@in_asyncio
async def test_an_agents_tool_that_cancels_every_task_fails_alone(new_store: NewStore) -> None:
    app, script = Signoff(new_store()), Script(calls_tools(("harm", {})), says("done"))
    agent = Agent(script.model, name="a", capabilities=[Durable()])

    @agent.tool_plain
    async def harm() -> None:
        await cancels_all()

    @app.workflow
    async def work(ctx: Context) -> str:
        return (await agent.run("go")).output

    async with opened(app) as client:
        main[:] = asyncio.all_tasks()
        async with app.worker():
            with pytest.raises(BeyondStep):
                await (await client.start(work, id="r")).result(60)
            assert (await app.store.get_run("r")).takeovers == 0


@pytest.mark.parametrize("style", ["as_function", "as_generator"])
@in_asyncio
async def test_workflow_code_that_cancels_every_task_cancels_its_run_alone(
    new_store: NewStore, style: str
) -> None:
    app = Signoff(new_store())

    @app.workflow
    async def as_function(ctx: Context) -> None:
        for task in asyncio.all_tasks():
            task.cancel()
        await ctx.sleep(3600)

    @app.workflow
    def as_generator(ctx: Context) -> Any:
        for task in asyncio.all_tasks():
            task.cancel()
        yield ctx.sleep(3600)

    @app.workflow
    async def beside(ctx: Context) -> str:
        await ctx.step("waits", released.wait)
        return "well"

    released = asyncio.Event()
    async with running(app) as client:
        healthy = await client.start(beside, id="beside")
        await reaches(app, "beside", RunState.RUNNING)
        await client.start(style, id="harmful")
        await reaches(app, "harmful", RunState.CANCELLED, RunState.FAILED)
        released.set()
        assert await healthy.result(60) == "well"


async def stubborn() -> None:
    """Cancel every task, the app's main task as well, and go on whatever comes."""
    for task in asyncio.all_tasks():
        with contextlib.suppress(RuntimeError):
            task.cancel()
    for _ in range(5):  # asyncio.run waits for its end
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.2)


@pytest.mark.parametrize("leaving", ["in order", "at once"])
def test_a_step_that_ends_the_app_is_not_begun_again(new_store: NewStore, leaving: str) -> None:
    def new_app() -> Signoff:
        app = Signoff(new_store())

        @app.workflow
        async def harmful(ctx: Context) -> None:
            await ctx.step("s", step, retry=RetryPolicy(max_attempts=10**6))

        @app.workflow
        async def beside(ctx: Context) -> None:
            await ctx.step("waits", asyncio.sleep, 3600)

        return app

    begun: list[int] = []

    async def step() -> None:
        begun.append(1)
        await stubborn()

    async def first() -> None:
        app = new_app()
        async with opened(app) as client:
            await client.start(beside, id="beside")
            await client.start("harmful", id="harmful")
            if leaving == "in order":
                async with app.worker(grace_seconds=0.1):
                    await asyncio.Event().wait()
            else:
                async with doomed_worker(app):
                    await asyncio.Event().wait()

    async def second() -> None:
        app = new_app()
        async with running(app):
            run = await reaches(app, "harmful", RunState.FAILED)
            assert "BeyondStep" in (run.error or "")
            assert (await app.store.get_run("beside")).takeovers == 0

    beside = "beside"
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(first())
    asyncio.run(second())
    assert len(begun) == 1
