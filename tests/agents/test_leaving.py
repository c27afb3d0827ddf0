"""A pause stops its tool with an exception: the tool may then only clean up."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from inspect import iscoroutinefunction
from typing import Any

import pytest
from pydantic_ai import Agent, Tool
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset, WrapperToolset

from signoff import Context, Signoff
from signoff.agents import Durable, pause, tool_options
from signoff.agents.pausing.pause import run_tool
from signoff.agents.pausing.unwinding import Left
from signoff.errors import CannotRunHere, NotAwaited, OutsideWorkflow, PauseSwallowed
from signoff.testing import MemoryStore, environment
from tests.agents.cleaning import CLEANING_UP, Connection, Log
from tests.agents.scripts import Script, calls, returns, says
from tests.agents.swallowing import PLAIN_TOOLS, TOOLS, Done, ask, catching
from tests.support import in_asyncio


class Scene:
    """An app with an agent that calls one tool, what the tool has done, and what it returned."""

    def __init__(
        self,
        tool: Callable[[Done], Any],
        *,
        wrap: Callable[[AbstractToolset[Any]], AbstractToolset[Any]] = lambda inner: inner,
        **options: Any,
    ) -> None:
        self.app = Signoff(MemoryStore())
        self.done: Done = []
        self.script = Script(calls(("t", {})), says("done"))
        self.agent = agent = Agent(
            self.script.model,
            name="a",
            capabilities=[Durable()],
            toolsets=[wrap(FunctionToolset([Tool(self._tool(tool), name="t", **options)], id="tools"))],
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
async def test_a_tool_that_catches_its_leaving_and_goes_on_stops_its_run(tool: Any) -> None:
    scene = Scene(tool)
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        await env.idle()
        with pytest.raises(PauseSwallowed, match="swallowing.py:.*then retry the run") as refused:
            await run.result()
        assert (refused.value.tool, len(scene.script.asked)) == ("a.t", 1)
        assert not (await env.client.questions()).items
        assert (await env.client.backend.get_run(run.id)).retryable


@in_asyncio
async def test_the_error_names_the_pause_the_catching_line_and_the_reaction() -> None:
    async def tool(done: Done) -> None:
        with suppress(BaseException):
            await ask()
        done.append("paid")

    scene = Scene(tool)
    async with environment(scene.app) as env:
        with pytest.raises(PauseSwallowed) as refused:
            await env.run(scene.work)
    assert re.search(r"swallowing.py:\d+ in ask$", refused.value.where)
    assert re.search(r"test_leaving.py:\d+ in tool$", refused.value.caught or "")
    assert refused.value.how == "it returned"


@in_asyncio
async def test_a_workflow_that_catches_everything_stops_as_well() -> None:
    scene = Scene(catching)

    async def careless(ctx: Context) -> str:
        try:
            await scene.agent.run("go")
        except BaseException:
            return "caught"
        return "went on"

    scene.app.workflow(careless)
    async with environment(scene.app) as env:
        with pytest.raises(PauseSwallowed):
            await env.run(careless)


@in_asyncio
async def test_a_run_whose_tool_is_mended_goes_on_when_it_is_retried() -> None:
    broken = ["yes"]

    async def tool(done: Done) -> None:
        try:
            await ask()
        except BaseException:
            if not broken:
                raise
            return
        done.append("paid")

    scene = Scene(tool)
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        await env.idle()
        broken.clear()
        await env.client.retry(run.id)
        env.people.answer("Q?", "yes")
        assert await run.result() == [["t", "went on", "success"]]
    assert (scene.done, len(scene.script.asked)) == (["paid"], 2)


@in_asyncio
async def test_a_writing_tool_that_went_on_is_asked_about_before_it_runs_again() -> None:
    scene = Scene(catching, metadata=tool_options(side_effects="write"))
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        await env.idle()
        await env.client.retry(run.id)
        await env.idle()
        (question,) = (await env.client.questions()).items
        assert "interrupted" in (question.data or "")
    assert scene.done == ["paid"]


@in_asyncio
async def test_an_endless_loop_is_left_behind() -> None:
    async def tool() -> None:
        while True:
            with suppress(BaseException):
                await ask()

    with pytest.raises(PauseSwallowed, match="paused again"):
        await run_tool("t", tool)


@in_asyncio
async def test_two_parts_that_pause_are_asked_in_turn_and_continue_together() -> None:
    async def part(done: Done, prompt: str) -> None:
        done.append((await pause("await_input", prompt=prompt)).value)

    async def tool(done: Done) -> None:
        await asyncio.gather(part(done, "A?"), part(done, "B?"))

    scene = Scene(tool)
    async with environment(scene.app) as env:
        env.people.answer("A?", "a")
        env.people.answer("B?", "b")
        await env.run(scene.work)
    assert scene.done in (["a", "b"], ["a", "a", "b"])


# ignored answers


def forgets_plainly(done: Done) -> None:
    pause("await_input", prompt="Q?")
    done.append("paid")


async def forgets(done: Done) -> None:
    forgets_plainly(done)


async def keeps(done: Done) -> None:
    answers = [pause("await_input", prompt="Q?")]
    done.append("paid" * len(answers))


async def forgets_and_asks_again(done: Done) -> None:
    forgets_plainly(done)
    await pause("await_input", prompt="Again?")


async def reads_it_without_await(done: Done) -> None:
    if pause("await_input", prompt="Q?").approved:  # type: ignore[attr-defined]
        done.append("paid")


async def subscripts_it_without_await(done: Done) -> None:
    if pause("await_input", prompt="Q?")["approved"]:  # type: ignore[index]
        done.append("paid")


async def takes_it_for_true(done: Done) -> None:
    if pause("await_input", prompt="Q?"):
        done.append("paid")


async def compares_it(done: Done) -> None:
    if pause("await_input", prompt="Q?") != "no":
        done.append("paid")


async def catches_that_it_compares_it(done: Done) -> None:
    with suppress(Exception):
        await compares_it(done)


@pytest.mark.parametrize(
    "tool",
    [
        forgets_plainly,
        forgets,
        keeps,
        forgets_and_asks_again,
        reads_it_without_await,
        subscripts_it_without_await,
        takes_it_for_true,
        compares_it,
        catches_that_it_compares_it,
    ],
    ids=names,
)
@in_asyncio
async def test_a_tool_that_does_not_look_at_the_answer_stops_its_run(tool: Any) -> None:
    scene = Scene(tool)
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        env.people.answer("Q?", "no")
        with pytest.raises(NotAwaited, match=r"pause\(...\), at .*test_leaving.py:"):
            await run.result()
        assert (await env.client.backend.get_run(run.id)).retryable
        assert len(scene.script.asked) == 1


# toolsets around a tool


class Careless(WrapperToolset[Any]):
    """A toolset that catches everything."""

    tries = 1

    async def call_tool(self, *args: Any, **kwargs: Any) -> Any:
        for _ in range(self.tries):
            try:
                return await super().call_tool(*args, **kwargs)
            except BaseException:  # noqa: S112
                continue
        return "failed"


class Retrying(Careless):
    """A toolset that tries again whatever happens."""

    tries = 2


class Grouping(WrapperToolset[Any]):
    """A toolset that runs tools in task groups."""

    async def call_tool(self, *args: Any, **kwargs: Any) -> Any:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(super().call_tool(*args, **kwargs))
        return task.result()


async def asking_and_paying(done: Done) -> None:
    await ask()
    done.append("paid")


@pytest.mark.parametrize("around", [Careless, Retrying])
@in_asyncio
async def test_a_toolset_that_catches_the_leaving_of_its_tool_stops_the_run(around: Any) -> None:
    scene = Scene(asking_and_paying, wrap=around)
    async with environment(scene.app) as env:
        with pytest.raises(CannotRunHere, match="tool '.*t' paused.*hook or toolset"):
            await env.run(scene.work)
        assert not (await env.client.questions()).items


@in_asyncio
async def test_a_toolset_with_a_task_group_lets_its_tool_leave() -> None:
    scene = Scene(asking_and_paying, wrap=Grouping)
    async with environment(scene.app) as env:
        env.people.answer("Q?", "yes")
        assert await env.run(scene.work) == [["t", "went on", "success"]]
    assert scene.done == ["paid"]


async def in_a_task(done: Done) -> None:
    done.append((await asyncio.create_task(pause("await_input", prompt="Q?"))).value)


async def gathered(done: Done) -> None:
    done += [each.value for each in await asyncio.gather(pause("await_input", prompt="Q?"))]


async def in_a_shield(done: Done) -> None:
    done.append((await asyncio.shield(pause("await_input", prompt="Q?"))).value)


async def in_time(done: Done) -> None:
    done.append((await asyncio.wait_for(pause("await_input", prompt="Q?"), 5)).value)


async def in_a_generator(done: Done) -> None:
    async def answers() -> AsyncIterator[Any]:
        yield (await pause("await_input", prompt="Q?")).value

    done += [each async for each in answers()]


def in_a_loop_of_its_own(done: Done) -> None:
    async def asked() -> Any:
        return (await pause("await_input", prompt="Q?")).value

    done.append(asyncio.run(asked()))


async def raising_its_own(done: Done) -> None:
    try:
        done.append((await pause("await_input", prompt="Q?")).value)
    except BaseException as error:
        raise RuntimeError("it did not work") from error


@pytest.mark.parametrize(
    "tool",
    [in_a_task, gathered, in_a_shield, in_time, in_a_generator, in_a_loop_of_its_own, raising_its_own],
    ids=names,
)
@in_asyncio
async def test_a_pause_is_asked_and_answered_however_it_is_awaited(tool: Any) -> None:
    scene = Scene(tool)
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        await env.idle()
        assert scene.done == []
        env.people.answer("Q?", "yes")
        assert await run.result() == [["t", "went on", "success"]]
    assert scene.done == ["yes"]


@in_asyncio
async def test_two_pauses_in_one_expression_are_asked_one_after_the_other() -> None:
    async def both(done: Done) -> None:
        said = await asyncio.gather(
            pause("await_input", prompt="First?"), pause("await_input", prompt="Second?")
        )
        done += [each.value for each in said]

    scene = Scene(both)
    async with environment(scene.app) as env:
        env.people.answer("First?", "one")
        env.people.answer("Second?", "two")
        assert await env.run(scene.work) == [["t", "went on", "success"]]
    assert scene.done == ["one", "two"]


# places that cannot pause


@pytest.mark.parametrize("catches", [Exception, OutsideWorkflow])
@in_asyncio
async def test_a_step_that_catches_that_it_cannot_pause_fails(catches: type[Exception]) -> None:
    app, done = Signoff(MemoryStore()), list[str]()

    async def pay() -> None:
        with suppress(catches):
            await pause("approval_required", prompt="Pay?")
        done.append("paid")

    @app.workflow
    async def work(ctx: Context) -> None:
        await ctx.step(pay)

    async with environment(app) as env:
        with pytest.raises(OutsideWorkflow, match="pause.*was called out of place"):
            await env.run(work)
    assert done == ["paid"]  # once


@in_asyncio
async def test_a_step_that_catches_that_it_cannot_ask_fails() -> None:
    app, done = Signoff(MemoryStore()), list[str]()

    @app.workflow
    async def work(ctx: Context) -> None:
        async def pay() -> None:
            with suppress(Exception):
                await ctx.wait_for_user("Pay?")
            done.append("paid")

        await ctx.step(pay)

    async with environment(app) as env:
        with pytest.raises(OutsideWorkflow, match="from outside its workflow code"):
            await env.run(work)
    assert done == ["paid"]


@in_asyncio
async def test_a_model_that_falls_back_on_everything_skips_no_pause() -> None:
    async def asking(messages: Any, info: Any) -> Any:
        await pause("approval_required", prompt="Ask the model?")

    app = Signoff(MemoryStore())
    models = FallbackModel(FunctionModel(asking), Script(says("done")).model, fallback_on=lambda error: True)
    agent = Agent(models, name="a", capabilities=[Durable()])

    @app.workflow
    async def work(ctx: Context) -> str:
        return (await agent.run("go")).output

    async with environment(app) as env:
        with pytest.raises(OutsideWorkflow, match="pause.*this is a:model"):
            await env.run(work)


@in_asyncio
async def test_a_thread_that_does_not_know_its_tool_says_what_to_use() -> None:
    def in_a_pool(done: Done) -> None:
        with ThreadPoolExecutor() as pool:
            done.append(pool.submit(pause, "await_input", prompt="Q?").result().value)

    scene = Scene(in_a_pool)
    async with environment(scene.app) as env:
        with pytest.raises(OutsideWorkflow, match=r"asyncio.to_thread"):
            await env.run(scene.work)
    assert scene.done == []


@in_asyncio
async def test_what_checks_arguments_cannot_pause_and_says_so_at_once() -> None:
    tried: list[str] = []

    async def check(ctx: Any) -> None:
        tried.append("tried")
        await ask()

    scene = Scene(catching, args_validator=check)
    async with environment(scene.app) as env:
        with pytest.raises(OutsideWorkflow, match="pause.*this is a.t:validate"):
            await env.run(scene.work)
    assert (tried, scene.done) == (["tried"], [])


@in_asyncio
async def test_a_task_that_outlives_its_tool_cannot_pause() -> None:
    may_ask = asyncio.Event()

    async def outliving() -> None:
        await may_ask.wait()
        await ask()

    async def tool() -> asyncio.Task[None]:
        return asyncio.create_task(outliving())

    task: Any = await run_tool("t", tool)
    may_ask.set()
    with pytest.raises(OutsideWorkflow, match="'t' has ended"):
        await task


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

    task = asyncio.create_task(run_tool("t", tool))
    await is_cleaning_up.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == [("closed", "CancelledError")]


@in_asyncio
async def test_what_leaves_is_no_exception() -> None:
    async def tool() -> None:
        try:
            await ask()
        except Exception:
            pytest.fail("caught")

    assert await run_tool("t", tool)
    assert not issubclass(Left, Exception)
