"""A run's timeline, built from its journal: one item per call, with its outcome."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from signoff.records import CallKind, Entry, EntryKind, Origin, Promise, PromiseState

_OF_THE_RUN = {
    EntryKind.STARTED: "started",
    EntryKind.CONTINUED: "continued as new",
    EntryKind.CANCEL_REQUESTED: "cancel requested",
    EntryKind.DEADLINE_PASSED: "deadline passed",
    EntryKind.RETRIED: "retried",
    EntryKind.SUCCEEDED: "succeeded",
    EntryKind.FAILED: "failed",
    EntryKind.CANCELLED: "cancelled",
}
_ENDS = (EntryKind.SUCCEEDED, EntryKind.FAILED, EntryKind.CANCELLED)


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """A failed attempt of a step that is retried."""

    number: int
    at: float
    next_at: float
    error: str | None  # JSON of an error; None if a person decided to retry an unknown outcome


@dataclass(slots=True)
class Item:
    """One call of a run, or one event of the run itself.

    Attributes:
        at: When it began. If the journal lacks a step's start, this is the time of the entry before its outcome.
        kind: A ``CallKind``, ``run``, or ``patch``.
        name: Its name in the journal; for a question its text, for an event of the run the event.
        n: The number of the call.
        state: ``open``, ``retrying``, ``succeeded``, ``failed``, ``rejected``, ``timed_out``, ``cancelled``, ``noted``,
            or ``abandoned`` (still open when the run ended).
        id: The promise, question or child run.
        due_at: When it times out, or a timer fires.
        ended_at: When its outcome was settled.
        value: JSON of its outcome; for an open promise or question, the data it shows.
        error: JSON of its error.
        by: The user who settled or requested it.
        note: The user's note.
        origin: The origin of the settlement of a question or promise, if known.
        attempts: A step's failed attempts before its outcome.
        doubt: The id of the question about a step whose outcome is unknown.
    """

    at: float
    kind: str
    name: str
    n: int | None = None
    state: str = "noted"
    id: str | None = None
    due_at: float | None = None
    ended_at: float | None = None
    value: str | None = None
    error: str | None = None
    by: str | None = None
    note: str | None = None
    origin: Origin | None = None
    attempts: list[FailedAttempt] = field(default_factory=list[FailedAttempt])
    doubt: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether the run still waits for it, according to the journal."""
        return self.state in ("open", "retrying")

    @property
    def is_promised(self) -> bool:
        """Whether it is a question, or another promise that is settled from outside the run."""
        return self.kind in (CallKind.QUESTION, CallKind.PROMISE)

    @property
    def seconds(self) -> float | None:
        """How long it took."""
        return None if self.ended_at is None else max(0.0, self.ended_at - self.at)


