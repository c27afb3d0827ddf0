"""Where a run that failed permanently continues when an operator retries it.

Its journal is kept. The ``RETRIED`` entry says which entries no longer count: the outcome of the call that failed,
and everything after it, except for the results of steps that ran concurrently with it. Questions and waits for signals
that timed out, or that the failure closed, are opened again. A question is settled only once, so it gets a new id. A
promise whose id the code may have passed on is not replaced.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from signoff.records import CallKind, Entry, EntryKind, Run, RunState

ISSUED: Final = "issued"
"""The key, in the details of a failed step, of the last number that the code had given to a call by then."""

ANEW: Final = "anew"
"""The key, in the details of a ``RETRIED`` entry, of the numbers of the calls that are opened again."""

_KEPT = frozenset({EntryKind.SIGNALLED, EntryKind.RETRIED})


@dataclass(frozen=True, slots=True)
class Retry:
    """How a permanently failed run continues.

    Attributes:
        epoch: The epoch in which it failed. It is not retried in another one.
        from_seq: Entries from here on do not count, except for signals.
        n: The call that failed. None: the code failed between two calls.
        open: The numbers of the open calls, other than steps.
        issued: The last number that the code had given to a call when that one failed. Steps with numbers up to it that
            succeeded after the failure keep their results. None: unknown.
        anew: The numbers of the calls that are opened again.
    """

    epoch: int
    from_seq: int
    n: int | None = None
    open: tuple[int, ...] = ()
    issued: int | None = None
    anew: tuple[int, ...] = ()

    @property
    def facts(self) -> dict[str, Any]:
        """The details that the ``RETRIED`` entry keeps."""
        anew = list(self.anew) or None
        facts = {"from": self.from_seq, "n": self.n, "issued": self.issued, ANEW: anew}
        return {name: value for name, value in facts.items() if value is not None}


def may_retry(run: Run, how: Retry | None) -> bool:
    """Whether a run can be retried: it failed retryably, or permanently with a plan for the same epoch."""
    if run.state is not RunState.FAILED:
        return False
    return run.retryable or (how is not None and how.epoch == run.epoch)


def without_dropped(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Leave out the journal entries that no longer count since the run was retried."""
    dropping = [
        entry for entry in entries if entry.kind is EntryKind.RETRIED and entry.fact("from") is not None
    ]
    if not dropping:
        return entries
    kept = list(entries)
    for retried in dropping:
        from_seq, n = retried.fact("from"), retried.fact("n")
        anew = frozenset(retried.fact(ANEW) or ())
        beside = _ended_beside(kept, from_seq, retried.seq, retried.fact(ISSUED))
        kept = [
            entry
            for entry in kept
            if entry.n in beside or not _is_dropped(entry, retried.seq, from_seq, n, anew)
        ]
    return kept


def details_of(token: str | None, retry: Retry | None) -> str | None:
    """Return the details of a ``RETRIED`` entry."""
    facts = ({} if token is None else {"token": token}) | ({} if retry is None else retry.facts)
    return json.dumps(facts, separators=(",", ":")) if facts else None


def _ended_beside(entries: Sequence[Entry], from_seq: int, end: int, issued: int | None) -> set[int | None]:
    """Return the numbers of the steps that ran concurrently with the failed one and succeeded after it."""
    if issued is None:
        return set()
    return {
        entry.n
        for entry in entries
        if entry.kind is EntryKind.COMPLETED
        and entry.call is CallKind.STEP
        and entry.error is None
        and from_seq < entry.seq < end
        and entry.n is not None
        and entry.n <= issued
    }


def _is_dropped(entry: Entry, retried_at: int, from_seq: int, n: int | None, anew: Collection[int]) -> bool:
    if entry.seq >= retried_at or entry.kind in _KEPT:
        return False
    if entry.n in anew:
        return True
    of_failed_call = n is not None and entry.n == n and entry.kind is not EntryKind.OPENED
    return entry.seq >= from_seq or of_failed_call
