"""Converts records to JSON for Postgres, and rows from Postgres to records."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from signoff.codec import encode_error
from signoff.errors import IdConflict, RunCancelled
from signoff.records import (
    Amendment,
    Entry,
    Message,
    NewAuditEvent,
    NewPromise,
    NewRun,
    Promise,
    PromiseKind,
    PromiseState,
    Run,
    RunState,
    Settlement,
)
from signoff.records.origins import from_text, text_of
from signoff.records.question_text import unpacked
from signoff.stores.contract.leases import Outcome, Write
from signoff.stores.contract.tokens import callback_token
from signoff.stores.contract.validation import check_promise, check_run
from signoff.stores.shared.equality import canonical, refusal_of
from signoff.stores.shared.rows import MESSAGE_COLUMNS, PROMISE_COLUMNS, RUN_COLUMNS, to_message

Row = Mapping[str, Any]

_RUN_FIELDS = tuple(RUN_COLUMNS.replace(",", " ").split())
_PROMISE_FIELDS = tuple(PROMISE_COLUMNS.replace(",", " ").split())
_MESSAGE_FIELDS = tuple(MESSAGE_COLUMNS.replace(",", " ").split())

# Columns with times. JSON has whole seconds as integers.
_TIMES = frozenset(
    {
        "created_at",
        "deadline_at",
        "ended_at",
        "wake_at",
        "lease_until",
        "due_at",
        "settled_at",
        "at",
        "start_at",
        "act_at",
        "suspended_at",
    }
)


def to_run(row: Sequence[Any]) -> Run:
    """Return the run in ``RUN_COLUMNS``."""
    fields = list(row)
    fields[5] = RunState(fields[5])
    return Run(*fields)


def to_promise(row: Sequence[Any]) -> Promise:
    """Return the promise in ``PROMISE_COLUMNS``."""
    fields = list(row)
    fields[2] = PromiseKind(fields[2])
    fields[3] = PromiseState(fields[3])
    fields[8] = unpacked(fields[8])
    fields[14] = tuple(fields[14])
    fields[18] = from_text(fields[18])
    return Promise(*fields)


def run_of_values(values: Sequence[Any]) -> Run:
    """Return the run in the JSON values of ``RUN_COLUMNS``."""
    return to_run(_typed(values, _RUN_FIELDS))


def run_of(row: Row) -> Run:
    """Return the run in a JSON row."""
    return to_run(_fields(row, _RUN_FIELDS))


def created_run(namespace: str, new: NewRun, created_at: float, position: int | None, *, waits: bool) -> Run:
    """Return the run that was just created for a request. ``waits`` says whether it waits for its turn."""
    is_delayed = not waits and new.start_at is not None and new.start_at > created_at
    return Run(
        namespace=namespace,
        id=new.id,
        workflow=new.workflow,
        group=new.group,
        arguments=new.arguments,
        state=RunState.PAUSED if waits or is_delayed else RunState.READY,
        created_at=created_at,
        parent_id=new.parent_id,
        parent_n=new.parent_n,
        deadline_at=new.deadline_at,
        wake_at=new.start_at if is_delayed else None,
        priority=new.priority,
        start_at=new.start_at,
        concurrency_key=new.concurrency_key,
        concurrency_limit=new.concurrency_limit,
        traceparent=new.traceparent,
        started_by=new.started_by,
        session_id=new.session_id,
        position=position,
    )


def promise_of_values(values: Sequence[Any]) -> Promise:
    """Return the promise in the JSON values of ``PROMISE_COLUMNS``."""
    return to_promise(_typed(values, _PROMISE_FIELDS))


def message_of(row: Row) -> Message:
    """Return the message in a JSON row."""
    return to_message(_fields(row, _MESSAGE_FIELDS))


def from_run(new: NewRun) -> dict[str, Any]:
    """Return the JSON of a new run. Raises InvalidValue."""
    check_run(new)
    return {
        "id": new.id,
        "workflow": new.workflow,
        "group_name": new.group,
        "parent_id": new.parent_id,
        "parent_n": new.parent_n,
        "deadline_at": new.deadline_at,
        "priority": new.priority,
        "start_at": new.start_at,
        "concurrency_key": new.concurrency_key,
        "concurrency_limit": new.concurrency_limit,
        "traceparent": new.traceparent,
        "started_by": new.started_by,
        "session_id": new.session_id,
        "arguments": new.arguments,
        "arguments_digest": digest(new.arguments),
    }


def from_promise(new: NewPromise) -> dict[str, Any]:
    """Return the JSON of a new promise. Empty fields of questions are left out.

    Raises:
        InvalidValue: The promise is not a question, but has fields of questions.
    """
    check_promise(new)
    made: dict[str, Any] = {
        "id": new.id,
        "kind": new.kind,
        "n": new.n,
        "due_at": new.due_at,
        "data": new.data,
    }
    if new.assignees:
        made["assignees"] = list(new.assignees)
    if new.act_at is not None:
        made["act_at"] = new.act_at
    callback = callback_token(new)
    if callback is not None:
        made["callback"] = {"id": callback.id, "hash": callback.hash, "subject": callback.subject}
    return made


def from_settlement(settlement: Settlement) -> dict[str, Any]:
    """Return the JSON of a settlement."""
    return {
        "state": settlement.state,
        "value": settlement.value,
        "by": settlement.by,
        "note": settlement.note,
        "request_id": settlement.request_id,
        "version": settlement.version,
        "origin": text_of(settlement.origin),
    }


def from_amendment(amendment: Amendment) -> dict[str, Any]:
    """Return the JSON of an amendment."""
    made: dict[str, Any] = {
        "version": amendment.version,
        "progress": amendment.progress,
        "assignees": list(amendment.assignees),
        "act_at": amendment.act_at,
        "events": [from_event(event) for event in amendment.events],
    }
    if amendment.settlement is not None:
        made["settlement"] = from_settlement(amendment.settlement)
    if amendment.rule is not None:
        made["rule"] = asdict(amendment.rule)
    if amendment.due_at is not None:
        made["due_at"] = amendment.due_at
    if amendment.by_rule is not None:
        made["by_rule"] = amendment.by_rule
    if amendment.signal is not None:
        made["signal"] = asdict(amendment.signal)
    if amendment.request_id is not None:
        made["request_id"] = amendment.request_id
    return made


def from_event(event: NewAuditEvent) -> dict[str, Any]:
    """Return the JSON of an audit event."""
    return {
        "id": event.id,
        "kind": event.kind,
        "question_id": event.question_id,
        "run_id": event.run_id,
        "by": event.by,
        "details": event.details,
        "origin": text_of(event.origin),
    }


def from_outcome(outcome: Outcome) -> dict[str, Any]:
    """Return the JSON of a run's outcome."""
    return {
        "state": outcome.state,
        "result": outcome.result,
        "error": outcome.error,
        "retryable": outcome.retryable,
    }


