"""What a driver is about to write of its run."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from signoff.engine.calls import Call
from signoff.records import CallKind, Entry, EntryKind, NewPromise, NewRun, Run
from signoff.stores.base import Write


class Draft:
    """Collects what goes into the next write, and numbers its journal entries.

    Attributes:
        seq: The next entry's number.
        now: The next entry's time, in unix seconds.
        last_at: The last entry's time, in unix seconds.
        opens, closes, starts, cancels, taken: As in ``Write``.
    """

    def __init__(self, seq: int) -> None:
        self.seq = seq
        self.now = 0.0
        self.last_at = 0.0
        self._entries: list[Entry] = []
        self.opens: list[NewPromise] = []
        self.closes: list[str] = []
        self.starts: list[NewRun] = []
        self.cancels: list[str] = []
        self.taken: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._entries or self.taken or self.opens or self.closes or self.starts or self.cancels)

    def record(
        self,
        kind: EntryKind,
        call: Call[Any],
        *,
        value: str | None = None,
        error: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> Entry:
        """Add an entry about a call."""
        return self.add(kind, call.n, call.kind, call.name, value=value, error=error, details=details)

    def add(
        self,
        kind: EntryKind,
        n: int | None = None,
        call: CallKind | None = None,
        name: str | None = None,
        *,
        value: str | None = None,
        error: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> Entry:
        """Add an entry."""
        text = None if details is None else to_json(details).decode()
        entry = Entry(self.seq, self.now, kind, n, call, name, value, error, text)
        self.seq += 1
        self.last_at = self.now
        self._entries.append(entry)
        return entry

    def take(self, run: Run, first_seq: int | None = None) -> Write:
        """Return all of it as one write of ``run``, and go on with an empty draft."""
        write = Write(
            run.id,
            run.epoch,
            self._entries,
            self.opens,
            self.closes,
            self.starts,
            self.cancels,
            self.taken,
            first_seq,
        )
        self._entries = []
        self.opens, self.closes, self.starts, self.cancels, self.taken = [], [], [], [], []
        return write
