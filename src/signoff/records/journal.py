"""The journal of a run, and the calls that it records."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from signoff.codec.strict_json import read_object
from signoff.records.record import record


class CallKind(StrEnum):
    """Kind of a call that a run makes on its context."""

    STEP = "step"
    PROMISE = "promise"
    QUESTION = "question"
    SIGNAL = "signal"
    TIMER = "timer"
    CHILD = "child"
    DETACHED = "detached"
    PROGRESS = "progress"


class EntryKind(StrEnum):
    """Kind of a journal entry.

    Workflow code receives ``COMPLETED``, ``SIGNALLED``, ``CANCEL_REQUESTED`` and ``DEADLINE_PASSED``, on the first
    execution and on each replay, in journal order. The other kinds are checked by replay or read by people.
    """

    STARTED = "started"
    CONTINUED = "continued"
    OPENED = "opened"
    STEP_STARTED = "step_started"
    ATTEMPT_FAILED = "attempt_failed"
    COMPLETED = "completed"
    SIGNALLED = "signalled"
    PATCHED = "patched"
    PROGRESSED = "progressed"
    CANCEL_REQUESTED = "cancel_requested"
    DEADLINE_PASSED = "deadline_passed"
    RETRIED = "retried"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


@record
class Entry:
    """One event of a run: row ``seq`` of its journal."""

    seq: int
    at: float
    kind: EntryKind
    n: int | None = None
    call: CallKind | None = None
    name: str | None = None
    value: str | None = None  # JSON
    error: str | None = None  # JSON of an error
    details: str | None = None  # JSON object, by kind

    def fact(self, key: str) -> Any:
        """Return one of the details, or None."""
        # Replay asks for many absent keys: a search in the text is faster than parsing it.
        if self.details is None or key not in self.details:
            return None
        return read_object(self.details).get(key)

    @property
    def state(self) -> str | None:
        """The final state of the promise or child run that this entry completes."""
        return self.fact("state")


@dataclass(frozen=True, slots=True)
class LiveText:
    """Part of the output of a running step attempt (see ``StepInfo.live``). It is not journaled.

    Attributes:
        run_id: The run.
        epoch: The lease under which it was written.
        seq: Its position among the parts of that lease: ascending, with gaps.
        n: The number of the step's call.
        name: The step's name.
        attempt: The number of the attempt, from 1.
        position: How many characters of any kind the attempt wrote before. 0: the output starts again.
        kind: Its kind, such as ``text``.
        text: The text.
    """

    run_id: str
    epoch: int
    seq: int
    n: int
    name: str
    attempt: int
    position: int
    kind: str
    text: str
