"""What a tool's code does once a pause has left it: it cleans up, and goes on only when it is answered."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from inspect import iscoroutinefunction
from types import FrameType
from typing import Any

import pytest
from pydantic_ai import Agent, Tool

from signoff import Context, Signoff
from signoff.agents import Durable, pause
from signoff.agents.leaving import Left
from signoff.agents.pausing import run_unit
from signoff.testing import MemoryStore, environment
from tests.agents.cleaning import CLEANING_UP, Connection, Log
from tests.agents.scripts import Script, calls, returns, says
from tests.agents.swallowing import PLAIN_TOOLS, TOOLS, Done, ask, catching, plainly_catching
from tests.support import in_asyncio


class Scene:
    """An app with an agent that calls one tool, what the tool has done, and what it returned."""

    def __init__(self, tool: Callable[[Done], Any]) -> None:
        self.app = Signoff(MemoryStore())
        self.done: Done = []
        script = Script(calls(("t", {})), says("done"))
        agent = Agent(
            script.model, name="a", capabilities=[Durable()], tools=[Tool(self._tool(tool), name="t")]
        )

        @self.app.workflow
        async def work(ctx: Context) -> list[Any]:
            return returns((await agent.run("go")).all_messages())

        self.work = work

    def _tool(self, tool: Callable[[Done], Any]) -> Callable[[], Any]:
        def plain() -> str:
            tool(self.done)
            return "went on"

        async def awaited() -> str:
            await tool(self.done)
            return "went on"

        return awaited if iscoroutinefunction(tool) else plain


def names(tool: Callable[..., Any]) -> str:
    return tool.__name__


# going on


@pytest.mark.parametrize("tool", [*TOOLS, *PLAIN_TOOLS], ids=names)
@in_asyncio
async def test_a_tool_that_catches_everything_does_nothing_before_it_is_answered(tool: Any) -> None:
    scene = Scene(tool)
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        await env.idle()
        (question,) = (await env.client.questions()).items
        assert scene.done == []
        await env.client.answer(question.id, "yes")
        assert await run.result() == [["t", "went on", "success"]]
        assert scene.done == ["paid"]


def for_the_model(done: Done) -> None:
    with suppress(BaseException):
        pause("await_input", prompt="Q?", then="model")
    done.append("paid")


async def awaited_for_the_model(done: Done) -> None:
    for_the_model(done)


@pytest.mark.parametrize("tool", [for_the_model, awaited_for_the_model], ids=names)
@in_asyncio
async def test_a_tool_whose_answer_is_the_models_never_goes_on(tool: Any) -> None:
    scene = Scene(tool)
    async with environment(scene.app) as env:
        env.people.answer("Q?", "no need")
        assert await env.run(scene.work) == [["t", "no need", "success"]]
        assert scene.done == []


@pytest.mark.skipif(sys.version_info < (3, 12), reason="a trace function is not there when its task goes on")
@in_asyncio
async def test_a_task_of_the_tool_goes_no_further_either() -> None:
    async def part(done: Done) -> None:
        try:
            await ask()
        except BaseException:
            await asyncio.sleep(0)
        done.append("paid")

    done: Done = []
    await run_unit(lambda: asyncio.create_task(part(done)))
    assert done == []


# cleaning up


@pytest.mark.parametrize(("tool", "expected"), CLEANING_UP, ids=[each[0].__name__ for each in CLEANING_UP])
@in_asyncio
async def test_a_tool_that_is_left_cleans_up_once_and_to_the_end(tool: Any, expected: Log) -> None:
    scene = Scene(tool)
    async with environment(scene.app) as env:
        await env.start(scene.work)
        await env.idle()
        assert len((await env.client.questions()).items) == 1
        assert scene.done == expected


@in_asyncio
async def test_a_cancelled_clean_up_is_cancelled() -> None:
    log: Log = []
    is_cleaning_up = asyncio.Event()

    async def tool() -> None:
        with Connection(log):
            try:
                await ask()
            finally:
                is_cleaning_up.set()
                await asyncio.sleep(60)

    task = asyncio.create_task(run_unit(tool))
    await is_cleaning_up.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == [("closed", "CancelledError")]


# what others see


def tracer(frame: FrameType, event: str, argument: object) -> Any:
    """A trace function of somebody else, as a debugger's."""


