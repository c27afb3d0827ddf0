"""The next write of a run: its pending journal entries, promises, child runs and messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from typing import Any, Final

from pydantic_core import to_json

from signoff.engine.run.call_inputs import KEY as INPUTS
from signoff.engine.run.calls import Call
from signoff.records import CallKind, Entry, EntryKind, NewPromise, NewRun, Run
from signoff.stores.contract.leases import Write

PART_ITEMS: Final = 1_000
PART_BYTES: Final = 1024 * 1024
"""The approximate size of the parts of a long write. Other writes run in between."""

_Lengths = tuple[int, int, int, int, int, int]
"""The number of entries, promises to open and to close, runs to start and to cancel, and messages."""

_OF_STEPS = (EntryKind.STEP_STARTED, EntryKind.ATTEMPT_FAILED, EntryKind.COMPLETED)


class PendingWrite:
    """The next write of a run. It numbers the run's journal entries.

    Attributes:
        seq: The next entry's number.
        now: The next entry's time, in Unix seconds.
        last_at: The last entry's time, in Unix seconds.
        opens, closes, starts, cancels, taken, unpublishes: As in ``Write``.
    """

    def __init__(self, seq: int) -> None:
        self.begin_at(seq)
        self.now = 0.0
        self.last_at = 0.0
        self._entries: list[Entry] = []
        self._cuts: list[_Lengths] = []
        self._items = 0  # up to the last cut
        self._bytes = 0  # since the last cut
        self.opens: list[NewPromise] = []
        self.closes: list[str] = []
        self.starts: list[NewRun] = []
        self.cancels: list[str] = []
        self.taken: list[int] = []
        self.unpublishes: list[int] = []

    def begin_at(self, seq: int) -> None:
        """Continue at the end of a journal that was read."""
        self.seq = self._durable = seq

    def written(self, write: Write) -> None:
        """Note that a write is durable."""
        self._durable += len(write.entries)

    def put_back(self, write: Write) -> None:
        """Restore the entries of a write that failed."""
        self._entries = [*write.entries, *self._entries]
        self._begin_cuts()

    def drop_but_steps(self) -> None:
        """Drop unwritten entries, keeping leading step outcomes."""
        kept = list(takewhile(_is_of_a_step, self._entries))
        self.drop()
        self.seq += len(kept)
        self._entries = kept

    def drop(self) -> None:
        """Drop everything unwritten."""
        self.seq = self._durable
        self._entries = []
        self._begin_cuts()
        self._empty()

    @property
    def _has_others(self) -> bool:
        """Whether there is more to write than entries."""
        return bool(self.taken or self.opens or self.closes or self.starts or self.cancels)

    def __bool__(self) -> bool:
        return bool(self._entries) or self._has_others

    def record(
        self,
        kind: EntryKind,
        call: Call[Any],
        *,
        value: str | None = None,
        error: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> Entry:
        """Add an entry about a call. A call's first entry includes its inputs."""
        text = None if details is None else to_json(details).decode()
        if call.inputs is not None and not call.is_journaled:
            begin = f'{{"{INPUTS}":{call.inputs}'
            text = f"{begin}}}" if text is None or text == "{}" else f"{begin},{text[1:]}"
        call.is_journaled = True
        return self._add(Entry(self.seq, self.now, kind, call.n, call.kind, call.name, value, error, text))

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
        return self._add(Entry(self.seq, self.now, kind, n, call, name, value, error, text))

    def _add(self, entry: Entry) -> Entry:
        self.seq += 1
        self.last_at = self.now
        self._entries.append(entry)
        if entry.value is not None:
            self._bytes += len(entry.value)
        return entry

    def may_be_cut(self) -> None:
        """Mark a point at which a long write may be split.

        The parts replay to the same state: each message is written with its entry, and each call with everything it
        opens.
        """
        items = len(self._entries) + len(self.closes) + len(self.cancels)
        if items - self._items >= PART_ITEMS or self._bytes >= PART_BYTES:
            self._items, self._bytes = items, 0
            self._cuts.append(
                (
                    len(self._entries),
                    len(self.opens),
                    len(self.closes),
                    len(self.starts),
                    len(self.cancels),
                    len(self.taken),
                )
            )

    def take(self, run: Run, first_seq: int | None = None) -> tuple[Write, list[_Lengths]]:
        """Return everything as one write of ``run``, with the points at which ``parts`` splits it, and start empty."""
        entries, self._entries = self._entries, []
        cuts = self._begin_cuts()
        # the common case; `_has_others`, inlined
        if not (self.taken or self.opens or self.closes or self.starts or self.cancels or self.unpublishes):
            return Write(run.id, run.epoch, entries, first_seq=first_seq), cuts
        write = Write(
            run.id,
            run.epoch,
            entries,
            self.opens,
            self.closes,
            self.starts,
            self.cancels,
            self.taken,
            first_seq,
            self.unpublishes,
        )
        self._empty()
        return write, cuts

    def _begin_cuts(self) -> list[_Lengths]:
        cuts = self._cuts
        if cuts:
            self._cuts = []
        self._items = self._bytes = 0
        return cuts

    def _empty(self) -> None:
        """Start empty, except for the entries."""
        self.opens, self.closes, self.starts, self.cancels, self.taken = [], [], [], [], []
        self.unpublishes = []


def parts(write: Write, cuts: list[_Lengths]) -> Iterator[Write]:
    """Yield a long write in parts, to be written in order. The last part may be empty."""
    before: _Lengths = (0, 0, 0, 0, 0, 0)
    for cut in cuts:
        entries, opens, closes, starts, cancels, taken = map(slice, before, cut)
        yield Write(
            write.run_id,
            write.epoch,
            write.entries[entries],
            write.opens[opens],
            write.closes[closes],
            write.starts[starts],
            write.cancels[cancels],
            write.taken[taken],
        )
        before = cut
    entries, opens, closes, starts, cancels, taken = before
    yield replace(
        write,
        entries=write.entries[entries:],
        opens=write.opens[opens:],
        closes=write.closes[closes:],
        starts=write.starts[starts:],
        cancels=write.cancels[cancels:],
        taken=write.taken[taken:],
    )


def _is_of_a_step(entry: Entry) -> bool:
    """Whether an entry is only about a step or the run's beginning: no message was consumed for it."""
    is_step = entry.call is CallKind.STEP and entry.kind in _OF_STEPS and entry.state is None
    return is_step or entry.kind is EntryKind.STARTED
