"""Checks workers' writes as strictly as clients' writes, with the code that later reads them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Final, cast

from signoff.codec import MAX_BYTES
from signoff.codec.strict_json import read_exactly, read_kept
from signoff.engine.timers.cron import check_cron
from signoff.errors import InvalidValue, QuestionTooNew, UnreadableRecord
from signoff.people.questions.attachments import is_web
from signoff.people.questions.progress import Progress
from signoff.people.questions.question import Question
from signoff.people.questions.question_state import QuestionState
from signoff.people.schemas.validation_process import schema_problem_apart
from signoff.records import (
    Amendment,
    Entry,
    LiveText,
    NewAuditEvent,
    NewPromise,
    NewRule,
    NewRun,
    NewSchedule,
    NewSignal,
    Promise,
    PromiseKind,
    PromiseState,
    Seal,
    Settlement,
)
from signoff.records.deliveries import NewDelivery
from signoff.records.names import LONGEST_PERSON_BYTES, check_assignee, check_size, check_text
from signoff.records.question_text import unpacked
from signoff.records.tasks import TaskLease, TaskRef
from signoff.server.http.request_bodies import check_parts
from signoff.server.limits.long_json import check_long
from signoff.service import snapshots
from signoff.stores.contract.leases import Outcome
from signoff.stores.contract.snapshots import Saved
from signoff.stores.contract.validation import HIGHEST_LIMIT, MAX_DETAILS

MOST_AT_ONCE: Final = 10_000
"""The largest ``limit`` of an operation."""

_TEXTS: Final[Mapping[type, tuple[str, ...]]] = {
    NewRun: ("arguments",),
    NewPromise: ("data",),
    Entry: ("value", "error", "details"),
    Settlement: ("value",),
    Outcome: ("result", "error"),
    Amendment: ("progress",),
    NewAuditEvent: ("details",),
    NewRule: ("arguments",),
    NewSchedule: ("arguments",),
    NewSignal: ("value",),
}
"""The fields of each record that hold JSON."""

_OBJECTS: Final = frozenset({(Entry, "error"), (Entry, "details"), (Outcome, "error")})
"""The JSON fields that hold an object or nothing."""

_DECIDED_ON: Final = frozenset({NewPromise, Settlement, Amendment, NewAuditEvent, NewRule})
"""Records that people decide on or decide with: objects in them must not have duplicate keys."""

_PEOPLE: Final = frozenset({"by", "started_by", "settled_by", "suspended_by", "created_by", "revoked_by"})
"""Fields and arguments that name the user who acts."""

_CARRIED: Final[frozenset[object]] = frozenset({Entry, Outcome})
"""Records with a run's own data, such as the state of a flow, which may be large."""

_VALUES: Final = frozenset({"value", "error"})
"""Arguments of operations that hold JSON themselves."""

_LONG: Final = frozenset(
    {(LiveText, "seq"), (LiveText, "position"), (Seal, "seq"), (NewDelivery, "seq")}
    | {(TaskLease, "ttl"), (TaskRef, "version")}
    | {("expand", "expected"), ("expand", "seq"), ("read_chain", "after"), ("read_live", "after")}
    | {("read_journal", "after")}
)
"""Fields and arguments of 64 bits. Other integers have 32, like a Postgres integer column."""


def check_payloads(operation: str, arguments: Mapping[str, Any]) -> None:
    """Check the arguments of an operation.

    Args:
        operation: Its name.
        arguments: Its arguments, of their declared types.

    Raises:
        InvalidValue: A number is out of range, a payload is not JSON, or a record is not in the format that its readers
            accept. The error names the field.
    """
    for name, value in arguments.items():
        if name in _VALUES and isinstance(value, str):
            _json(name, value)
        elif name == "limit" and isinstance(value, int) and not 0 <= value <= _most(operation):
            raise InvalidValue(name, f"it is not from 0 to {_most(operation)}")
        elif isinstance(value, Saved):
            snapshots.check(value)
        _check((operation, name), name, value)


def _most(operation: str) -> int:
    return HIGHEST_LIMIT if operation == "read_journal" else MOST_AT_ONCE  # journals are also read as a whole


def _check(place: tuple[object, str], path: str, value: object) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        _check_text(place, path, value)
        return
    if isinstance(value, int):
        bits = 63 if place in _LONG else 31
        if not -(2**bits) <= value < 2**bits:
            most = HIGHEST_LIMIT if bits == 31 else 2**63 - 1
            raise InvalidValue(path, f"it is not from {-most - 1} to {most}")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidValue(path, f"{value} is not a number that JSON has")
    elif isinstance(value, list | tuple | frozenset):
        for number, item in enumerate(cast("Iterable[object]", value)):
            _check(place, f"{path}.{number}", item)
    elif isinstance(value, Mapping):
        for name, item in cast("Mapping[str, object]", value).items():
            _check(place, f"{path}.{name}", item)
    elif is_dataclass(value):
        _check_record(path, value)


