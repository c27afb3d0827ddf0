"""The JSON format of records and errors in the HTTP API, for server and client.

A field that holds JSON text in the record is embedded JSON on the wire. Fields that are None are omitted, so
``"value": null`` is a value that is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields, replace
from inspect import signature
from typing import Any, Final, TypeVar, cast

from pydantic_core import to_json

from signoff.codec.strict_json import read_kept, why_unreadable_json
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
    TaskConflict,
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
from signoff.records.invocations import CallForm, InvocationInfo
from signoff.records.origins import facts_of, origin_of
from signoff.records.tasks import TaskState
from signoff.records.timeline import TimelineChange

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
    | TimelineChange
    | InvocationInfo
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
    TimelineChange,
    InvocationInfo,
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
    TimelineChange: frozenset({"opened", "value", "error"}),
    InvocationInfo: frozenset({"data", "value"}),
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
    TimelineChange: {"origin": origin_of},
    InvocationInfo: {"kind": PromiseKind, "state": PromiseState, "form": CallForm, "task": TaskState},
}

UNREADABLE = "unreadable"
"""The member that lists the unreadable parts of a record, as ``{"field", "message"}``."""

_LARGE: Final = 64 * 1024  # characters; longer payloads are converted one at a time
_LARGEST: Final = 1024 * 1024  # longer ones, such as the state of a flow, are copied as stored
_LINE_ENDS: Final = bytes.maketrans(b"\r\n", b"  ")

UNSAID: Mapping[type, Mapping[str, Any]] = {Token: {"hash": ""}}
"""Fields that are never sent, with the values that clients read instead."""


def to_wire(record: Record, unreadable: Iterable[tuple[str, str]] = ()) -> dict[str, Any]:
    """Return a record as plain JSON data.

    A field whose text is not valid JSON (another program wrote to the database) is null, with the reason in
    ``unreadable``. So one damaged record does not make a list unreadable.

    Args:
        record: The record.
        unreadable: ``(field, message)`` of further unreadable parts.
    """
    written, problems = _to_plain(record)
    return written | _problems(problems, unreadable)


def to_wire_json(record: Record, unreadable: Iterable[tuple[str, str]] = ()) -> bytes:
    """Return the result of ``to_wire`` as JSON text. NaN and infinities become null.

    Large payloads are parsed one at a time: a parsed payload takes about twenty times the memory of its text.
    """
    texts = JSON_FIELDS[type(record)]
    large = [name for name in texts if len(getattr(record, name) or "") > _LARGE]
    if not large:
        return _json(to_wire(record, unreadable))
    gone: dict[str, Any] = dict.fromkeys(large, "null")
    written, problems = _to_plain(replace(cast("Any", record), **gone))
    members: list[bytes] = []
    for name, value in written.items():
        text = _json(value)
        if name in large:
            try:
                text = _payload(getattr(record, name))
            except ValueError as error:
                problems.append((name, why_unreadable_json(error)))
        members.append(b"%b:%b" % (_json(name), text))
    members += [
        b"%b:%b" % (_json(name), _json(value)) for name, value in _problems(problems, unreadable).items()
    ]
    return b"{%b}" % b",".join(members)


def _to_plain(record: Record) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return a record as plain JSON data, and ``(field, message)`` of each field that is not valid JSON."""
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
                    problems.append((field.name, why_unreadable_json(error)))
                    value = None
            if isinstance(value, Origin):
                value = facts_of(value)
            written[field.name] = asdict(value) if isinstance(value, Rate) else value
    return written, problems


def _problems(found: list[tuple[str, str]], others: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the ``unreadable`` member, if there is anything to report. A field has one reason: ``found`` wins."""
    reasons = dict([*others, *found])
    return {UNREADABLE: _fields(list(reasons.items()))} if reasons else {}


def _json(value: object) -> bytes:
    return to_json(value, inf_nan_mode="null")


def _payload(text: str) -> bytes:
    """Return a payload as JSON. Raises ValueError if invalid JSON."""
    value = read_kept(text)
    if len(text) <= _LARGEST:
        return to_json(value)
    # Copied as stored. In JSON a line end is white space, but it would end a field of a server-sent event.
    del value
    return text.encode().translate(_LINE_ENDS)


def from_wire(kind: type[R], data: Mapping[str, Any]) -> R:
    """Return the record that ``to_wire`` described. Fields of newer versions are ignored.

    An unreadable payload is the reason, which is not JSON: null would be taken for a value.
    """
    texts, parsed = JSON_FIELDS[kind], _PARSED[kind]
    reasons = dict[str, str]()
    if UNREADABLE in data:  # no method of a dict: other servers' JSON may be a list, and is then no record
        reasons = {each["field"]: each["message"] for each in data[UNREADABLE]}
    read: dict[str, Any] = dict(UNSAID.get(kind, {}))
    for field in fields(kind):
        if field.name in data:
            value = data[field.name]
            if field.name in texts:
                is_lost = value is None and field.name in reasons
                value = reasons[field.name] if is_lost else to_json(value).decode()
            elif field.name in parsed:
                value = parsed[field.name](value)
            read[field.name] = value
    if "arguments" in read.get("left_out", ()):
        read["arguments"] = ""
    return kind(**read)


# Errors: problem details (RFC 9457), with the exception's attributes as further members

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
        TaskConflict,
        TooManyRequests,
        UnknownLink,
        UnreadableRecord,
        WrongAnswer,
    )
}


def to_problem(error: SignoffError) -> dict[str, Any]:
    """Return the problem details of an error, from which ``from_problem`` restores it."""
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
    """Return the error that a problem describes, or None if it is not one of Signoff's."""
    kind = _ERRORS.get(problem.get("type", ""))
    if kind is None:
        return None
    if kind is WrongAnswer:
        problems = [(field["field"], field["message"]) for field in problem["fields"]]
        return WrongAnswer(problem["question_id"], problems)
    return kind(*(problem.get(name) for name in signature(kind).parameters))


def _fields(problems: list[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"field": field, "message": message} for field, message in problems]
