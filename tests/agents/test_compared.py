"""A replay compares what agents ask their models, and what tools are called with."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from signoff import Context, Signoff
from signoff.agents import Durable
from signoff.errors import NonDeterminism
from signoff.records import EntryKind
from signoff.testing import MemoryStore, at_pause, environment
from tests.agents.scripts import calls, returns, says
from tests.support import in_asyncio


def asked(messages: list[ModelMessage]) -> str:
    return "".join(
        str(part.content)
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, UserPromptPart)
    )


def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if not returns(messages):
        return calls(("pay", {"order": asked(messages)}))
    return says(str([content for _, content, _ in returns(messages)]))


def payer(paid: list[str], **options: Any) -> Agent[None, str]:
    agent = Agent(FunctionModel(respond), name="payer", capabilities=[Durable()], **options)

    @agent.tool_plain
    def pay(order: str) -> str:
        paid.append(order)
        return f"paid {order}"

    return agent


def changed(paid: list[str]) -> Agent[None, str]:
    """Return the agent as another deploy has it: its tool takes something else, and it is told something else."""
    agent = Agent(
        FunctionModel(respond), name="payer", capabilities=[Durable()], instructions="Be quick.", retries=3
    )

    @agent.tool_plain
    def pay(order: Any, currency: str = "EUR", *, tries: int = 3) -> list[str]:
        paid.append(order)
        return [f"paid {order} in {currency} {tries}"]

    return agent


async def restarted(orders: list[str], then: list[str], *agents: Agent[None, str]) -> tuple[Any, list[Any]]:
    app = Signoff(MemoryStore())
    begun = itertools.count()

    @app.workflow
    async def flow(ctx: Context) -> list[str]:
        turn = next(begun)
        agent = agents[min(turn, len(agents) - 1)]
        done = [(await agent.run(order)).output for order in (orders if turn == 0 else then)]
        await ctx.wait_for_signal("go")
        return done

    async with environment(app) as env:
        env.crash(at=at_pause())
        run = await env.start(flow, id="r")
        await env.idle()
        await run.signal("go")
        try:
            result: Any = await run.result()
        except NonDeterminism as error:
            result = error
        return result, await env.store.read_journal("r")


@in_asyncio
async def test_requests_in_another_order_are_noticed() -> None:
    paid: list[str] = []
    error, _ = await restarted(["a", "b"], ["b", "a"], payer(paid))
    assert isinstance(error, NonDeterminism)
    assert (error.n, paid) == (1, ["a", "b"])


@pytest.mark.parametrize("make", [payer, changed])
@in_asyncio
async def test_an_agent_whose_tools_and_instructions_have_changed_fits(make: Any) -> None:
    paid: list[str] = []
    result, entries = await restarted(["a", "b"], ["a", "b"], payer(paid), make(paid))
    assert result == ["['paid a']", "['paid b']"]
    assert paid == ["a", "b"]
    details = [json.loads(each.details or "{}") for each in entries if each.kind is EntryKind.COMPLETED]
    compared = [each["inputs"]["compare"] for each in details if "compare" in each.get("inputs", {})]
    assert {"order": "a"} in compared
    assert {"order": "b"} in compared
