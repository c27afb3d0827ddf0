"""Usage that a tool's code adds counts once, in this process and in the one that rebuilds the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic_ai import Agent, ModelRetry, RunContext, Tool
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.toolsets import DynamicToolset, FunctionToolset
from pydantic_ai.usage import RunUsage, UsageLimits

from signoff import Context, Signoff
from signoff.agents import Durable, pause, tool_options
from signoff.testing import MemoryStore, after_step, environment
from tests.agents.scripts import Script, calls, says
from tests.support import in_asyncio

ADDED = 7


async def delegates(ctx: RunContext[Any]) -> str:
    inner = Agent(Script(*[calls(("look", {}))] * (ADDED - 1), says("seen")).model, name="inner")
    inner.tool_plain(name="look")(lambda: "nothing")
    return (await inner.run("go", usage=ctx.usage)).output


async def retries_the_model(ctx: RunContext[Any]) -> str:
    ctx.usage.incr(RunUsage(requests=ADDED))
    raise ModelRetry("again")


async def pauses(ctx: RunContext[Any]) -> str:
    ctx.usage.incr(RunUsage(requests=ADDED))
    return (await pause("await_input", prompt="Which?")).value


def fails_twice() -> Callable[[RunContext[Any]], str]:
    attempts: list[int] = []

    def work(ctx: RunContext[Any]) -> str:
        ctx.usage.incr(RunUsage(requests=ADDED))
        attempts.append(1)
        if len(attempts) < 3:
            raise ConnectionError("lost")
        return "done"

    return work


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    ("make", "times"),
    [
        (lambda: delegates, 1),
        (lambda: retries_the_model, 1),
        (lambda: pauses, 2),  # once for each round
        (fails_twice, 1),  # failed attempts are not counted
    ],
    ids=["delegates", "retries the model", "pauses", "fails twice"],
)
@in_asyncio
async def test_it_counts_once(
    make: Callable[[], Callable[..., Any]], times: int, is_dynamic: bool, crashes: bool
) -> None:
    work = Tool(make(), name="work", takes_ctx=True, metadata=tool_options(effect="repeatable"))
    tools = FunctionToolset([work, Tool(lambda: "paid", name="pay", requires_approval=True)], id="tools")
    agent = Agent(
        Script(calls(("work", {})), calls(("pay", {})), says("done")).model,
        name="desk",
        toolsets=[DynamicToolset[Any](lambda ctx: tools, id="dynamic") if is_dynamic else tools],
        capabilities=[Durable()],
    )
    app = Signoff(MemoryStore())

    @app.workflow
    async def run(ctx: Context) -> int:
        return (await agent.run("go")).usage.requests

    async with environment(app) as env:
        if crashes:
            env.crash(at=after_step("desk.pay:changed"))
        env.people.answer("Which?", "this")
        env.people.answer("*", True)
        assert await env.run(run) == 3 + times * ADDED


@in_asyncio
async def test_a_limit_counts_it_after_a_crash() -> None:
    agent = Agent(
        Script(calls(("work", {})), calls(("pay", {})), says("done")).model,
        name="desk",
        tools=[Tool(delegates, name="work"), Tool(lambda: "paid", name="pay", requires_approval=True)],
        capabilities=[Durable()],
    )
    app = Signoff(MemoryStore())

    @app.workflow
    async def run(ctx: Context) -> str:
        return (await agent.run("go", usage_limits=UsageLimits(request_limit=ADDED + 2))).output

    async with environment(app) as env:
        env.crash(at=after_step("desk.pay:changed"))
        env.people.answer("*", True)
        with pytest.raises(UsageLimitExceeded):
            await env.run(run)


@pytest.mark.parametrize("crashes", [False, True])
@in_asyncio
async def test_messages_and_metadata_are_those_of_the_run(crashes: bool) -> None:
    def work(ctx: RunContext[Any]) -> str:
        ctx.messages.clear()
        assert ctx.metadata is not None
        ctx.metadata["added"] = True
        return "done"

    agent = Agent(
        Script(calls(("work", {})), calls(("pay", {})), says("done")).model,
        name="desk",
        tools=[Tool(work), Tool(lambda: "paid", name="pay", requires_approval=True)],
        capabilities=[Durable()],
    )
    app = Signoff(MemoryStore())

    @app.workflow
    async def run(ctx: Context) -> list[Any]:
        result = await agent.run("go", metadata={"kept": 1})
        return [len(result.all_messages()), result.metadata]

    async with environment(app) as env:
        if crashes:
            env.crash(at=after_step("desk.pay:changed"))
        env.people.answer("*", True)
        assert await env.run(run) == [6, {"kept": 1}]