class Timeline:
    """Builds the items of a timeline from journal entries.

    Args:
        created_at: When the run was created.

    Attributes:
        items: The items, in the order of their first entries.
    """

    def __init__(self, created_at: float) -> None:
        self.items: list[Item] = []
        self._calls: dict[int, Item] = {}
        self._before = created_at

    def read(self, entries: Iterable[Entry]) -> Timeline:
        """Add entries, and return the timeline itself."""
        for entry in entries:
            self.add(entry)
        return self

    def add(self, entry: Entry) -> Item:
        """Add one entry, and return the item that it created or changed."""
        item = self._item(entry)
        self._before = entry.at
        return item

    def settle(self, promises: Iterable[Promise]) -> Timeline:
        """Add the origins of settled promises, and the outcomes of those that the journal still shows as open.

        Returns:
            The timeline itself.
        """
        settled = {promise.id: promise for promise in promises if promise.state is not PromiseState.PENDING}
        for item in self._calls.values():
            promise = settled.get(item.id or "")
            if promise is None:
                continue
            if item.is_promised:
                item.origin = promise.origin
            if item.is_open:
                item.state, item.value = _state(promise.state), promise.value
                item.ended_at, item.by, item.note = promise.settled_at, promise.settled_by, promise.note
        return self

    def _item(self, entry: Entry) -> Item:
        if entry.kind in _OF_THE_RUN:
            return self._of_the_run(entry)
        match entry.kind:
            case EntryKind.SIGNALLED:
                return self._signalled(entry)
            case EntryKind.PATCHED:
                return self._new(Item(entry.at, "patch", entry.name or ""))
            case EntryKind.ATTEMPT_FAILED:
                return self._attempt_failed(entry)
            case EntryKind.COMPLETED:
                return self._completed(entry)
            case _:
                return self._opened(entry)

    def _of_the_run(self, entry: Entry) -> Item:
        item = Item(entry.at, "run", _OF_THE_RUN[entry.kind], value=entry.value, error=entry.error)
        item.by, item.note = _text(entry, "by"), _text(entry, "reason")
        if entry.kind in _ENDS:
            item.state = entry.kind.value
        if entry.kind in (*_ENDS, EntryKind.CONTINUED) and not entry.fact("retryable"):
            self._abandon_open()
        return self._new(item)

    def _signalled(self, entry: Entry) -> Item:
        waiting = (item for item in self._calls.values() if item.kind == CallKind.SIGNAL and item.is_open)
        item = next((item for item in waiting if item.name == entry.name), None)
        if item is None:
            item = self._new(Item(entry.at, CallKind.SIGNAL, entry.name or ""))
        item.state, item.value = "succeeded", entry.value
        item.ended_at, item.by = _number(entry, "at") or entry.at, _text(entry, "by")
        return item

    def _opened(self, entry: Entry) -> Item:
        known = self._calls.get(entry.n or 0)
        if known is not None:  # a step that was interrupted: its outcome is unknown
            known.doubt, known.state = _text(entry, "id"), "open"
            return known
        item = self._call(entry, entry.at)
        if entry.kind is not EntryKind.PROGRESSED and entry.call is not CallKind.DETACHED:
            item.state = "open"
        item.value, item.id, item.due_at = entry.value, _text(entry, "id"), _number(entry, "due_at")
        return item

    def _attempt_failed(self, entry: Entry) -> Item:
        item = self._known(entry)
        item.state = "retrying"
        number, next_at = _number(entry, "attempt") or 0, _number(entry, "next_at") or entry.at
        item.attempts.append(FailedAttempt(int(number), entry.at, next_at, entry.error))
        return item

    def _completed(self, entry: Entry) -> Item:
        item = self._known(entry)
        item.state = "failed" if entry.error is not None else _state(entry.state)
        item.ended_at = _number(entry, "at") or entry.at
        item.value, item.error = entry.value, entry.error
        item.by, item.note = _text(entry, "by"), _text(entry, "note")
        return item

    def _abandon_open(self) -> None:
        for item in self._calls.values():
            if item.is_open:
                item.state = "abandoned"

    def _known(self, entry: Entry) -> Item:
        return self._calls.get(entry.n or 0) or self._call(
            entry, _number(entry, "started_at") or self._before
        )

    def _call(self, entry: Entry, at: float) -> Item:
        item = Item(at, (entry.call or CallKind.STEP).value, entry.name or "", entry.n)
        if entry.n is not None:
            self._calls[entry.n] = item
        return self._new(item)

    def _new(self, item: Item) -> Item:
        self.items.append(item)
        return item


def _text(entry: Entry, name: str) -> str | None:
    """Return a string from an entry's details; None for any other value, since a worker may have written anything."""
    value = entry.fact(name)
    return value if isinstance(value, str) else None


def _number(entry: Entry, name: str) -> float | None:
    value = entry.fact(name)
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def _state(state: str | None) -> str:
    """Return the final state of a promise or child run, as a state of a run."""
    if state is None or state == PromiseState.RESOLVED:
        return "succeeded"
    return "rejected" if state == PromiseState.REJECTED else str(state)
