"""Code that asks where no one can be asked fails its call or run, even if it swallows the refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from pydantic_ai import Agent, Tool
from pydantic_ai.models.test import TestModel

from signoff import Context, Signoff
from signoff.agents import Durable, ask_user, in_workflow, pause
from signoff.agents.approvals.ask_user import AskedField
from signoff.errors import OutsideWorkflow
from signoff.testing import MemoryStore, environment
from tests.support import in_asyncio

FIELDS = [AskedField(name="sum", question="How much?")]


async def pauses() -> None:
    with suppress(BaseException):
        await pause("approval_required", prompt="Pay?")


async def asks_the_user() -> None:
    with suppress(BaseException):
        await ask_user("Pay?", FIELDS)


async def gathers() -> None:
    await asyncio.gather(ask_user("Pay?", FIELDS), return_exceptions=True)


def asks_plainly() -> None:
    with suppress(BaseException):
        asyncio.run(ask_user("Pay?", FIELDS))


def in_a_tool(asks: Callable[[], Any]) -> Callable[..., Any]:
    async def pay() -> str:
        await asks()
        return "paid"

    def pay_plainly() -> str:
        asks()
        return "paid"

    tool = pay_plainly if asks is asks_plainly else pay
    agent = Agent(TestModel(), name="desk", tools=[Tool(tool, name="pay")], capabilities=[Durable()])

    async def work(ctx: Context) -> str:
        return (await agent.run("go")).output

    return work


def in_a_tool_of_workflow_code(asks: Callable[[], Any]) -> Callable[..., Any]:
    @in_workflow
    async def pay() -> str:
        await asks()
        return "paid"

    agent = Agent(TestModel(), name="desk", tools=[pay], capabilities=[Durable()])

    async def work(ctx: Context) -> str:
        return (await agent.run("go")).output

    return work


def in_a_workflow(asks: Callable[[], Any]) -> Callable[..., Any]:
    async def work(ctx: Context) -> str:
        await asks()
        return "paid"

    return work


def in_a_step(asks: Callable[[], Any]) -> Callable[..., Any]:
    async def work(ctx: Context) -> str:
        await ctx.step("pay", asks)
        return "paid"

    return work


@pytest.mark.parametrize(
    ("place", "asks"),
    [
        (in_a_tool, asks_the_user),
        (in_a_tool, gathers),
        (in_a_tool, asks_plainly),
        (in_a_tool_of_workflow_code, pauses),
        (in_a_workflow, pauses),
        (in_a_step, pauses),
        (in_a_step, asks_the_user),
    ],
)
@in_asyncio
async def test_nothing_goes_on_unanswered(place: Any, asks: Any) -> None:
    app = Signoff(MemoryStore())
    app.workflow(name="work")(place(asks))
    async with environment(app) as env:
        run = await env.start("work", id="r")
        with pytest.raises(OutsideWorkflow, match="out of place"):
            await run.result()
        assert not (await env.client.questions()).items