def _check_text(place: tuple[object, str], path: str, text: str) -> None:
    """Refuse a string that is longer than a client may send, or that a store cannot keep."""
    kind, name = place
    if name in _VALUES or name in _TEXTS.get(cast("type", kind), ()):
        if kind in _CARRIED:
            return  # limited by the size of the batch only
        most = MAX_DETAILS
    elif name in _PEOPLE:
        most = LONGEST_PERSON_BYTES
        check_text(path, text)
    elif kind is LiveText:
        return  # the store truncates it, and drops characters that it cannot keep
    else:
        most = MAX_DETAILS
        check_text(path, text)
    check_size(path, text, most)


def _check_record(path: str, record: object) -> None:
    kind = type(record)
    for name in _names(kind):
        _check((kind, name), f"{path}.{name}", getattr(record, name))
    for field in _TEXTS.get(kind, ()):
        text: str | None = getattr(record, field)
        if text is not None:
            value = _json(f"{path}.{field}", text, exactly=kind in _DECIDED_ON)
            if (kind, field) in _OBJECTS and not isinstance(value, dict):
                raise InvalidValue(f"{path}.{field}", "it is not an object")
            if field == "arguments" and kind in (NewRun, NewSchedule):
                _check_arguments(f"{path}.{field}", value)
    check = FORMATS.get(kind)
    if check is not None:
        check(path, record)


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


def _json(path: str, text: str, *, exactly: bool = False) -> Any:
    if len(text) > MAX_BYTES and not exactly:
        return check_long(path, text)
    if len(text) > MAX_BYTES:
        check_parts(path, text.encode())
    try:
        value = read_kept(text)
        return read_exactly(text) if exactly else value
    except (ValueError, RecursionError) as error:
        raise InvalidValue(path, f"it is not valid JSON: {error}") from None


def _check_arguments(path: str, value: Any) -> None:
    """Refuse arguments that are not in the form ``{"args": [...], "kwargs": {...}}``."""
    if not isinstance(value, dict):
        raise InvalidValue(path, 'it is not an object such as {"args": [], "kwargs": {}}')
    arguments = cast("dict[str, Any]", value)
    if not isinstance(arguments.get("args", []), list):
        raise InvalidValue(f"{path}.args", "it is not a list")
    if not isinstance(arguments.get("kwargs", {}), dict):
        raise InvalidValue(f"{path}.kwargs", "it is not an object")


def _check_promise(path: str, new: NewPromise | Promise) -> None:
    if new.kind is not PromiseKind.QUESTION:
        return
    for number, name in enumerate(new.assignees):
        check_assignee(f"{path}.assignees.{number}", name)
    _check_attachments(f"{path}.data", new.data)
    asked = Promise("", new.id, new.kind, PromiseState.PENDING, 0.0, data=unpacked(new.data))
    try:
        question = Question.of(asked)
        QuestionState.of(asked, 0.0)
    except UnreadableRecord as error:
        raise InvalidValue(*_within(path, error.reason)) from None
    except QuestionTooNew:
        return  # written by a worker of a newer version, whose readers check it
    wrong = schema_problem_apart(question.answer_schema)
    if wrong is not None:
        raise InvalidValue(f"{path}.data.answer_schema", wrong)


def _check_attachments(path: str, text: str | None) -> None:
    """Refuse links other than http(s): a page that shows them could run them. Workflows get the same check."""
    asked: Any = None if text is None else read_kept(text)
    attachments: Any = cast("dict[str, Any]", asked).get("attachments") if isinstance(asked, dict) else None
    if not isinstance(attachments, list):
        return
    for number, each in enumerate(cast("list[object]", attachments)):
        if not isinstance(each, dict) or not is_web(cast("dict[str, object]", each).get("url")):
            raise InvalidValue(f"{path}.attachments.{number}.url", "it is not an http or https address")


def _check_amendment(path: str, amendment: Amendment) -> None:
    for number, name in enumerate(amendment.assignees):
        check_assignee(f"{path}.assignees.{number}", name)
    try:
        Progress.from_json("", amendment.progress)
    except UnreadableRecord as error:
        raise InvalidValue(*_within(path, error.reason)) from None
    except QuestionTooNew:
        return


def _within(path: str, reason: str) -> tuple[str, str]:
    """Split a reader's ``data: text: Input should be ...`` into a path below ``path`` and a message."""
    parts = reason.split(": ")
    inner = [each for each in parts[:-1] if each and " " not in each]
    return ".".join([path, *inner]), ": ".join(parts[len(inner) :])


def _check_schedule(path: str, new: NewSchedule) -> None:
    try:
        check_cron(new.cron, new.timezone)
    except InvalidValue as error:
        raise InvalidValue(f"{path}.{error.path}", error.reason) from None


def _check_outcome(path: str, outcome: Outcome) -> None:
    if not outcome.state.is_final:
        raise InvalidValue(f"{path}.state", f"a run cannot end as {outcome.state.value}")


FORMATS: Final[Mapping[type, Callable[[str, Any], None]]] = {
    NewPromise: _check_promise,
    Promise: _check_promise,
    Amendment: _check_amendment,
    NewSchedule: _check_schedule,
    Outcome: _check_outcome,
}
"""Checks of records beyond numbers and JSON."""
