"""Rows that are the same in SQLite and Postgres. Columns are in the order of the records' fields."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from signoff.errors import NotFound
from signoff.records import (
    AuditEvent,
    AuditKind,
    CallKind,
    CatchUp,
    Entry,
    EntryKind,
    Message,
    MessageKind,
    NewSchedule,
    NewToken,
    Promise,
    Rule,
    Schedule,
    Session,
    Token,
    TokenKind,
    WorkerInfo,
    WorkflowInfo,
)
from signoff.records.deliveries import Delivery, DeliveryState
from signoff.records.origins import from_text, text_of

RUN_COLUMNS: Final = """namespace, id, workflow, group_name, arguments, state, created_at, parent_id, parent_n,
    deadline_at, ended_at, result, error, retryable, epoch, wakes, wake_at, worker_id, lease_until,
    first_seq, priority, start_at, concurrency_key, concurrency_limit, traceparent, started_by,
    session_id, position, takeovers, suspended_at, suspended_by, suspended_reason"""
RUN_WIDTH: Final = 32

PROMISE_COLUMNS: Final = """namespace, id, kind, state, created_at, run_id, n, due_at, data, value, settled_at,
    settled_by, note, request_id, assignees, act_at, version, progress, origin"""
PROMISE_WIDTH: Final = 19

ENTRY_COLUMNS: Final = "seq, at, kind, n, call, name, value, error, details"

MESSAGE_COLUMNS: Final = "id, run_id, kind, at, n, name, state, value, error, by, note"
MESSAGE_WIDTH: Final = 11

WORKER_COLUMNS: Final = """id, host, pid, process_started_at, group_name, namespace, signoff_version, python_version,
    build, threads, threads_busy, threads_waiting, seen_at"""

DELIVERY_COLUMNS: Final = """namespace, id, channel, recipient, event_id, seq, kind, question_id, state, created_at,
    run_id, due_at, attempts, ended_at, error"""

EVENT_COLUMNS: Final = "namespace, id, at, kind, question_id, run_id, by, details, origin"
EVENT_WIDTH: Final = 9

RULE_COLUMNS: Final = """namespace, id, created_at, by, tool, arguments, question_id, expires_at, run_id, groups,
    roles, max_uses, uses, revoked_at, revoked_by, session_id"""
RULE_WIDTH: Final = 16

SCHEDULE_COLUMNS: Final = """namespace, id, workflow, group_name, arguments, cron, timezone, catch_up, next_at,
    priority, concurrency_key, concurrency_limit, created_at, is_paused, last_at, last_run_id"""

TOKEN_COLUMNS: Final = """namespace, id, kind, hash, subject, created_at, question_id, data, label, created_by,
    expires_at, revoked_at, used_at"""

WORKFLOW_COLUMNS: Final = "group_name, name, version, is_current, description, parameters, namespace, seen_at"
ANNOUNCED: Final = ("group", "name", "version", "is_current", "description", "parameters")
"""The fields of a workflow that its worker announces, in the order of their columns."""

# Journals can be long, and calling an enum takes as long as everything else.
_ENTRY_KINDS = {kind.value: kind for kind in EntryKind}
_CALLS: dict[str | None, CallKind | None] = {None: None, **{kind.value: kind for kind in CallKind}}

T = TypeVar("T")
Row = Sequence[Any]


def found(noun: str, id: str, row: Row | None, to_record: Callable[[Row], T]) -> T:
    """Return the record in a row. Raises NotFound if there is none."""
    if row is None:
        raise NotFound(noun, id)
    return to_record(row)


def to_entry(row: Row) -> Entry:
    """Return the entry in ``ENTRY_COLUMNS``."""
    seq, at, kind, n, call, name, value, error, details = row
    return Entry(seq, at, _ENTRY_KINDS[kind], n, _CALLS[call], name, value, error, details)


def to_message(row: Row) -> Message:
    """Return the message at the beginning of a row."""
    return Message(row[0], row[1], MessageKind(row[2]), *row[3:MESSAGE_WIDTH])


def to_worker(row: Row) -> WorkerInfo:
    """Return the worker in ``WORKER_COLUMNS`` and its number of leased runs."""
    return WorkerInfo(*row)


def of_promise(namespace: str, promise: Promise, assignees: object) -> list[Any]:
    """Return the ``PROMISE_COLUMNS`` of a promise in another namespace, with the stored form of its assignees."""
    values = [getattr(promise, field) for field in Promise.__dataclass_fields__ if field != "left_out"]
    values[0], values[2], values[3] = namespace, promise.kind.value, promise.state.value
    values[14], values[18] = assignees, text_of(promise.origin)
    return values


def to_delivery(row: Row) -> Delivery:
    """Return the delivery in ``DELIVERY_COLUMNS``."""
    fields = list(row)
    fields[6], fields[8] = AuditKind(row[6]), DeliveryState(row[8])
    for place in (9, 11, 13):
        fields[place] = _time(row[place])
    return Delivery(*fields)


def to_event(row: Row, seq: int | None = None, hash: str | None = None) -> AuditEvent:
    """Return the event in ``EVENT_COLUMNS``, with its seal."""
    namespace, id, at, kind, question_id, run_id, by, details, origin = row
    return AuditEvent(
        namespace,
        id,
        float(at),
        AuditKind(kind),
        question_id,
        run_id,
        by,
        details,
        seq,
        hash,
        origin=from_text(origin),
    )


def to_rule(row: Row) -> Rule:
    """Return the rule at the beginning of a row. SQLite stores groups and roles as JSON, and no end as infinity."""
    fields = list(row[:RULE_WIDTH])
    for place in (2, 7, 13):
        fields[place] = _time(row[place])
    fields[7] = None if fields[7] == math.inf else fields[7]
    fields[9], fields[10] = (
        tuple(json.loads(names) if isinstance(names, str) else names) for names in row[9:11]
    )
    return Rule(*fields)


def to_schedule(row: Row) -> Schedule:
    """Return the schedule in ``SCHEDULE_COLUMNS``."""
    fields = list(row)
    fields[7], fields[13] = CatchUp(row[7]), bool(row[13])
    for place in (8, 12, 14):
        fields[place] = _time(row[place])
    return Schedule(*fields)


def of_schedule(namespace: str, new: NewSchedule) -> tuple[Any, ...]:
    """Return the ``SCHEDULE_COLUMNS`` of a new schedule up to ``concurrency_limit``."""
    return (
        namespace,
        new.id,
        new.workflow,
        new.group,
        new.arguments,
        new.cron,
        new.timezone,
        new.catch_up.value,
        new.next_at,
        new.priority,
        new.concurrency_key,
        new.concurrency_limit,
    )


def to_session(row: Row) -> Session:
    """Return the session in a row that ends with its number."""
    namespace, id, created_at, last_at, last_position, active, _ = row
    return Session(namespace, id, float(created_at), float(last_at), last_position, active)


def to_token(row: Row) -> Token:
    """Return the token in ``TOKEN_COLUMNS``."""
    fields = list(row)
    fields[2] = TokenKind(row[2])
    for place in (5, 10, 11, 12):
        fields[place] = _time(row[place])
    return Token(*fields)


def of_token(namespace: str, new: NewToken, now: float | None) -> dict[str, Any]:
    """Return the columns of a new token, by name."""
    return {
        "namespace": namespace,
        "id": new.id,
        "kind": new.kind.value,
        "hash": new.hash,
        "subject": new.subject,
        "question_id": new.question_id,
        "data": new.data,
        "label": new.label,
        "created_by": new.created_by,
        "expires_at": new.expires_at,
        "now": now,
    }


def to_workflow(row: Row) -> WorkflowInfo:
    """Return the workflow in ``WORKFLOW_COLUMNS``."""
    fields = list(row)
    fields[3] = bool(row[3])
    return WorkflowInfo(*fields)


def _time(value: float | None) -> float | None:
    """Return a time as a float. In SQLite, RETURNING gives whole seconds as an int."""
    return None if value is None else float(value)
