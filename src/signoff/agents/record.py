"""What is noted of a turn while it runs: which calls have begun, how long it was at work, what is said meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from typing import Any, Final

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.run import AgentRunResult

from signoff.agents.budgets import Budget, Stopwatch
from signoff.context import Context

STEER: Final = "signoff.steer"
"""The signal that has what is said to a turn while it runs."""

_current: contextvars.ContextVar[TurnRecord] = contextvars.ContextVar("signoff_turn_record")


@asynccontextmanager
async def beside(listening: Coroutine[Any, Any, None]) -> AsyncGenerator[None]:
    """Run something as long as this is entered."""
    task = asyncio.create_task(listening)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


class TurnRecord(AbstractCapability[Any]):
    """Notes which calls have begun, counts the time at work, and hands on what is said meanwhile.

    Args:
        ctx: The turn's run.
        budget: What the turn may use up.
        behind: The messages of the turn's earlier generations.
        seconds: How long it was at work in them.

    Attributes:
        behind: The messages of the turn's earlier generations.
        first_request: What this generation of the turn has first asked the model, once it is known.
        begun: The ids of the calls whose tools have begun to run.
        watch: How long the turn was at work.
    """

    def __init__(
        self, ctx: Context, budget: Budget, behind: Sequence[ModelMessage] = (), seconds: float = 0.0
    ) -> None:
        self.behind = behind
        self.first_request: ModelRequest | None = None
        self.begun: set[str] = set()
        self._ctx = ctx
        self._budget = budget
        self.watch = Stopwatch(seconds)

    @contextmanager
    def current(self) -> Generator[None]:
        """Have tool calls noted here until this is left."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def said(self, messages: Sequence[ModelMessage]) -> Sequence[ModelMessage]:
        """Return the turn's messages, of all its generations.

        Args:
            messages: Those of the agent's run, of which processors may have taken some away.
        """
        mine = [message for message in messages if message.run_id == self._ctx.run_id]
        if self.behind and self.first_request is not None and _answers(self.first_request) - _answers(*mine):
            mine.insert(0, self.first_request)  # what the calls at the end of those behind have returned
        return [*self.behind, *mine]

    async def wrap_run(
        self, ctx: RunContext[Any], *, handler: Callable[[], Awaitable[AgentRunResult[Any]]]
    ) -> AgentRunResult[Any]:
        """Hand on what is said to the turn."""

        async def listen() -> None:
            while True:
                ctx.enqueue(await self._ctx.wait_for_signal(STEER, returns=str))

        async with beside(listen()):
            return await handler()

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Make no request for which no time is left."""
        self.watch.check(self._budget.seconds)
        return request_context


def _answers(*messages: ModelMessage) -> set[str]:
    parts = (part for message in messages for part in message.parts)
    return {part.tool_call_id for part in parts if isinstance(part, ToolReturnPart)}


def note_call(tool_call_id: str) -> None:
    """Note that a tool begins to run, in the turn that runs here, if one does."""
    record = _current.get(None)
    if record is not None:
        record.begun.add(tool_call_id)


def note_work(times: Sequence[tuple[datetime, datetime]]) -> None:
    """Count the times of a step's attempts as work of the turn that runs here, if one does."""
    record = _current.get(None)
    if record is not None:
        record.watch.add(times)
