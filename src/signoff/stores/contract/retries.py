"""Where a run that failed permanently continues when an operator retries it.

Its journal is kept. The ``RETRIED`` entry says which entries no longer count: the outcome of the call that failed,
and everything after it, except for the results of steps that ran concurrently with it. Questions and waits for signals
that timed out, or that the failure closed, are opened again. A question is settled only once, so it gets a new id. A
promise whose id the code may have passed on is not replaced.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from signoff.codec.strict_json import read_object
from signoff.errors import InvalidState, QuestionCancelled, SignalTimeout
from signoff.records import CallKind, Entry, EntryKind, PromiseState, Run, RunState

ISSUED: Final = "issued"
"""The key, in the details of a failed step, of the last number that the code had given to a call by then."""

ANEW: Final = "anew"
"""The key, in the details of a ``RETRIED`` entry, of the numbers of the calls that are opened again."""

_KEPT = frozenset({EntryKind.SIGNALLED, EntryKind.RETRIED})
_Gist = tuple[str, ...]
_LASTING = frozenset({CallKind.QUESTION, CallKind.PROMISE, CallKind.CHILD, CallKind.DETACHED})
_AWAITED = frozenset({CallKind.QUESTION, CallKind.SIGNAL})
_UNANSWERED = frozenset({PromiseState.TIMED_OUT, PromiseState.CANCELLED})
_ERRORS: Final = {
    (CallKind.QUESTION, PromiseState.TIMED_OUT): SignalTimeout,
    (CallKind.QUESTION, PromiseState.CANCELLED): QuestionCancelled,
    (CallKind.SIGNAL, PromiseState.TIMED_OUT): SignalTimeout,
}
"""The error that a call raises if it is not answered. Its entry has none."""


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


def unanswered(entries: Sequence[Entry]) -> Mapping[int, str]:
    """Return the ids of a failed run's questions without an answer in its journal, by the numbers of their calls."""
    counting = without_dropped(entries)
    has_answer = {
        entry.n
        for entry in counting
        if entry.kind is EntryKind.COMPLETED and entry.state not in _UNANSWERED and entry.n is not None
    }
    return {
        entry.n: entry.fact("id")
        for entry in counting
        if entry.kind is EntryKind.OPENED
        and entry.call is CallKind.QUESTION
        and entry.n is not None
        and entry.n not in has_answer
    }


def is_own_id(run_id: str, n: int | None, id: str | None) -> bool:
    """Whether a promise's id was derived from its run and its call, rather than chosen."""
    own = f"{run_id}.{n}"
    return id == own or (id is not None and id.startswith(f"{own}~"))


def plan(run: Run, entries: Sequence[Entry], closed: Collection[int] = ()) -> Retry:
    """Determine where a permanently failed run continues.

    Args:
        run: The run.
        entries: The journal of its current generation.
        closed: The calls whose questions can no longer be answered and can be asked again.

    Raises:
        InvalidState: After the failure it asked people, started child runs, or began steps with ``effect="once"``,
            which cannot be undone.
    """
    counting = without_dropped(entries)
    end = entries[-1].seq + 1 if entries else run.first_seq
    failed = _failed_call(counting, run)
    from_seq = end if failed is None else failed.seq
    issued: int | None = None if failed is None else failed.fact(ISSUED)
    beside = _ended_beside(counting, from_seq, end, issued)
    for entry in counting:
        did = _lasting(entry) if entry.seq > from_seq and entry.n not in beside else None
        if did is not None:
            why = (
                f"after the failure it {did} {entry.name!r}, which cannot be undone; start a new run instead"
            )
            raise InvalidState(run.id, run.state.value, "retry", why)
    n = None if failed is None else failed.n
    kept = [entry for entry in counting if entry.seq < from_seq]
    opened = {entry.n for entry in kept if entry.kind is EntryKind.OPENED and entry.n is not None}
    ended = {entry.n for entry in kept if entry.kind is EntryKind.COMPLETED}
    open = opened - ended
    again = open if failed is None or failed.error is not None else {*open, failed.n}
    signals = {entry.n for entry in kept if entry.kind is EntryKind.OPENED and entry.call is CallKind.SIGNAL}
    anew = {each for each in again if each is not None and (each in closed or each in signals)}
    return Retry(run.epoch, from_seq, n, tuple(sorted(open - anew)), issued, tuple(sorted(anew)))


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


def _lasting(entry: Entry) -> str | None:
    """Return what an entry did that must not happen again; None if it may."""
    if entry.kind is EntryKind.STEP_STARTED:
        return "began the effect='once' step"
    if entry.kind is EntryKind.OPENED and entry.call in _LASTING:
        return f"opened {entry.call}"
    return None


def _failed_call(entries: Sequence[Entry], run: Run) -> Entry | None:
    """Return the end of the call whose error ended the run; of an exception group, the call that failed first."""
    ends = [entry for entry in entries if entry.kind is EntryKind.COMPLETED and _raised(entry)]
    if run.error is None or not ends:
        return None
    gists = [(_gist(read_object(entry.error)) if entry.error else None, entry) for entry in reversed(ends)]
    found = _origins(read_object(run.error), gists, run.id)
    return min(found, key=lambda entry: entry.seq, default=None)


def _raised(entry: Entry) -> bool:
    return entry.error is not None or (entry.call in _AWAITED and entry.state in _UNANSWERED)


def _is_unanswered(error: dict[str, Any], entry: Entry, run_id: str) -> bool:
    """Whether an error is that of a call that was not answered."""
    if entry.error is not None or entry.call is None or entry.state is None:
        return False
    kind = _ERRORS.get((entry.call, PromiseState(entry.state)))
    if kind is None or error.get("type") != f"{kind.__module__}:{kind.__qualname__}":
        return False
    facts = error.get("attributes")
    said = cast("dict[str, Any]", facts) if isinstance(facts, dict) else {}
    if kind is SignalTimeout:
        return said.get("what") in (f"an answer to {entry.name!r}", f"signal {entry.name!r}")
    return is_own_id(run_id, entry.n, said.get("promise_id"))


def _origins(
    error: dict[str, Any], ends: Sequence[tuple[_Gist | None, Entry]], run_id: str
) -> Iterator[Entry]:
    """Yield the calls, latest first, that ended with this error, or with one of its members or its cause."""
    gist = _gist(error)
    same = next(
        (entry for known, entry in ends if known == gist or _is_unanswered(error, entry, run_id)), None
    )
    if same is not None:
        yield same
        return
    members = error.get("members")
    for inner in (*(cast("list[Any]", members) if isinstance(members, list) else ()), error.get("cause")):
        value: Any = cast("dict[str, Any]", inner).get("value") if isinstance(inner, dict) else None
        if isinstance(value, dict):
            yield from _origins(cast("dict[str, Any]", value), ends, run_id)


def _gist(error: dict[str, Any]) -> _Gist:
    """Return what identifies an error, without its traceback."""
    parts = ("type", "message", "args", "attributes")
    return tuple(json.dumps(error.get(name), sort_keys=True) for name in parts)
