"""Decisions that a caller passes as ``DeferredToolResults`` are Pydantic AI's: they count as given, once."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from signoff import Context, Signoff
from signoff.agents import Durable
from signoff.errors import InvalidState
from signoff.testing import MemoryStore, at_pause, environment
from tests.support import in_asyncio

HISTORY: list[ModelMessage] = [
    ModelRequest(parts=[UserPromptPart("pay")]),
    ModelResponse(parts=[ToolCallPart("pay", {"cents": 7}, tool_call_id="c1")]),
]


def answers(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    returned = [part.content for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    return ModelResponse(parts=[TextPart(f"it says {returned}")])


class Desk:
    def __init__(self, results: DeferredToolResults) -> None:
        self.paid: list[int] = []
        self.app = Signoff(MemoryStore())
        self.agent: Agent[None, Any] = Agent(
            FunctionModel(answers),
            name="desk",
            capabilities=[Durable()],
            output_type=[str, DeferredToolRequests],
        )

        @self.agent.tool_plain(requires_approval=True)
        def pay(cents: int) -> str:
            self.paid.append(cents)
            return f"paid {cents}"

        @self.app.workflow
        async def work(ctx: Context) -> str:
            result = await self.agent.run(message_history=HISTORY, deferred_tool_results=results)
            await ctx.wait_for_signal("go")
            return result.output

        self.work = work

    async def run(self, *, crash: bool) -> str:
        async with environment(self.app) as env:
            if crash:
                env.crash(at=at_pause())
            run = await env.start(self.work)
            await env.idle()
            assert not (await env.client.questions()).items
            with contextlib.suppress(InvalidState):  # it has failed: the result says why
                await run.signal("go")
            return await run.result()


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize(
    ("results", "paid", "said"),
    [
        (DeferredToolResults(approvals={"c1": True}), [7], "paid 7"),
        (DeferredToolResults(approvals={"c1": ToolApproved(override_args={"cents": 9})}), [9], "paid 9"),
        (DeferredToolResults(approvals={"c1": ToolDenied("too much")}), [], "too much"),
        (DeferredToolResults(approvals={"c1": False}), [], "denied"),
    ],
)
@in_asyncio
async def test_a_decision_of_the_caller_counts_and_its_tool_runs_once(
    results: DeferredToolResults, paid: list[int], said: str, crash: bool
) -> None:
    desk = Desk(results)
    assert said in await desk.run(crash=crash)
    assert desk.paid == paid


@in_asyncio
async def test_a_decision_about_another_call_is_refused_by_name() -> None:
    desk = Desk(DeferredToolResults(approvals={"other": True}))
    with pytest.raises(UserError, match=r"Expected: \{'c1'\}, got: \{'other'\}"):
        await desk.run(crash=False)
    assert not desk.paid
