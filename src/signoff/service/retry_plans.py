"""Plans the retry of a run that failed permanently, from an outline of its journal.

A journal may have a million entries, with errors of megabytes. So it is read entry by entry, and a few bytes of each
are kept.
"""

from __future__ import annotations

import asyncio
import json
import re
from array import array
from collections.abc import Awaitable, Callable, Collection, Iterator
from enum import IntEnum
from hashlib import blake2b
from itertools import count
from typing import Any, Final, NamedTuple, cast

from signoff.codec.strict_json import read_object
from signoff.errors import InvalidState, QuestionCancelled, SignalTimeout
from signoff.records import CallKind, Entry, EntryKind, PromiseState, Run
from signoff.stores.contract.retries import ANEW, ISSUED, Retry

ReadEntry = Callable[[int], Awaitable[Entry]]
"""Reads the entry with a seq again."""

_AWAITED: Final = frozenset({CallKind.QUESTION, CallKind.SIGNAL})
_UNANSWERED: Final = frozenset({PromiseState.TIMED_OUT, PromiseState.CANCELLED})
_NONE: Final = -1
"""Stands for no number, in an array."""


class _Act(IntEnum):
    """What an entry says of its call."""

    UNANSWERED = 0  # it has ended
    ENDED = 1
    STEP_SUCCEEDED = 2
    ONCE_BEGAN = 3
    OPENED = 4
    SIGNAL_AWAITED = 5
    ASKED = 6
    MADE = 7  # a promise or a child run


_LASTING: Final = frozenset({_Act.ONCE_BEGAN, _Act.ASKED, _Act.MADE})
_OF_OPENED: Final = {
    CallKind.SIGNAL: _Act.SIGNAL_AWAITED,
    CallKind.QUESTION: _Act.ASKED,
    CallKind.PROMISE: _Act.MADE,
    CallKind.CHILD: _Act.MADE,
    CallKind.DETACHED: _Act.MADE,
}


