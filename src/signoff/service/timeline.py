"""Builds a run's timeline from its journal: one row per call, with its outcome."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from signoff.records import CallKind, Entry, EntryKind, Promise, PromiseState
from signoff.records.timeline import PROMISED, TimelineChange
from signoff.stores.contract.retries import ANEW

_OF_THE_RUN: Final = {
    EntryKind.STARTED: "started",
    EntryKind.CONTINUED: "continued as new",
    EntryKind.CANCEL_REQUESTED: "cancel requested",
    EntryKind.DEADLINE_PASSED: "deadline passed",
    EntryKind.RETRIED: "retried",
    EntryKind.SUCCEEDED: "succeeded",
    EntryKind.FAILED: "failed",
    EntryKind.CANCELLED: "cancelled",
}
_ENDS: Final = (EntryKind.SUCCEEDED, EntryKind.FAILED, EntryKind.CANCELLED)
_ABANDONED: Final = "abandoned"


class _Call:
    """What later entries of a call without an outcome need. Payloads are not kept: a run may have many open calls."""

    __slots__ = ("id", "is_open", "kind", "row", "signal")

    def __init__(self, row: int, kind: str, id: str | None, signal: str | None, is_open: bool) -> None:
        self.row = row
        self.kind = kind
        self.id = id
        self.signal = signal
        self.is_open = is_open


class Timeline:
    """Turns journal entries into changes of rows.

    Args:
        created_at: When the run was created.

    Attributes:
        settled_id: The promise that the last entry settled, if it settled one.
    """

    def __init__(self, created_at: float) -> None:
        self.settled_id: str | None = None
        self._rows: dict[int, int] = {}
        self._calls: dict[int, _Call] = {}
        self._before = created_at
        self._seq = -1

    def add(self, entry: Entry) -> Iterator[TimelineChange]:
        """Yield the changes that an entry makes. Read them all before you add the next entry."""
        self.settled_id = None
        yield from self._changes(entry)
        self._before, self._seq = entry.at, entry.seq

    @property
    def open_promises(self) -> Mapping[str, int]:
        """The rows of the promises and questions that are open according to the journal, by their ids."""
        calls = self._calls.values()
        return {call.id: call.row for call in calls if call.is_open and call.id and call.kind in PROMISED}

    def settled(self, row: int, promise: Promise) -> TimelineChange:
        """Return the outcome of a promise that the journal still shows as open."""
        return TimelineChange(
            seq=self._seq,
            row=row,
            state=_state(promise.state),
            ended_at=promise.settled_at,
            value=promise.value,
            by=promise.settled_by,
            note=promise.note,
            origin=promise.origin,
        )

    def _changes(self, entry: Entry) -> Iterator[TimelineChange]:
        if entry.kind in _OF_THE_RUN:
            yield from self._of_the_run(entry)
            return
        match entry.kind:
            case EntryKind.SIGNALLED:
                yield self._signalled(entry)
            case EntryKind.PATCHED:
                yield _event(entry, "patch", entry.name or "")
            case EntryKind.ATTEMPT_FAILED:
                yield self._attempt_failed(entry)
            case EntryKind.COMPLETED:
                yield self._completed(entry)
            case _:
                yield self._opened(entry)

    def _of_the_run(self, entry: Entry) -> Iterator[TimelineChange]:
        if entry.kind in (*_ENDS, EntryKind.CONTINUED) and not entry.fact("retryable"):
            for call in self._calls.values():
                if call.is_open:
                    call.is_open = False
                    # Readers that are cut off here start again before this entry, so that they miss none of them.
                    yield TimelineChange(seq=entry.seq - 1, row=call.row, state=_ABANDONED)
        if entry.kind is EntryKind.RETRIED:
            yield from self._continued(entry)
        state = entry.kind.value if entry.kind in _ENDS else "noted"
        yield _event(
            entry,
            "run",
            _OF_THE_RUN[entry.kind],
            state=state,
            value=entry.value,
            error=entry.error,
            by=_text(entry, "by"),
            note=_text(entry, "reason"),
        )

    def _continued(self, entry: Entry) -> Iterator[TimelineChange]:
        """Open the calls again that a retried run still waits for. The others begin again, or are asked anew."""
        from_seq, anew = _number(entry, "from"), entry.fact(ANEW) or ()
        if from_seq is None or not isinstance(anew, list | tuple):
            return
        for n, call in self._calls.items():
            if not call.is_open and call.row < from_seq and call.kind != CallKind.STEP and n not in anew:
                call.is_open = True
                yield TimelineChange(seq=entry.seq - 1, row=call.row, state="open")

    def _signalled(self, entry: Entry) -> TimelineChange:
        outcome: dict[str, Any] = {
            "state": "succeeded",
            "value": entry.value,
            "ended_at": _number(entry, "at") or entry.at,
            "by": _text(entry, "by"),
        }
        waiting = (each for each in self._calls.items() if each[1].is_open and each[1].signal is not None)
        n, call = next((each for each in waiting if each[1].signal == (entry.name or "")), (None, None))
        if n is None or call is None:
            return _event(entry, CallKind.SIGNAL.value, entry.name or "", **outcome)
        del self._calls[n]
        return TimelineChange(seq=entry.seq, row=call.row, **outcome)

    def _opened(self, entry: Entry) -> TimelineChange:
        kind, id = _kind(entry), _text(entry, "id")
        row = self._rows.get(entry.n) if entry.n is not None else None
        if row is not None and kind == CallKind.STEP:
            # It begins again, or was interrupted: its outcome is unknown.
            self._open(entry, row, kind, None)
            return TimelineChange(seq=entry.seq, row=row, state="open", doubt=id)
        is_noted = entry.kind is EntryKind.PROGRESSED or kind == CallKind.DETACHED
        if not is_noted:
            self._open(entry, entry.seq, kind, id)
        return self._begun(
            entry,
            entry.at,
            state="noted" if is_noted else "open",
            opened=entry.value,
            id=id,
            due_at=_number(entry, "due_at"),
        )

    def _attempt_failed(self, entry: Entry) -> TimelineChange:
        change = self._later(
            entry,
            state="retrying",
            error=entry.error,
            attempt=int(_number(entry, "attempt") or 0),
            attempt_at=entry.at,
            next_at=_number(entry, "next_at") or entry.at,
        )
        self._open(entry, change.row, _kind(entry), None)
        return change

    def _completed(self, entry: Entry) -> TimelineChange:
        call = self._calls.pop(entry.n, None) if entry.n is not None else None
        if call is not None and call.kind in PROMISED:
            self.settled_id = call.id
        return self._later(
            entry,
            state="failed" if entry.error is not None else _state(entry.state),
            ended_at=_number(entry, "at") or entry.at,
            value=entry.value,
            error=entry.error,
            by=_text(entry, "by"),
            note=_text(entry, "note"),
        )

    def _open(self, entry: Entry, row: int, kind: str, id: str | None) -> None:
        if entry.n is not None:
            signal = (entry.name or "") if kind == CallKind.SIGNAL else None
            self._calls[entry.n] = _Call(row, kind, id, signal, is_open=True)

    def _later(self, entry: Entry, **facts: Any) -> TimelineChange:
        """Return the change of a call's row, or its first one if the journal lacks the call's start."""
        row = self._rows.get(entry.n) if entry.n is not None else None
        if row is not None:
            return TimelineChange(seq=entry.seq, row=row, **facts)
        return self._begun(entry, _number(entry, "started_at") or self._before, **facts)

    def _begun(self, entry: Entry, at: float, **facts: Any) -> TimelineChange:
        if entry.n is not None:
            self._rows[entry.n] = entry.seq
        return TimelineChange(
            seq=entry.seq,
            row=entry.seq,
            at=at,
            kind=_kind(entry),
            name=entry.name or "",
            n=entry.n,
            **facts,
        )


def _event(entry: Entry, kind: str, name: str, *, state: str = "noted", **facts: Any) -> TimelineChange:
    return TimelineChange(
        seq=entry.seq, row=entry.seq, at=entry.at, kind=kind, name=name, state=state, **facts
    )


def _kind(entry: Entry) -> str:
    return (entry.call or CallKind.STEP).value


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
