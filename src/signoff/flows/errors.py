"""Errors of flows. Each says what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from signoff.errors import CannotRunHere, SignoffError


class ChunkFailed(SignoffError):
    """A chunk of a flow failed, and with it the execution. If it can be retried, this is a ``ChunkHeld``.

    Attributes:
        chunk: Its place in the graph.
        input: Its input, as JSON; shortened if long.
        reason: Its error, as text.
    """

    def __init__(self, chunk: str, input: str, reason: str) -> None:
        super().__init__(f"chunk {chunk!r} failed on {input}: {reason}")
        self.chunk = chunk
        self.input = input
        self.reason = reason


class ChunkHeld(ChunkFailed, CannotRunHere):
    """A chunk or condition failed, and the execution can be retried from there.

    Answered questions stay answered, and open ones stay open.
    """


class PauseIgnored(SignoffError):
    """A chunk called ``pause_for`` and continued without pausing. Its effects are dropped, and nothing is asked.

    Attributes:
        chunk: Its place in the graph.
        line: The line of ``data.pause_for``.
        was_awaited: Whether it awaited the pause and caught the exception that leaves the chunk.
        raised: The exception it raised afterwards, if any.
    """

    def __init__(self, chunk: str, line: str, was_awaited: bool, raised: str | None = None) -> None:
        what = (
            "awaited data.pause_for and went on unanswered: let what it raises pass (no bare except, no except "
            "BaseException, no gather(return_exceptions=True), no return in finally)"
            if was_awaited
            else "called data.pause_for and went on without it: write `return await data.pause_for(...)`, or "
            "`return data.pause_for(...)` in a plain function"
        )
        after = "" if raised is None else f"; then it raised {raised}"
        super().__init__(f"chunk {chunk!r} {what} ({line}){after}")
        self.chunk = chunk
        self.line = line
        self.was_awaited = was_awaited
        self.raised = raised


class NotAwaited(SignoffError):
    """A chunk returned an awaitable that no code awaits. Its effects are dropped."""

    def __init__(self, chunk: str, returned: str) -> None:
        super().__init__(
            f"chunk {chunk!r} returned {returned}, which no code awaits: make it `async def` and `return await ...`"
        )
        self.chunk = chunk
        self.returned = returned


class NotACondition(SignoffError):
    """A condition returned neither true nor false, or did more than read its data."""

    def __init__(self, condition: str, problem: str) -> None:
        super().__init__(f"condition {condition!r} {problem}")
        self.condition = condition
        self.problem = problem


class ResumedTooOften(SignoffError):
    """A chunk that resumes to itself has paused more often than ``max_resumes`` allows."""

    def __init__(self, chunk: str, max_resumes: int) -> None:
        super().__init__(
            f"chunk {chunk!r} was resumed {max_resumes} times and pauses again; raise max_resumes (None: unbounded)"
        )
        self.chunk = chunk
        self.max_resumes = max_resumes


class DuplicateInterrupt(SignoffError, ValueError):
    """Another open interrupt of the execution has this id."""

    def __init__(self, interrupt_id: str) -> None:
        super().__init__(
            f"interrupt {interrupt_id!r} is already open in this execution; choose another interrupt_id"
        )
        self.interrupt_id = interrupt_id


class MissingResource(CannotRunHere):
    """A worker runs an execution without a resource that the flow requires. Retry the run where it is provided.

    Other workers of the group try first.
    """

    may_run_elsewhere = True

    def __init__(self, flow: str, names: Sequence[str]) -> None:
        super().__init__(
            f"flow {flow!r} requires {', '.join(names)}, which this worker does not provide; "
            "register it with app.register(flow, resources={...}) there, then retry the run"
        )
        self.flow = flow
        self.names = list(names)


class FlowChanged(CannotRunHere):
    """An execution began with a graph that differs from its flow's. Nothing is lost; other workers try first.

    Attributes:
        flow: The flow.
        changes: The differences, one per line; ``-`` marks the old graph, ``+`` the current one.
    """

    may_run_elsewhere = True

    def __init__(self, flow: str, changes: Sequence[str]) -> None:
        listed = "\n  ".join(changes)
        super().__init__(
            f"flow {flow!r} is not the graph that this execution began with:\n  {listed}\n"
            "Restore it, or map its chunks with @flow.migrate; then retry the run"
        )
        self.flow = flow
        self.changes = list(changes)


class PendingInterrupts(SignoffError):
    """An execution cannot be closed while interrupts are open."""

    def __init__(self, execution_id: str, interrupt_ids: Sequence[str]) -> None:
        super().__init__(
            f"execution {execution_id!r} waits for {', '.join(interrupt_ids)}; "
            "answer them first, or close(pending_interrupts='cancel')"
        )
        self.execution_id = execution_id
        self.interrupt_ids = list(interrupt_ids)


class ExecutionClosed(SignoffError):
    """An execution has ended and accepts no more events."""

    def __init__(self, execution_id: str, what: str) -> None:
        super().__init__(f"execution {execution_id!r} is closed and takes no {what}; start another one")
        self.execution_id = execution_id
        self.what = what


class AmbiguousEvent(SignoffError):
    """Several interrupts of an execution wait for one event."""

    def __init__(self, event: str, interrupt_ids: Sequence[str]) -> None:
        super().__init__(
            f"event {event!r} is waited for by {', '.join(interrupt_ids)}; answer one of them with continue_with"
        )
        self.event = event
        self.interrupt_ids = list(interrupt_ids)


class UnknownInterrupt(SignoffError, LookupError):
    """An execution has no such interrupt."""

    def __init__(self, execution_id: str, interrupt_id: str, pending: Sequence[str]) -> None:
        there = f"pending are {', '.join(pending)}" if pending else "nothing is pending"
        super().__init__(f"execution {execution_id!r} has no interrupt {interrupt_id!r}; {there}")
        self.execution_id = execution_id
        self.interrupt_id = interrupt_id
        self.pending = list(pending)


def reason_of(error: Exception) -> str:
    """Return the reason of a failure, for ``ChunkFailed``."""
    return str(error) if isinstance(error, PauseIgnored | NotAwaited | NotACondition) else repr(error)


def shortened(value: Any, limit: int = 200) -> str:
    """Return a value as short text for an error."""
    text = str(value)
    return text if len(text) <= limit else f"{text[:limit]}..."
