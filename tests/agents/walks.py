"""An agent that takes many steps in one turn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.agent import WrapperAgent
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.usage import RequestUsage

from signoff import Signoff
from signoff.agents import Budget, Durable
from signoff.agents.conversations.generations import RESPONSES
from signoff.client.async_client import AsyncClient
from signoff.records import EntryKind
from tests.agents.chats import returns_of, texts_of
from tests.agents.scripts import calls, says

CALLS = 2 * RESPONSES + 1


class Walk:
    """An agent whose model takes one step after the other, then sends, which must be approved, then tells.

    Attributes:
        walked: The numbers of the steps taken.
        asked: The messages of each request.
        contexts: What the model's steps and the sending had as their context, and as the number of their request.
    """

    def __init__(
        self,
        app: Signoff,
        *,
        steps: int = CALLS,
        budget: Budget | None = None,
        more: Sequence[Any] = (),
        sender: str = "send",
        wrapped: type[WrapperAgent[Any, Any]] | None = None,
    ) -> None:
        self.app = app
        self.steps = steps
        self.walked: list[int] = []
        self.sent = 0
        self.asked: list[list[ModelMessage]] = []
        self.contexts: list[tuple[Any, int, str | None, Any]] = []
        self.failing: dict[int, int] = {}
        self.said_with: dict[int, Callable[[], Awaitable[object]]] = {}
        self.text = "step"
        self.send_at = steps
        self.agent = Agent(
            FunctionModel(self._respond, stream_function=self._stream),
            name="walker",
            deps_type=dict[str, Any],
            capabilities=[Durable(approvals=["send"]), *more],
        )
        self.agent.tool(retries=9)(self.step)
        self.agent.tool(name=sender)(self.send)
        app.register(self.agent if wrapped is None else wrapped(self.agent), budget=budget)

    async def _respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.asked.append(list(messages))
        if (meanwhile := self.said_with.get(len(self.asked))) is not None:
            await meanwhile()
        texts = [text for text in texts_of(messages) if text.startswith("go")]
        begun = max(
            number
            for number, message in enumerate(messages)
            if isinstance(message, ModelRequest) and texts[-1] in texts_of([message])
        )
        returned = returns_of(messages[begun:])
        returned = [each for each in returned if each.outcome == "success"]
        tools = [each.tool_name for each in returned]
        done = 1 + max(
            (int(str(each.content).split()[-1]) for each in returned if each.tool_name == "step"), default=-1
        )
        if "send" not in tools and done == self.send_at:
            response = calls(("send", {}))
        else:
            response = says("walked") if done == self.steps else calls(("step", {"number": done}))
        response.usage = RequestUsage(input_tokens=10, output_tokens=1)
        return response

    async def _stream(
        self, messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | DeltaToolCalls]:
        for part in (await self._respond(messages, info)).parts:
            if isinstance(part, ToolCallPart):
                yield {0: DeltaToolCall(part.tool_name, part.args_as_json_str())}
            elif isinstance(part, TextPart):
                yield part.content

    async def step(self, ctx: RunContext[dict[str, Any]], number: int) -> str:
        """Take a step."""
        self.contexts.append((dict(ctx.deps), ctx.run_step, ctx.run_id, ctx.prompt))
        if self.failing.get(number, 0) > ctx.retry:
            raise ModelRetry(f"try {ctx.retry} of {number} is too few")
        self.walked.append(number)
        return f"{self.text} {number}"

    async def send(self, ctx: RunContext[dict[str, Any]]) -> str:
        """Send it."""
        self.contexts.append((dict(ctx.deps), ctx.run_step, ctx.run_id, ctx.prompt))
        self.sent += 1
        return "sent"


async def generations(client: AsyncClient, run_id: str) -> int:
    """Count a run's generations."""
    entries = await client.backend.read_journal(run_id)
    return sum(entry.kind in (EntryKind.STARTED, EntryKind.CONTINUED) for entry in entries)
