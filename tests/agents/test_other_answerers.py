"""Capabilities that answer deferred calls answer none that people are asked about."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai import Agent, ApprovalRequired, DeferredToolRequests, DeferredToolResults, RunContext
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering, HandleDeferredToolCalls

from signoff import Context, Signoff
from signoff.agents import Durable
from signoff.testing import MemoryStore, at_pause, environment
from tests.agents.scripts import Script, calls, returns, says
from tests.support import in_asyncio


async def agree(ctx: RunContext[Any], requests: DeferredToolRequests) -> DeferredToolResults:
    return requests.build_results(
        approvals={each.tool_call_id: True for each in requests.approvals},
        calls={each.tool_call_id: "made up" for each in requests.calls},
    )


class Outermost(HandleDeferredToolCalls[Any]):
    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(position="outermost")


def require(ctx: RunContext[Any], cents: int) -> None:
    if not ctx.tool_call_approved:
        raise ApprovalRequired


PLACES = {
    "agent": HandleDeferredToolCalls,
    "outermost": Outermost,
    "run": HandleDeferredToolCalls,
    "run, outermost": Outermost,
}


@pytest.mark.parametrize("gate", ["tool", "policy", "validator"])
@pytest.mark.parametrize("barrier", [False, True])
@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("place", PLACES)
@in_asyncio
async def test_people_are_asked_before_a_handler(
    place: str, is_first: bool, barrier: bool, gate: str
) -> None:
    paid: list[int] = []
    script = Script(calls(("pay", {"cents": 7})), says("done"))
    durable = Durable(barrier=barrier, approvals=["pay"] if gate == "policy" else None)
    answering: AbstractCapability[Any] = PLACES[place](agree)
    of_agent: list[AbstractCapability[Any]] = [] if place.startswith("run") else [answering]
    agent = Agent(
        script.model,
        name="payer",
        capabilities=[*of_agent, durable] if is_first else [durable, *of_agent],
    )

    async def pay(ctx: RunContext[Any], cents: int) -> str:
        paid.append(cents)
        return "paid"

    agent.tool(requires_approval=gate == "tool", args_validator=require if gate == "validator" else None)(pay)
    app = Signoff(MemoryStore())

    @app.workflow
    async def work(ctx: Context) -> list[Any]:
        done = await agent.run("go", capabilities=[answering] if place.startswith("run") else None)
        return returns(done.all_messages())

    async with environment(app) as env:
        env.crash(at=at_pause())
        run = await env.start(work)
        await env.idle()
        assert paid == []
        (question,) = (await env.client.questions()).items
        await env.client.answer(question.id, False)
        assert [outcome for _, _, outcome in await run.result()] == ["denied"]
        assert paid == []