class Outline:
    """The outline of a failed run's journal, in some 20 bytes for each entry of a call.

    Args:
        run: The run. Give its outline all entries of its current generation, in order.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._error = _Error.of(run)
        self._end = run.first_seq
        self._seqs, self._ns, self._acts = array("q"), array("q"), bytearray()
        self._raising = array("q")  # the rows of entries whose error the run's own consists of, or may
        self._raised = array("q")  # and which error it is
        self._retried: list[Entry] = []

    def add(self, entry: Entry) -> None:
        """Note the next entry of the journal."""
        self._end = entry.seq + 1
        if entry.kind is EntryKind.RETRIED and entry.fact("from") is not None:
            self._retried.append(entry)
        act = _act_of(entry)
        if act is None:
            return
        raised = self._error.number_of(entry, act)
        if raised is not None:
            self._raising.append(len(self._seqs))
            self._raised.append(raised)
        self._seqs.append(entry.seq)
        self._ns.append(_NONE if entry.n is None else entry.n)
        self._acts.append(act)

    def unanswered(self) -> list[int]:
        """Return the seqs of the entries that opened questions without an answer in the journal."""
        counting = self._counting()
        answered = self._numbers(
            row for row in counting if self._acts[row] in (_Act.ENDED, _Act.STEP_SUCCEEDED)
        )
        return [
            self._seqs[row]
            for row in counting
            if self._acts[row] == _Act.ASKED and self._ns[row] != _NONE and self._ns[row] not in answered
        ]

    async def plan(self, read: ReadEntry, closed: Collection[int] = ()) -> Retry:
        """Determine where the run continues.

        Args:
            read: Reads an entry again.
            closed: The calls whose questions can no longer be answered and can be asked again.

        Raises:
            InvalidState: After the failure it asked people, started child runs, or began steps with ``effect="once"``,
                which cannot be undone.
        """
        counting = await asyncio.to_thread(self._counting)
        failed_row = self._failed_row(counting)
        failed = None if failed_row is None else await read(self._seqs[failed_row])
        from_seq = self._end if failed is None else failed.seq
        issued: int | None = None if failed is None else failed.fact(ISSUED)
        beside = self._ended_beside(counting, from_seq, self._end, issued)
        for row in counting:
            if self._seqs[row] > from_seq and self._acts[row] in _LASTING and self._ns[row] not in beside:
                raise self._lasting(await read(self._seqs[row]))
        kept = [row for row in counting if self._seqs[row] < from_seq]
        ended = self._numbers(row for row in kept if self._acts[row] <= _Act.STEP_SUCCEEDED)
        open = self._numbers(row for row in kept if self._acts[row] >= _Act.OPENED) - ended - {_NONE}
        signals = self._numbers(row for row in kept if self._acts[row] == _Act.SIGNAL_AWAITED)
        again = open if failed is None or failed.n is None or failed.error is not None else {*open, failed.n}
        anew = again & (signals | set(closed))
        n = None if failed is None else failed.n
        return Retry(self._run.epoch, from_seq, n, tuple(sorted(open - anew)), issued, tuple(sorted(anew)))

    def _numbers(self, rows: Iterator[int]) -> set[int]:
        return {self._ns[row] for row in rows}

    def _counting(self) -> array[int]:
        """Return the rows of the entries that still count since the run was retried; see ``without_dropped``."""
        kept = array("q", range(len(self._seqs)))
        for retried in self._retried:
            from_seq, n = retried.fact("from"), retried.fact("n")
            anew: frozenset[int] = frozenset(retried.fact(ANEW) or ())
            beside = self._ended_beside(kept, from_seq, retried.seq, retried.fact(ISSUED))
            kept = array(
                "q",
                (
                    row
                    for row in kept
                    if self._seqs[row] >= retried.seq
                    or self._ns[row] in beside
                    or not (
                        self._ns[row] in anew
                        or self._seqs[row] >= from_seq
                        or (n is not None and self._ns[row] == n and self._acts[row] < _Act.OPENED)
                    )
                ),
            )
        return kept

    def _ended_beside(self, rows: array[int], from_seq: int, end: int, issued: int | None) -> set[int]:
        """Return the numbers of the steps that ran concurrently with the failed one and succeeded after it."""
        if issued is None:
            return set()
        return self._numbers(
            row
            for row in rows
            if self._acts[row] == _Act.STEP_SUCCEEDED
            and from_seq < self._seqs[row] < end
            and _NONE < self._ns[row] <= issued
        )

    def _failed_row(self, counting: array[int]) -> int | None:
        """Return the row of the call whose error ended the run; of an exception group, of the one that failed first."""
        counts = bytearray(len(self._seqs))
        for row in counting:
            counts[row] = 1
        latest = {raised: row for row, raised in zip(self._raising, self._raised, strict=True) if counts[row]}
        return min(self._error.origins(latest), default=None)

    def _lasting(self, entry: Entry) -> InvalidState:
        did = (
            "began the effect='once' step" if entry.kind is EntryKind.STEP_STARTED else f"opened {entry.call}"
        )
        why = f"after the failure it {did} {entry.name!r}, which cannot be undone; start a new run instead"
        return InvalidState(self._run.id, self._run.state.value, "retry", why)


def _act_of(entry: Entry) -> _Act | None:
    if entry.kind is EntryKind.STEP_STARTED:
        return _Act.ONCE_BEGAN
    if entry.kind is EntryKind.OPENED:
        return _Act.OPENED if entry.call is None else _OF_OPENED.get(entry.call, _Act.OPENED)
    if entry.kind is not EntryKind.COMPLETED:
        return None
    if entry.call is CallKind.STEP and entry.error is None:
        return _Act.STEP_SUCCEEDED
    return _Act.UNANSWERED if entry.state in _UNANSWERED else _Act.ENDED


class _Error(NamedTuple):
    """The error of a run, with the errors that it consists of: members of a group, and causes.

    Attributes:
        numbers: The numbers of all these errors, by what identifies each in an entry.
        own: The numbers of the error itself: an entry with one of them is where it was raised.
        parts: The errors to look for if there is no such entry.
    """

    numbers: dict[bytes | tuple[str, Any], int]
    own: list[int]
    parts: list[_Error]

    @classmethod
    def of(cls, run: Run) -> _Error:
        """Return the error of a run."""
        if run.error is None:
            return cls({}, [], [])
        return cls._of(read_object(run.error), run.id, {}, count())

    @classmethod
    def _of(
        cls, error: dict[str, Any], run_id: str, numbers: dict[bytes | tuple[str, Any], int], free: count[int]
    ) -> _Error:
        keys: list[bytes | tuple[str, Any]] = [_gist(error), *_of_unanswered(error, run_id)]
        own = [numbers[key] if key in numbers else numbers.setdefault(key, next(free)) for key in keys]
        members = error.get("members")
        within = [*(cast("list[Any]", members) if isinstance(members, list) else ()), error.get("cause")]
        values: list[Any] = [
            cast("dict[str, Any]", each).get("value") for each in within if isinstance(each, dict)
        ]
        found = [cast("dict[str, Any]", each) for each in values if isinstance(each, dict)]
        parts = [cls._of(each, run_id, numbers, free) for each in found]
        return cls(numbers, own, parts)

    def number_of(self, entry: Entry, act: _Act) -> int | None:
        """Return which of the errors ended a call with this entry; None: none of them."""
        if entry.kind is not EntryKind.COMPLETED or not self.numbers:
            return None
        if entry.error is not None:
            return self.numbers.get(_gist(read_object(entry.error)))
        if entry.call not in _AWAITED or act is not _Act.UNANSWERED:
            return None
        if entry.state == PromiseState.TIMED_OUT:
            asked = "an answer to" if entry.call is CallKind.QUESTION else "signal"
            return self.numbers.get(("what", f"{asked} {entry.name!r}"))
        return self.numbers.get(("n", entry.n)) if entry.call is CallKind.QUESTION else None

    def origins(self, latest: dict[int, int]) -> Iterator[int]:
        """Yield the rows where this error was raised, or its parts, given the latest row of each number."""
        rows = [latest[number] for number in self.own if number in latest]
        if rows:
            yield max(rows)
            return
        for part in self.parts:
            yield from part.origins(latest)


def _of_unanswered(error: dict[str, Any], run_id: str) -> Iterator[tuple[str, Any]]:
    """Yield what identifies an unanswered call: its entry has no error, but the run may have failed with one."""
    attributes = error.get("attributes")
    said = cast("dict[str, Any]", attributes) if isinstance(attributes, dict) else {}
    if error.get("type") == _name_of(SignalTimeout):
        yield "what", str(said.get("what"))
    elif error.get("type") == _name_of(QuestionCancelled):
        own = re.fullmatch(
            rf"{re.escape(run_id)}\.(\d{{1,18}})(~.*)?", str(said.get("promise_id")), re.DOTALL
        )
        if own is not None:
            yield "n", int(own[1])


def _name_of(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _gist(error: dict[str, Any]) -> bytes:
    """Return a digest of what identifies an error, without its traceback."""
    parts = [error.get(name) for name in ("type", "message", "args", "attributes")]
    return blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).digest()
