"""Plain tools share the worker's threads with plain steps. Waiting for a thread does not count as a tool's time."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pydantic_ai import Agent, FunctionToolset, RunContext, Tool
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import DynamicToolset

from signoff import Context, Signoff
from signoff.agents import Durable, tool_options
from signoff.engine.steps import threads
from signoff.observability import events
from signoff.observability.events import AttemptSucceeded, ThreadAwaited
from signoff.testing import MemoryStore
from tests.agents.scripts import calls, returns, says
from tests.places import NewStore
from tests.support import comes, in_asyncio, running

LIMIT = 1.0  # seconds, within which a tool ends that does nothing, on a slow machine, too


def quick() -> str:
    return threading.current_thread().name


def with_pydantic_ais_timeout() -> dict[str, Any]:
    return {"tools": [Tool(quick, timeout=LIMIT)]}


def with_the_toolsets_timeout() -> dict[str, Any]:
    return {"toolsets": [FunctionToolset([quick], timeout=LIMIT, id="t")]}


def with_a_dynamic_toolset() -> dict[str, Any]:
    def make(ctx: RunContext[Any]) -> FunctionToolset[Any]:
        return FunctionToolset([Tool(quick, timeout=LIMIT)], id="t")

    return {"toolsets": [DynamicToolset(make, id="d")]}


def with_the_steps_timeout() -> dict[str, Any]:
    return {"tools": [Tool(quick, metadata=tool_options(timeout=LIMIT))]}


def agent_of(name: str, tool: str, **options: Any) -> Agent[None, str]:
    async def respond(
        messages: list[ModelMessage], info: AgentInfo
    ) -> ModelResponse:  # a plain one takes a thread
        return says("done") if len(messages) > 1 else calls((tool, {}))

    return Agent(FunctionModel(respond), name=name, capabilities=[Durable()], **options)


@pytest.mark.parametrize(
    "make",
    [with_pydantic_ais_timeout, with_the_toolsets_timeout, with_a_dynamic_toolset, with_the_steps_timeout],
)
@in_asyncio
async def test_the_wait_for_a_thread_is_no_part_of_a_tools_timeout(
    make: Callable[[], dict[str, Any]],
    new_store: NewStore,
    caplog: pytest.LogCaptureFixture,
    request: pytest.FixtureRequest,
) -> None:
    app, hung, let_go = Signoff(new_store()), threading.Event(), threading.Event()

    def hang() -> None:
        hung.set()
        let_go.wait(60)

    stuck_agent, agent = agent_of("s", "hang", tools=[hang]), agent_of("q", "quick", **make())

    @app.workflow
    async def stuck(ctx: Context) -> None:
        await stuck_agent.run("go")

    @app.workflow
    async def flow(ctx: Context) -> list[Any]:
        return returns((await agent.run("go")).all_messages())

    awaited, ended = list[ThreadAwaited](), list[AttemptSucceeded]()

    def hear(event: object) -> None:
        if isinstance(event, ThreadAwaited):
            awaited.append(event)
        elif isinstance(event, AttemptSucceeded) and event.attempt.step == "q.quick":
            ended.append(event)

    request.addfinalizer(events.subscribe(hear))
    with caplog.at_level(logging.WARNING, "signoff.worker"):
        async with running(app, threads=1, beat_seconds=0.05) as client:
            await client.start(stuck, id="run-s")
            assert await asyncio.to_thread(hung.wait, 60)
            run = await client.start(flow)

            async def warned() -> list[str]:
                return [record.getMessage() for record in caplog.records if "threads" in record.getMessage()]

            [message] = await comes(warned)
            assert "all 1 threads for plain steps are taken, and 1 steps wait for one" in message
            assert "step 's.hang' of run run-s" in message
            assert (1, 1, 1) in [(pool.count, pool.busy, pool.waiting) for pool in threads.at_work()]
            await asyncio.sleep(1.1 * LIMIT)
            let_go.set()
            [[name, content, outcome]] = await run.result(60)
            assert (name, outcome) == ("quick", "success")
            assert content.startswith("signoff step")
            [event] = awaited
            assert event.seconds >= LIMIT
            assert [each.seconds < LIMIT for each in ended] == [True], "that time is no part of the attempt"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"timeout": 0.05}, "Timed out after 0.05 seconds."),
        ({"metadata": tool_options(timeout=0.05, effect="once")}, "StepTimeout"),
    ],
)
@in_asyncio
async def test_a_plain_tool_that_has_a_thread_times_out(options: dict[str, Any], said: str) -> None:
    app, let_go = Signoff(MemoryStore()), threading.Event()

    def hang() -> None:
        let_go.wait(60)

    agent = agent_of("s", "hang", tools=[Tool(hang, **options)])

    @app.workflow
    async def flow(ctx: Context) -> str:
        try:
            return str((await agent.run("go")).all_messages())
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    async with running(app) as client:
        outcome = await (await client.start(flow)).result(60)
        let_go.set()
    assert said in outcome


@in_asyncio
async def test_an_agent_in_a_plain_tool_does_not_wait_for_its_own_thread() -> None:
    app = Signoff(MemoryStore())
    inner = agent_of("i", "quick", tools=[quick])

    def outer() -> str:
        return str(returns(asyncio.run(inner.run("go")).all_messages()))

    agent = agent_of("o", "outer", tools=[outer])

    @app.workflow
    async def flow(ctx: Context) -> str:
        return str(returns((await agent.run("go")).all_messages()))

    async with running(app, threads=1) as client:
        assert "success" in await (await client.start(flow)).result(60)


@in_asyncio
async def test_a_plain_tool_that_raises_stop_iteration_fails() -> None:
    """A future cannot carry it: the step would hang."""
    app = Signoff(MemoryStore())

    def end() -> None:
        raise StopIteration

    agent = agent_of("s", "end", tools=[Tool(end, metadata=tool_options(effect="once"))])

    @app.workflow
    async def flow(ctx: Context) -> None:
        await agent.run("go")

    async with running(app) as client:
        with pytest.raises(RuntimeError, match="StopIteration"):
            await (await client.start(flow)).result(60)
