"""A run's timeline: a row for each call of a run and for each event of the run itself, sent as changes of rows."""

from __future__ import annotations

from enum import Enum
from typing import Final

from signoff.records.journal import CallKind
from signoff.records.origins import Origin
from signoff.records.record import record

PROMISED: Final = frozenset({CallKind.QUESTION.value, CallKind.PROMISE.value})
"""The kinds of rows that are settled from outside the run: by a person, an API caller or a deadline."""


class TimelineMark(Enum):
    """A mark between the changes of a timeline: the rows are up to date with the journal."""

    CURRENT = "current"


@record
class TimelineChange:
    """A change of one row of a timeline.

    The first change of a row describes it: ``at``, ``kind``, ``name``, ``n``, ``id``, ``due_at`` and ``opened`` are
    only there, and never change. Each change replaces all the other fields of its row, and adds at most one failed
    attempt. So a reader keeps rows by ``row`` and needs no knowledge of the journal.

    Attributes:
        seq: The journal entry up to which a reader has seen the timeline after this change.
        row: The row: the seq of its first entry.
        state: ``open``, ``retrying``, ``succeeded``, ``failed``, ``rejected``, ``timed_out``, ``cancelled``, ``noted``,
            or ``abandoned`` (still open when the run ended).
        at: When it began. If the journal lacks a step's start, this is the time of the entry before its outcome.
        kind: A ``CallKind``, ``run``, or ``patch``.
        name: Its name in the journal; for a question its text, for an event of the run the event.
        n: The number of the call.
        id: The promise, question or child run.
        due_at: When it times out, or a timer fires.
        opened: JSON it was opened with, such as a question.
        ended_at: When its outcome was settled.
        value: JSON of its outcome, or of an event of the run.
        error: JSON of its error, or of the failed attempt's.
        by: The user who settled or requested it.
        note: The user's note.
        origin: The origin of the settlement of a question or promise, if known.
        doubt: The id of the question about a step whose outcome is unknown.
        attempt: The number of a failed attempt of a step that is retried.
        attempt_at: When that attempt failed.
        next_at: When the next attempt is due.
    """

    seq: int
    row: int
    state: str
    at: float | None = None
    kind: str | None = None
    name: str | None = None
    n: int | None = None
    id: str | None = None
    due_at: float | None = None
    opened: str | None = None  # JSON
    ended_at: float | None = None
    value: str | None = None  # JSON
    error: str | None = (
        None  # JSON of an error; of an attempt, None if a person decided to retry an unknown outcome
    )
    by: str | None = None
    note: str | None = None
    origin: Origin | None = None
    doubt: str | None = None
    attempt: int | None = None
    attempt_at: float | None = None
    next_at: float | None = None
