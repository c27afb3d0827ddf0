"""Records and errors as the HTTP API writes them. Server and client both use this.

What a record keeps as JSON text is JSON on the wire. A field without a value is left out, so ``"value": null``
is a value that is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields, replace
from inspect import signature
from typing import Any, Final, TypeVar, cast

from pydantic_core import to_json

from signoff.codec.strict_json import read_kept
from signoff.errors import (
    AccessDenied,
    AlreadySettled,
    AlreadyVoted,
    IdConflict,
    InvalidState,
    InvalidValue,
    LeaseLost,
    LinkEnded,
    LoginFailed,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    NotSerializable,
    PayloadTooLarge,
    ProviderUnavailable,
    QuestionClaimed,
    QuestionTooNew,
    RequestConflict,
    ResumeRefused,
    SignoffError,
    SnapshotRefused,
    StoreDamaged,
    StoreFull,
    StoreMoved,
    StoreReadOnly,
    StoreUnavailable,
    TooManyRequests,
    UnknownLink,
    UnreadableRecord,
    WrongAnswer,
)
from signoff.records import (
    AuditEvent,
    AuditKind,
    CallKind,
    CatchUp,
    Entry,
    EntryKind,
    Group,
    LiveText,
    Origin,
    Promise,
    PromiseKind,
    PromiseState,
    Rate,
    Rule,
    Run,
    RunState,
    Schedule,
    Session,
    Token,
    TokenKind,
    WorkerInfo,
    WorkflowInfo,
)
from signoff.records.deliveries import Delivery, DeliveryState
from signoff.records.failed_items import SetAsideItem
from signoff.records.origins import facts_of, origin_of

Record = (
    Run
    | Promise
    | Entry
    | Group
    | WorkerInfo
    | WorkflowInfo
    | Schedule
    | AuditEvent
    | Token
    | Delivery
    | Rule
    | Session
    | LiveText
    | SetAsideItem
)
R = TypeVar(
    "R",
    Run,
    Promise,
    Entry,
    Group,
    WorkerInfo,
    WorkflowInfo,
    Schedule,
    AuditEvent,
    Token,
    Delivery,
    Rule,
    Session,
    LiveText,
    SetAsideItem,
)

JSON_FIELDS: Mapping[type, frozenset[str]] = {
    Run: frozenset({"arguments", "result", "error"}),
    Promise: frozenset({"data", "value", "progress"}),
    Entry: frozenset({"value", "error", "details"}),
    AuditEvent: frozenset({"details"}),
    Group: frozenset(),
    WorkerInfo: frozenset(),
    WorkflowInfo: frozenset({"parameters"}),
    Schedule: frozenset({"arguments"}),
    Token: frozenset({"data"}),
    Delivery: frozenset(),
    Rule: frozenset({"arguments"}),
    Session: frozenset(),
    LiveText: frozenset(),
    SetAsideItem: frozenset(),
}

_PARSED: Mapping[type, Mapping[str, Callable[[Any], Any]]] = {
    Run: {"state": RunState},
    Promise: {"kind": PromiseKind, "state": PromiseState, "assignees": tuple, "origin": origin_of},
    Entry: {"kind": EntryKind, "call": CallKind},
    AuditEvent: {"kind": AuditKind, "origin": origin_of},
    WorkerInfo: {},
    SetAsideItem: {},
    WorkflowInfo: {},
    Rule: {"groups": tuple, "roles": tuple},
    Schedule: {"catch_up": CatchUp},
    Delivery: {"kind": AuditKind, "state": DeliveryState},
    Group: {"starts_per": lambda rate: Rate(rate["count"], rate["seconds"])},
    Token: {"kind": TokenKind},
    Session: {},
    LiveText: {},
}

UNREADABLE = "unreadable"
"""The member that says what of a record cannot be read: a list of ``{"field", "message"}``."""

_LARGE: Final = 64 * 1024  # characters, from which on payloads are written one by one
_LARGEST: Final = 1024 * 1024  # from which on they are written as they are kept, such as the state of a flow
_LINE_ENDS: Final = bytes.maketrans(b"\r\n", b"  ")

UNSAID: Mapping[type, Mapping[str, Any]] = {Token: {"hash": ""}}
"""What no client is told, and what it reads instead."""


def to_wire(record: Record, unreadable: Iterable[tuple[str, str]] = ()) -> dict[str, Any]:
    """Return a record as plain JSON data.

    A field whose text is no JSON is null, and ``unreadable`` says why: an earlier version, or a program past
    Signoff, has written it. So one record keeps no list from being read.

    Args:
        record: The record.
        unreadable: ``(field, message)`` of what else its readers cannot read.
    """
    written, problems = _written(record)
    return written | _problems(problems, unreadable)


def to_wire_json(record: Record, unreadable: Iterable[tuple[str, str]] = ()) -> bytes:
    """Return a record as JSON, as ``to_wire`` makes it. A number that JSON does not have, such as NaN, is null.

    Its payloads are read and written one by one: what a payload is made into takes twenty times as much as its text.
    """
    texts = JSON_FIELDS[type(record)]
    large = [name for name in texts if len(getattr(record, name) or "") > _LARGE]
    if not large:
        return _json(to_wire(record, unreadable))
    gone: dict[str, Any] = dict.fromkeys(large, "null")
    written, problems = _written(replace(cast("Any", record), **gone))
    members: list[bytes] = []
    for name, value in written.items():
        text = _json(value)
        if name in large:
            try:
                text = _plain(getattr(record, name))
            except ValueError as error:
                problems.append((name, _why(error)))
        members.append(b"%b:%b" % (_json(name), text))
    members += [
        b"%b:%b" % (_json(name), _json(said)) for name, said in _problems(problems, unreadable).items()
    ]
    return b"{%b}" % b",".join(members)


def _written(record: Record) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return a record as plain JSON data, and what of it is no JSON."""
    texts = JSON_FIELDS[type(record)]
    gone = {*UNSAID.get(type(record), ()), *(getattr(record, "left_out", None) or ())}
    written: dict[str, Any] = {}
    problems: list[tuple[str, str]] = []
    for field in fields(record):
        value = getattr(record, field.name)
        if value is not None and field.name not in gone:
            if field.name in texts:
                try:
                    value = read_kept(value)
                except ValueError as error:
                    problems.append((field.name, _why(error)))
                    value = None
            if isinstance(value, Origin):
                value = facts_of(value)
            written[field.name] = asdict(value) if isinstance(value, Rate) else value
    return written, problems


