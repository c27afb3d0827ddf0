"""The record of a running turn: its begun calls, its working time, and messages to it."""

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
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.run import AgentRunResult

from signoff.agents.steps.budgets import Budget, Stopwatch
from signoff.workflow.context import Context

STEER: Final = "signoff.steer"
"""The signal with a message to a running turn."""

_current: contextvars.ContextVar[TurnRecord] = contextvars.ContextVar("signoff_turn_record")


@asynccontextmanager
async def beside(listening: Coroutine[Any, Any, None]) -> AsyncGenerator[None]:
    """Run a coroutine inside of this context."""
    task = asyncio.create_task(listening)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


class TurnRecord(AbstractCapability[Any]):
    """Notes begun calls, counts the working time, and passes on messages to the turn.

    Args:
        ctx: The turn's run.
        budget: The turn's budget.
        seconds: How long it has worked before.

    Attributes:
        begun: The ids of the calls whose tools have begun to run.
        watch: How long the turn has worked.
    """

    def __init__(self, ctx: Context, budget: Budget, seconds: float = 0.0) -> None:
        self.begun: set[str] = set()
        self._ctx = ctx
        self._budget = budget
        self.watch = Stopwatch(seconds)

    @contextmanager
    def current(self) -> Generator[None]:
        """Note tool calls in this record inside of this context."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    async def wrap_run(
        self, ctx: RunContext[Any], *, handler: Callable[[], Awaitable[AgentRunResult[Any]]]
    ) -> AgentRunResult[Any]:
        """Pass on messages to the turn."""

        async def listen() -> None:
            while True:
                said = await self._ctx.wait_for_signal(STEER)
                if isinstance(said, str):
                    ctx.enqueue(said)
                else:  # it did not come from `Conversation.steer`
                    self._ctx.logger.warning("signal %s is not a text but %r: it is ignored", STEER, said)

        async with beside(listen()):
            return await handler()

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Stop before a request if no time is left for it."""
        self.watch.check(self._budget.seconds)
        return request_context


def note_call(tool_call_id: str) -> None:
    """Note in the current turn, if any, that a tool begins to run."""
    record = _current.get(None)
    if record is not None:
        record.begun.add(tool_call_id)


def note_work(times: Sequence[tuple[datetime, datetime]]) -> None:
    """Count the attempts of a step as working time of the current turn, if any."""
    record = _current.get(None)
    if record is not None:
        record.watch.add(times)
