"""Messages to runs: events from outside that their workers have yet to journal."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MessageKind(StrEnum):
    """Kind of a message to a run."""

    SETTLED = "settled"
    SIGNAL = "signal"
    CANCEL = "cancel"
    DEADLINE = "deadline"
    SUSPEND = "suspend"


@dataclass(frozen=True, slots=True)
class Message:
    """An event from outside that a run has yet to journal.

    A ``SETTLED`` message carries the outcome of call ``n``. ``state`` is the final state of that call's promise or
    child run.
    """

    id: int
    run_id: str
    kind: MessageKind
    at: float
    n: int | None = None
    name: str | None = None  # of the signal; of the promise or child run that settled
    state: str | None = None
    value: str | None = None  # JSON
    error: str | None = None  # JSON of an error
    by: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class NewSignal:
    """A signal to be sent to a run in the transaction of another write."""

    run_id: str
    name: str
    value: str  # JSON
    by: str | None = None
