"""What a run of an agent costs its worker: no memory after its end, and nothing at each call that is known before."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.tool_manager import ToolManager

from signoff import Context, Signoff
from signoff.agents import Durable, in_workflow
from signoff.agents.pausing.unwinding import Leaving
from signoff.codec import type_hints
from signoff.testing import MemoryStore, environment
from tests.agents.scripts import Script, calls, says
from tests.support import in_asyncio


async def work(number: int) -> str:
    return f"done {number}"


def plain_work(number: int) -> str:
    return f"done {number}"


def new_agent(runs: int, *tools: Any) -> Agent[None, str]:
    turns = [*(calls((tool.__name__, {"number": 1})) for tool in tools), says("done")]
    return Agent(Script(*turns * runs).model, name="desk", tools=tools, capabilities=[Durable()])


@contextmanager
def without_collector() -> Generator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "tool", [work, plain_work, in_workflow(work)], ids=["async", "plain", "workflow code"]
)
@in_asyncio
async def test_an_ended_run_of_an_agent_is_freed_without_the_collector(tool: Any) -> None:
    """Each holds all its messages, and a busy worker's collector seldom looks."""
    agent = new_agent(20, tool)
    app = Signoff(MemoryStore())

    @app.workflow
    async def run(ctx: Context) -> str:
        return (await agent.run("go")).output

    def alive() -> int:
        return sum(type(each) in (ToolManager, Leaving) for each in gc.get_objects())

    async with environment(app) as env:
        assert await (await env.client.start(run)).result() == "done"
        with without_collector():
            before = alive()
            for _ in range(19):
                assert await (await env.client.start(run)).result() == "done"
            assert alive() - before < 10


@in_asyncio
async def test_a_turn_resolves_no_annotations_of_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """It compiles each of them, and the functions of an agent's steps are new at each call."""
    agent = new_agent(2, work)
    app = Signoff(MemoryStore())
    app.register(agent)
    async with environment(app) as env:
        await (await env.client.start("desk", {"prompt": "go"})).result()
        resolved: list[object] = []
        resolve = type_hints.resolve

        def noting(function: Callable[..., Any]) -> Any:
            resolved.append(function)
            return resolve(function)

        monkeypatch.setattr(type_hints, "resolve", noting)
        await (await env.client.start("desk", {"prompt": "go"})).result()
    assert resolved == []
