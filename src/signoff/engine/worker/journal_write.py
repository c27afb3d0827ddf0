"""What a driver is about to write of its run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from typing import Any, Final

from pydantic_core import to_json

from signoff.engine.run.call_inputs import KEY as INPUTS
from signoff.engine.run.calls import Call
from signoff.records import CallKind, Entry, EntryKind, NewPromise, NewRun, Run
from signoff.stores.contract.store import Write

PART_ITEMS: Final = 1_000
PART_BYTES: Final = 1024 * 1024
"""A long draft is written in parts of about so many items, or bytes of values: other writes go on between them."""

_Lengths = tuple[int, int, int, int, int, int]
"""How many entries, promises to open and to close, runs to start and to cancel, and messages there are."""

_OF_STEPS = (EntryKind.STEP_STARTED, EntryKind.ATTEMPT_FAILED, EntryKind.COMPLETED)


class Draft:
    """Collects what goes into the next write, and numbers its journal entries.

    Attributes:
        seq: The next entry's number.
        now: The next entry's time, in unix seconds.
        last_at: The last entry's time, in unix seconds.
        opens, closes, starts, cancels, taken, unpublishes: As in ``Write``.
    """

    def __init__(self, seq: int) -> None:
        self.begin_at(seq)
        self.now = 0.0
        self.last_at = 0.0
        self._entries: list[Entry] = []
        self._cuts: list[_Lengths] = []
        self._items = 0  # before the last cut
        self._bytes = 0  # since the last cut
        self.opens: list[NewPromise] = []
        self.closes: list[str] = []
        self.starts: list[NewRun] = []
        self.cancels: list[str] = []
        self.taken: list[int] = []
        self.unpublishes: list[int] = []

    def begin_at(self, seq: int) -> None:
        """Go on at the end of a journal that was read."""
        self.seq = self._durable = seq

    def written(self, write: Write) -> None:
        """Note that a write is durable."""
        self._durable += len(write.entries)

    def put_back(self, write: Write) -> None:
        """Take back a write that was refused."""
        self._entries = [*write.entries, *self._entries]
        self._begin_cuts()

    def drop_but_steps(self) -> None:
        """Forget what is not durable, but for what steps came to before anything else happened."""
        kept = list(takewhile(_is_of_a_step, self._entries))
        self.drop()
        self.seq += len(kept)
        self._entries = kept

    def drop(self) -> None:
        """Forget what is not durable."""
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
        """Add an entry about a call. The first one has what it was called with."""
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
        """Note that all that was drafted until now can be written before the rest, if that is much.

        A replay of it comes to the same: each message is in it with its entry, and each call with all that it opens.
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
        """Return all of it as one write of ``run``, and where ``parts`` cuts it. Go on with an empty draft."""
        entries, self._entries = self._entries, []
        cuts = self._begin_cuts()
        if not (self._has_others or self.unpublishes):  # most: the collector looks at each list that is made
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
        """Begin anew with all but entries."""
        self.opens, self.closes, self.starts, self.cancels, self.taken = [], [], [], [], []
        self.unpublishes = []


def parts(write: Write, cuts: list[_Lengths]) -> Iterator[Write]:
    """Yield a long write in parts, to be written one after the other. The last one may be empty."""
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
    """Whether an entry is of a step alone, or of the run's beginning: no message was taken for it."""
    is_step = entry.call is CallKind.STEP and entry.kind in _OF_STEPS and entry.state is None
    return is_step or entry.kind is EntryKind.STARTED