@pytest.fixture
def somebody_traces() -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(tracer)
    yield
    sys.settrace(before)


def events_of(code: Any) -> int:
    """What of a function Python reports to us."""
    if sys.version_info < (3, 12):
        return 0
    ours = [each for each in range(6) if sys.monitoring.get_tool(each) == "signoff"]
    return sum(sys.monitoring.get_local_events(each, code) for each in ours)


@pytest.mark.usefixtures("somebody_traces")
@in_asyncio
async def test_other_tasks_are_not_disturbed_while_a_tool_cleans_up() -> None:
    seen: set[Any] = set()
    done: Done = []
    clean_ups: Log = []

    async def other() -> None:
        for _ in range(20):
            seen.add(sys.gettrace())
            await asyncio.sleep(0.001)
        done.append("other")

    async def tool() -> None:
        try:
            await catching(done)
        finally:
            for _ in range(10):
                await asyncio.sleep(0.001)
            clean_ups.append("cleaned up")

    beside = asyncio.create_task(other())
    assert await run_unit(tool)
    assert (sys.gettrace(), clean_ups) == (tracer, ["cleaned up"])
    await beside
    assert (seen, done) == ({tracer}, ["other"])


@in_asyncio
async def test_the_same_tool_called_elsewhere_meanwhile_goes_on() -> None:
    done: Done = []
    is_cleaning_up = asyncio.Event()
    may_end = asyncio.Event()

    async def tool(is_asking: bool) -> None:
        try:
            if is_asking:
                await ask()
        except BaseException:
            is_cleaning_up.set()
            await may_end.wait()
        done.append(is_asking)

    leaving = asyncio.create_task(run_unit(lambda: tool(True)))
    await is_cleaning_up.wait()
    await tool(False)
    may_end.set()
    await leaving
    assert done == [False]


@pytest.mark.parametrize("previous", [None, tracer])
@in_asyncio
async def test_a_thread_of_a_pool_is_given_back_as_it_was(previous: Any) -> None:
    done: Done = []
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as pool:
        await loop.run_in_executor(pool, sys.settrace, previous)

        async def body() -> Any:
            copied = contextvars.copy_context()
            return await loop.run_in_executor(pool, copied.run, plainly_catching, done)

        for _ in range(2):
            assert await run_unit(body)
            assert await loop.run_in_executor(pool, sys.gettrace) is previous
    assert done == []
    assert events_of(plainly_catching.__code__) == 0


@in_asyncio
async def test_the_loop_is_given_back_as_it_was() -> None:
    before = sys.gettrace()
    for tool in TOOLS:
        done: Done = []
        assert await run_unit(lambda tool=tool, done=done: tool(done))
        assert (sys.gettrace(), done, events_of(tool.__code__)) == (before, [], 0)


@in_asyncio
async def test_a_task_that_outlives_its_tool_is_not_looked_at() -> None:
    done: Done = []
    may_ask = asyncio.Event()

    async def outliving() -> None:
        await may_ask.wait()
        with suppress(BaseException):
            await ask()
        done.append("went on")

    async def tool() -> asyncio.Task[None]:
        return asyncio.create_task(outliving())

    task: Any = await run_unit(tool)
    may_ask.set()
    await task
    assert (done, events_of(outliving.__code__)) == (["went on"], 0)


def test_whoever_runs_the_loop_is_no_tool() -> None:
    caught: Log = []

    async def tool() -> None:
        task = asyncio.create_task(ask())
        caught.extend(await asyncio.gather(task, return_exceptions=True))

    async def main() -> object:
        return await run_unit(tool)

    def program() -> None:
        assert asyncio.run(main())
        caught.append("went on")

    thread = threading.Thread(target=program)
    thread.start()
    thread.join()
    assert caught == ["went on"]


@in_asyncio
async def test_what_leaves_is_no_exception() -> None:
    async def tool() -> None:
        try:
            await ask()
        except Exception:
            pytest.fail("caught")

    assert await run_unit(tool)
    assert not issubclass(Left, Exception)
