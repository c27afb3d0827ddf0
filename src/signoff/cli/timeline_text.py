"""Formats the items of a timeline as lines of text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from signoff.cli.exit_codes import run_error
from signoff.cli.formatting import ago, answered, brief, duration, moment, one_line, whence
from signoff.cli.timeline import Item
from signoff.codec.strict_json import read_object
from signoff.records import CallKind
from signoff.records.origins import TIMER

_STYLES = {"failed": "red", "open": "yellow", "retrying": "yellow", "timed_out": "red", "rejected": "red"}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a timeline, and its style."""

    text: str
    style: str | None = None


def lines_of(item: Item, created_at: float, now: float) -> Sequence[Line]:
    """Return the lines of an item.

    Args:
        item: The item.
        created_at: When the run was created; times are relative to it.
        now: The time, in unix seconds.
    """
    words = _WORDS.get(item.kind, _call)
    first, *more = words(item, now)
    since = "+" + duration(item.at - created_at)
    lines = [Line(f"{since:>12}  {item.kind:<9} {first}", _STYLES.get(item.state))]
    lines += [Line(f"{'':12}  {'':9} {line}") for line in more]
    return lines


def _run(item: Item, now: float) -> Sequence[str]:
    by = f" by {item.by}" if item.by else ""
    note = f": {one_line(item.note)}" if item.note else ""
    return [f"{item.name}{by}{note}"]


def _step(item: Item, now: float) -> Sequence[str]:
    if item.state == "open" and item.doubt:
        first = f"{item.name}  was interrupted, it may or may not have happened: signoff answer {item.doubt}"
    elif item.state == "open":
        first = f"{item.name}  started {ago(item.at, now)}"
    elif item.state == "retrying":
        again = item.attempts[-1].next_at
        first = f"{item.name}  attempt {item.attempts[-1].number} failed, the next {_next(again, now)}"
    else:
        first = f"{item.name}  {_took(item)}{_outcome(item)}"
    return [first, *_attempts(item)]


def _took(item: Item) -> str:
    if item.state == "abandoned":
        return "not finished when the run ended"
    tried = f", {len(item.attempts) + 1} attempts" if item.attempts else ""
    return f"{duration(item.seconds or 0.0)}{tried}"


def _attempts(item: Item) -> Sequence[str]:
    return [
        f"attempt {attempt.number} failed: {_error(attempt.error)}"
        if attempt.error
        else f"attempt {attempt.number} has an unknown outcome, a person chose to retry it"
        for attempt in item.attempts
    ]


def _next(at: float, now: float) -> str:
    return f"in {duration(at - now)}" if at > now else "is due"


def _question(item: Item, now: float) -> Sequence[str]:
    title = f"{one_line(item.name)}  ({item.id})"
    if item.is_open:
        return [title, f"waits {_since(item, now)} for an answer: signoff answer {item.id}"]
    if item.state == "succeeded":
        return [title, f"{_waited(item)}: {answered(item.value)}{_noted(item)}{_whence(item)}"]
    return [title, _unsettled(item, "answered")]


def _promise(item: Item, now: float) -> Sequence[str]:
    title = item.id or item.name
    if item.is_open:
        return [f"{title}  waits {_since(item, now)}: signoff resolve {title}"]
    if item.state == "succeeded":
        return [f"{title}  {_waited(item)}{_outcome(item)}{_noted(item)}{_whence(item)}"]
    if item.state == "rejected":
        return [f"{title}  {_waited(item)}, rejected: {brief(item.value)}{_noted(item)}{_whence(item)}"]
    return [f"{title}  {_unsettled(item, 'settled')}"]


def _signal(item: Item, now: float) -> Sequence[str]:
    if item.is_open:
        return [f"{item.name}  waits {_since(item, now)}"]
    if item.state == "succeeded":
        return [f"{item.name}  {_waited(item)}{_outcome(item)}"]
    return [f"{item.name}  {_unsettled(item, 'sent')}"]


def _timer(item: Item, now: float) -> Sequence[str]:
    if item.is_open:
        return [f"until {moment(item.due_at or now)} ({ago(item.due_at or now, now)})"]
    if item.state == "abandoned":
        return ["abandoned"]
    return [f"waited {duration(item.seconds or 0.0)}"]


def _child(item: Item, now: float) -> Sequence[str]:
    title = f"{item.name}  ({item.id})"
    if item.is_open:
        return [f"{title}  runs since {duration(now - item.at)}: signoff show {item.id}"]
    return [f"{title}  {_took(item)}{_outcome(item)}"]


def _detached(item: Item, now: float) -> Sequence[str]:
    return [f"{item.name}  ({item.id})  runs independently: signoff show {item.id}"]


def _progress(item: Item, now: float) -> Sequence[str]:
    details = read_object(item.value)
    return [one_line(" ".join([item.name, *(f"{key}={value}" for key, value in details.items())]))]


def _call(item: Item, now: float) -> Sequence[str]:
    return [f"{item.name}  {item.state}"]


def _waited(item: Item) -> str:
    whom = f" for {one_line(item.by)}" if item.by else ""
    return f"waited {duration(item.seconds or 0.0)}{whom}"


def _since(item: Item, now: float) -> str:
    until = f", until {moment(item.due_at)}," if item.due_at else ""
    return f"since {duration(now - item.at)}{until}"


def _unsettled(item: Item, verb: str) -> str:
    if item.state == "timed_out":
        return f"not {verb} within {duration((item.due_at or item.ended_at or item.at) - item.at)}"
    if item.state == "cancelled":
        return f"withdrawn after {duration(item.seconds or 0.0)}"
    return f"not {verb} when the run ended"


def _noted(item: Item) -> str:
    return f' "{one_line(item.note)}"' if item.note else ""


def _whence(item: Item) -> str:
    return "" if item.origin in (None, TIMER) else f"  ({whence(item.origin)})"


def _outcome(item: Item) -> str:
    if item.error is not None:
        return f"  {item.state}: {_error(item.error)}"
    return "" if item.value in (None, "null") else f" → {brief(item.value)}"


def _error(error: str | None) -> str:
    type_name, message = run_error(error)
    return one_line(f"{type_name}: {message}" if message else type_name)


_WORDS: dict[str, Callable[[Item, float], Sequence[str]]] = {
    "run": _run,
    CallKind.STEP: _step,
    CallKind.QUESTION: _question,
    CallKind.PROMISE: _promise,
    CallKind.SIGNAL: _signal,
    CallKind.TIMER: _timer,
    CallKind.CHILD: _child,
    CallKind.DETACHED: _detached,
    CallKind.PROGRESS: _progress,
}
