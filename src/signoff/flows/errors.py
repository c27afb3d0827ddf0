"""What goes wrong with flows, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from signoff.errors import CannotRunHere, SignoffError


class ChunkFailed(SignoffError):
    """A chunk of a flow failed, and with it the execution. If it can be retried, this is a ``ChunkHeld``.

    Attributes:
        chunk: Its place in the graph.
        input: What it was given, as JSON; shortened if it is long.
        reason: What it failed with.
    """

    def __init__(self, chunk: str, input: str, reason: str) -> None:
        super().__init__(f"chunk {chunk!r} failed on {input}: {reason}")
        self.chunk = chunk
        self.input = input
        self.reason = reason


class ChunkHeld(ChunkFailed, CannotRunHere):
    """A chunk or a condition failed, and the execution is kept: it goes on there when it is retried.

    Whatever was answered stays answered, and what is asked stays open.
    """


class PauseIgnored(SignoffError):
    """A chunk asked for a pause and went on without it. Nothing of the chunk counts, and nothing is asked.

    Attributes:
        chunk: Its place in the graph.
        line: Where it called ``data.pause_for``.
        was_awaited: Whether it awaited the pause, and then caught what leaves the chunk.
        raised: What it raised then, if it did.
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
    """A chunk returned something that nobody has awaited. Nothing of the chunk counts."""

    def __init__(self, chunk: str, returned: str) -> None:
        super().__init__(
            f"chunk {chunk!r} returned {returned}, which nobody awaits: make it `async def` and `return await ...`"
        )
        self.chunk = chunk
        self.returned = returned


class NotACondition(SignoffError):
    """A condition returned something that is neither true nor false, or did more than look at its data."""

    def __init__(self, condition: str, problem: str) -> None:
        super().__init__(f"condition {condition!r} {problem}")
        self.condition = condition
        self.problem = problem


class ResumedTooOften(SignoffError):
    """A chunk that resumes to itself has paused once more than it may."""

    def __init__(self, chunk: str, max_resumes: int) -> None:
        super().__init__(
            f"chunk {chunk!r} was resumed {max_resumes} times and pauses again; raise max_resumes (None: unbounded)"
        )
        self.chunk = chunk
        self.max_resumes = max_resumes


class DuplicateInterrupt(SignoffError, ValueError):
    """An interrupt id that another open interrupt of the execution has."""

    def __init__(self, interrupt_id: str) -> None:
        super().__init__(
            f"interrupt {interrupt_id!r} is open already in this execution; choose another interrupt_id"
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
    """An execution began with another graph than its flow has now. Nothing of it is lost; other workers try first.

    Attributes:
        flow: The flow.
        changes: What differs, a line each; ``-`` was there, ``+`` is there now.
    """

    may_run_elsewhere = True

    def __init__(self, flow: str, changes: Sequence[str]) -> None:
        told = "\n  ".join(changes)
        super().__init__(
            f"flow {flow!r} is not the graph that this execution began with:\n  {told}\n"
            "Restore it, or say with @flow.migrate which chunk is which now; then retry the run"
        )
        self.flow = flow
        self.changes = list(changes)


class PendingInterrupts(SignoffError):
    """An execution cannot be closed while somebody is asked."""

    def __init__(self, execution_id: str, interrupt_ids: Sequence[str]) -> None:
        super().__init__(
            f"execution {execution_id!r} waits for {', '.join(interrupt_ids)}; "
            "answer them first, or close(pending_interrupts='cancel')"
        )
        self.execution_id = execution_id
        self.interrupt_ids = list(interrupt_ids)


class ExecutionClosed(SignoffError):
    """An execution has ended and takes nothing more."""

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
    """There is no such interrupt in an execution."""

    def __init__(self, execution_id: str, interrupt_id: str, pending: Sequence[str]) -> None:
        there = f"pending are {', '.join(pending)}" if pending else "nothing is pending"
        super().__init__(f"execution {execution_id!r} has no interrupt {interrupt_id!r}; {there}")
        self.execution_id = execution_id
        self.interrupt_id = interrupt_id
        self.pending = list(pending)


def reason_of(error: Exception) -> str:
    """Return why something failed, for ``ChunkFailed``."""
    return str(error) if isinstance(error, PauseIgnored | NotAwaited | NotACondition) else repr(error)


def shortened(value: Any, limit: int = 200) -> str:
    """Return how a value is told in an error."""
    text = str(value)
    return text if len(text) <= limit else f"{text[:limit]}..."
