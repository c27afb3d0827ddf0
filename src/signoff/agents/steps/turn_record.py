"""The record of a running turn: its begun calls, its working time, and messages to it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import AsyncGenerator, Coroutine, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from typing import Any, Final

from pydantic_ai import RunContext

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


class TurnRecord:
    """Notes begun calls, counts the working time, and passes on messages to the turn.

    It is not a capability of its own: Pydantic AI copies the run's context for each capability and hook.

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

    @property
    def run_id(self) -> str:
        """The id of the turn's run, which is also that of the agent's."""
        return self._ctx.run_id

    async def listen(self, ctx: RunContext[Any]) -> None:
        """Pass on messages to the turn."""
        while True:
            said = await self._ctx.wait_for_signal(STEER)
            if isinstance(said, str):
                ctx.enqueue(said)
            else:  # it did not come from `Conversation.steer`
                self._ctx.logger.warning("signal %s is not a text but %r: it is ignored", STEER, said)

    def check_time(self) -> None:
        """Check that time is left for another request. Raises UsageLimitExceeded."""
        self.watch.check(self._budget.seconds)


def turn_record_of(run_id: str | None) -> TurnRecord | None:
    """Return the record of a turn; None: it is not current here, such as for an agent that runs inside of the turn.

    Args:
        run_id: The id of the agent's run.
    """
    record = _current.get(None)
    return record if record is not None and record.run_id == run_id else None


@asynccontextmanager
async def steered(ctx: RunContext[Any]) -> AsyncGenerator[None]:
    """Pass on messages to the turn inside of this context, if the agent's run is one."""
    record = turn_record_of(ctx.run_id)
    if record is None:
        yield
        return
    async with beside(record.listen(ctx)):
        yield


def check_time(ctx: RunContext[Any]) -> None:
    """Check that the agent's run, if it is a turn, has time for another request."""
    record = turn_record_of(ctx.run_id)
    if record is not None:
        record.check_time()


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