def from_write(write: Write) -> dict[str, Any]:
    """Return the JSON of a write. Empty parts are left out."""
    made: dict[str, Any] = {"run_id": write.run_id, "epoch": write.epoch}
    if write.entries:
        made["entries"] = [from_entry(entry) for entry in write.entries]
    if write.opens:
        made["opens"] = [_opened(new) for new in write.opens]
    if write.closes:
        made["closes"] = list(write.closes)
    if write.starts:
        made["starts"] = [_started(new) for new in write.starts]
    if write.cancels:
        made["cancels"] = [{"id": id, "error": encode_error(RunCancelled(id, None))} for id in write.cancels]
    if write.taken:
        made["taken"] = list(write.taken)
    if write.first_seq is not None:
        made["first_seq"] = write.first_seq
    if write.unpublishes:
        made["unpublishes"] = list(write.unpublishes)
    return made


def from_entry(entry: Entry) -> dict[str, Any]:
    """Return the JSON of a journal entry. Fields that are None are left out."""
    made: dict[str, Any] = {"seq": entry.seq, "at": entry.at, "kind": entry.kind._value_}
    if entry.n is not None:
        made["n"] = entry.n
    if entry.call is not None:
        made["call"] = entry.call._value_
    if entry.name is not None:
        made["name"] = entry.name
    if entry.value is not None:
        made["value"] = entry.value
    if entry.error is not None:
        made["error"] = entry.error
    if entry.details is not None:
        made["details"] = entry.details
    return made


def digest(json_text: str) -> str:
    """Return a digest of a JSON value that does not depend on whitespace or the order of keys."""
    return hashlib.sha256(canonical(json_text).encode()).hexdigest()


def _opened(new: NewPromise) -> dict[str, Any]:
    return {**from_promise(new), "conflict": encode_error(refusal_of(new))}


def _started(new: NewRun) -> dict[str, Any]:
    made = from_run(new)
    if new.parent_n is not None:
        conflict = IdConflict(
            new.id, f"it is not a run of {new.workflow!r} with these arguments and this session"
        )
        made["conflict"] = encode_error(conflict)
    return made


def _fields(row: Row, names: Sequence[str]) -> list[Any]:
    return _typed([row[name] for name in names], names)


def _typed(values: Sequence[Any], names: Sequence[str]) -> list[Any]:
    return [
        float(value) if name in _TIMES and value is not None else value
        for name, value in zip(names, values, strict=True)
    ]