def _problems(found: list[tuple[str, str]], others: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the member that says what cannot be read, if anything. That a field is no JSON goes before others."""
    reasons = dict([*others, *found])
    return {UNREADABLE: _fields(list(reasons.items()))} if reasons else {}


def _why(error: ValueError) -> str:
    return f"it is no JSON: {error}"


def _json(value: object) -> bytes:
    return to_json(value, inf_nan_mode="null")


def _plain(text: str) -> bytes:
    """Return a payload as JSON. Raises ValueError if it is not valid JSON."""
    value = read_kept(text)
    if len(text) <= _LARGEST:
        return to_json(value)
    # It is not made anew. Line ends are spaces in it, and ends of fields in a stream of events.
    del value
    return text.encode().translate(_LINE_ENDS)


def from_wire(kind: type[R], data: Mapping[str, Any]) -> R:
    """Read a record back. Fields that this version does not know are passed over."""
    texts, parsed = JSON_FIELDS[kind], _PARSED[kind]
    read: dict[str, Any] = dict(UNSAID.get(kind, {}))
    for field in fields(kind):
        if field.name in data:
            value = data[field.name]
            if field.name in texts:
                value = to_json(value).decode()
            elif field.name in parsed:
                value = parsed[field.name](value)
            read[field.name] = value
    if "arguments" in read.get("left_out", ()):
        read["arguments"] = ""
    return kind(**read)


# Errors: problem details (RFC 9457), with what the exception carries as further members

URN = "urn:signoff:"

_ERRORS: Mapping[str, type[SignoffError]] = {
    URN + kind.__name__: kind
    for kind in (
        AccessDenied,
        AlreadySettled,
        AlreadyVoted,
        IdConflict,
        InvalidState,
        InvalidValue,
        LeaseLost,
        LoginFailed,
        LinkEnded,
        NotAllowed,
        NotAuthenticated,
        NotFound,
        NotSerializable,
        PayloadTooLarge,
        ProviderUnavailable,
        QuestionClaimed,
        QuestionTooNew,
        RequestConflict,
        ResumeRefused,
        SnapshotRefused,
        StoreDamaged,
        StoreFull,
        StoreMoved,
        StoreReadOnly,
        StoreUnavailable,
        TooManyRequests,
        UnknownLink,
        UnreadableRecord,
        WrongAnswer,
    )
}


def to_problem(error: SignoffError) -> dict[str, Any]:
    """Describe an error, so that ``from_problem`` can make it again."""
    kind = type(error)
    problem: dict[str, Any] = {
        "type": URN + kind.__name__,
        "title": (kind.__doc__ or kind.__name__).splitlines()[0],
        "detail": str(error),
    }
    if URN + kind.__name__ in _ERRORS:
        facts = {name: getattr(error, name) for name in signature(kind).parameters}
        problem.update({name: value for name, value in facts.items() if value is not None})
    if isinstance(error, WrongAnswer):
        problem["fields"] = _fields(problem.pop("problems"))
    elif isinstance(error, InvalidValue | NotSerializable):
        problem["fields"] = _fields([(error.path, error.reason)])
    return problem


def from_problem(problem: Mapping[str, Any]) -> SignoffError | None:
    """Make the error again that a problem describes, or return None if it is none of ours."""
    kind = _ERRORS.get(problem.get("type", ""))
    if kind is None:
        return None
    if kind is WrongAnswer:
        problems = [(field["field"], field["message"]) for field in problem["fields"]]
        return WrongAnswer(problem["question_id"], problems)
    return kind(*(problem.get(name) for name in signature(kind).parameters))


def _fields(problems: list[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"field": field, "message": message} for field, message in problems]
