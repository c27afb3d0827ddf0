"""Checks of records that every store can keep them: names, lengths, limits, JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from signoff.codec.scalars import MAX_DIGITS
from signoff.codec.unstorable_values import MAX_DEPTH
from signoff.codec.values import MAX_BYTES
from signoff.errors import InvalidValue
from signoff.observability.trace_context import is_traceparent
from signoff.records import (
    Amendment,
    AuditKind,
    LiveText,
    NewAuditEvent,
    NewPromise,
    NewRule,
    NewRun,
    NewSchedule,
    NewToken,
    PromiseKind,
    PromiseState,
    Rate,
    Settlement,
    WorkerInfo,
    WorkflowInfo,
)
from signoff.records.checkpoints import CheckpointFilter, CheckpointRef, CheckpointWrite, NewCheckpoint
from signoff.records.deliveries import DeliveryState, NewDelivery, Report
from signoff.records.names import (
    LONGEST_CHOSEN_BYTES,
    LONGEST_ID_BYTES,
    LONGEST_NAME_BYTES,
    LONGEST_NAMESPACE_BYTES,
    LONGEST_PERSON_BYTES,
    LONGEST_REQUEST_BYTES,
    check_optional_text,
    check_part,
    check_size,
    check_user,
)
from signoff.records.origins import facts_of
from signoff.records.paging import (
    AuditFilter,
    DeliveryFilter,
    PromiseFilter,
    RuleFilter,
    TokenFilter,
    WorkflowFilter,
)
from signoff.records.promise_schedules import NewPromiseSchedule
from signoff.records.tasks import NewInvocation, TaskLease, TaskRef
from signoff.stores.contract import checkpoints
from signoff.stores.contract.snapshots import Saved

HIGHEST_LIMIT = 2**31 - 1
"""The highest limit of running and starting runs that every store can count."""

LONGEST_LEASE_MS = 2**53 - 1
"""The longest lease on a task, in milliseconds: what JSON can hold."""

MAX_DETAILS = 4 * MAX_BYTES
"""The largest details of an event, in bytes: the largest answer, escaped once more as JSON within JSON."""

LONGEST_BUILD = 200
"""The longest build and version of a worker, each, in characters."""

LONGEST_NAME = LONGEST_NAME_BYTES
"""The longest name, group and version of a registered workflow, each, in bytes: what an index can hold."""

LONGEST_KIND = 100
"""The longest kind of a token, in bytes."""

LONGEST_DESCRIPTION = 1000
"""The longest description of a registered workflow, in characters."""

LONGEST_SCHEMA = 64 * 1024
"""The longest schema of a workflow's parameters, in bytes."""

_ENCRYPTED = 6
"""The most characters that one character becomes by encryption, which a store cannot detect."""

_RECORDED = frozenset(AuditKind) - {AuditKind.ASKED} - {AuditKind(state.value) for state in PromiseState}
"""Kinds of events that callers record. The store itself records the others."""


def check_ids(**ids: str | None) -> None:
    """Raise InvalidValue for an id that is too long for an index."""
    for field, id in ids.items():
        check_size(field, id, LONGEST_ID_BYTES)


def check_names(**names: str | None) -> None:
    """Raise InvalidValue for a name of a workflow, group or worker that is too long for an index."""
    for field, name in names.items():
        check_size(field, name)


def check_request(request_id: str | None, token: str | None = None) -> None:
    """Raise InvalidValue for a request id, or a call's token, that is too long for an index."""
    check_size("request_id", request_id, LONGEST_REQUEST_BYTES)
    check_size("token", token)


def check_schedule(new: NewSchedule) -> None:
    """Raise InvalidValue for a schedule whose runs could not be stored."""
    check_size("id", new.id, LONGEST_CHOSEN_BYTES)  # its runs' ids are longer
    check_names(workflow=new.workflow, group=new.group)
    check_size("concurrency_key", new.concurrency_key, LONGEST_REQUEST_BYTES)


def check_promise_schedule(new: NewPromiseSchedule) -> None:
    """Raise InvalidValue for a schedule that could not be stored."""
    check_size("id", new.id, LONGEST_CHOSEN_BYTES)
    if not math.isfinite(new.next_at):
        raise InvalidValue("next_at", f"{new.next_at} is not a time")


def check_invocation(new: NewInvocation) -> None:
    """Raise InvalidValue for an invocation that could not be stored."""
    check_names(target=new.target)
    check_ids(branch=new.branch, parent=new.parent)
    if new.send_at is not None and not math.isfinite(new.send_at):
        raise InvalidValue("send_at", f"{new.send_at} is not a time")
    if new.lease is not None:
        check_lease(new.lease)
    if new.holder is not None:
        check_refs([new.holder])


def check_refs(refs: Sequence[TaskRef]) -> None:
    """Raise InvalidValue for a version of a task that is no number of 64 bits."""
    for ref in refs:
        if not -(2**63) <= ref.version < 2**63:
            raise InvalidValue("version", f"{ref.version} is not a number of 64 bits")


def check_lease(lease: TaskLease) -> None:
    """Raise InvalidValue for a lease on a task that could not be stored."""
    check_names(pid=lease.pid)
    if not 0 <= lease.ttl <= LONGEST_LEASE_MS:
        raise InvalidValue("ttl", f"{lease.ttl} is not between 0 and {LONGEST_LEASE_MS} milliseconds")


def check_saved(saved: Saved) -> None:
    """Raise InvalidValue for a snapshot with an id or a name that is too long for an index."""
    promises = list(saved.promises)
    for each in saved.runs:
        run = each.run
        check_ids(id=run.id, parent_id=run.parent_id, session_id=run.session_id)
        check_names(workflow=run.workflow, group=run.group)
        check_size("concurrency_key", run.concurrency_key, LONGEST_REQUEST_BYTES)
        promises += each.promises
        for request in each.requests:
            check_request(request.request_id)
        for joined in each.joined:
            check_ids(joined=joined.id)
    for promise in promises:
        check_ids(id=promise.id, run_id=promise.run_id)
        _check_people("assignees", promise.assignees)


def _check_people(field: str, people: Iterable[str]) -> None:
    for each in people:
        check_size(field, each, LONGEST_PERSON_BYTES)


def check_limits(max_running: int | None, starts_per: Rate | None) -> None:
    """Raise InvalidValue for limits of a group that are not above 0, or higher than a store can count."""
    if max_running is not None and max_running < 1:
        raise InvalidValue("max_running", f"with {max_running} no run could start; pause the group instead")
    if max_running is not None and max_running > HIGHEST_LIMIT:
        raise InvalidValue("max_running", f"it is more than {HIGHEST_LIMIT}; leave it out for no limit")
    if starts_per is None:
        return
    if starts_per.count < 1:
        raise InvalidValue(
            "starts_per.count", f"with {starts_per.count} no run could start; pause the group instead"
        )
    if starts_per.count > HIGHEST_LIMIT:
        raise InvalidValue("starts_per.count", f"it is more than {HIGHEST_LIMIT}; leave it out for no limit")
    if not 0 < starts_per.seconds < math.inf:
        raise InvalidValue("starts_per.seconds", f"{starts_per.seconds} is not a number of seconds above 0")


def check_run(new: NewRun) -> None:
    """Raise InvalidValue for a concurrency key without a limit, or the reverse, or an invalid ``traceparent``.

    Also for an id or a name that is too long for an index.
    """
    check_ids(id=new.id, parent_id=new.parent_id, session_id=new.session_id)
    check_names(workflow=new.workflow, group=new.group)
    check_size("concurrency_key", new.concurrency_key, LONGEST_REQUEST_BYTES)
    if (new.concurrency_key is None) != (new.concurrency_limit is None):
        raise InvalidValue("concurrency_limit", "set a concurrency key and a limit together, or neither")
    if new.concurrency_limit is not None and new.concurrency_limit > HIGHEST_LIMIT:
        raise InvalidValue("concurrency_limit", f"it is more than {HIGHEST_LIMIT}; leave it out for no limit")
    if new.started_by is not None:
        check_user("started_by", new.started_by)
    check_optional_text("session_id", new.session_id)
    if new.traceparent is not None and not is_traceparent(new.traceparent):
        raise InvalidValue("traceparent", f"{new.traceparent[:60]!r} is not a W3C trace context")


def check_promise(new: NewPromise) -> None:
    """Raise InvalidValue for a plain promise with fields of a question, or for a callback without a hash.

    Also for an id or an assignee that is too long for an index.
    """
    check_ids(id=new.id, run_id=new.run_id)
    _check_people("assignees", new.assignees)
    if new.callback is not None:
        check_hash("callback", new.callback)
    if new.kind is PromiseKind.QUESTION:
        return
    asked = (("assignees", new.assignees or None), ("act_at", new.act_at), ("callback", new.callback))
    for field, value in asked:
        if value is not None:
            raise InvalidValue(field, f"promise {new.id!r} is not a question, and only questions have this")


def check_amendment(amendment: Amendment) -> None:
    """Raise InvalidValue for an amendment that settles as pending, or records an invalid event."""
    settlement = amendment.settlement
    _check_people("assignees", amendment.assignees)
    check_request(amendment.request_id)
    if settlement is not None:
        check_request(settlement.request_id)
    if settlement is not None and settlement.state is PromiseState.PENDING:
        raise InvalidValue("settlement.state", "a promise cannot be settled as pending")
    if settlement is not None and settlement.version is not None:
        raise InvalidValue("settlement.version", "set the amendment's version instead")
    if amendment.due_at is not None and not math.isfinite(amendment.due_at):
        raise InvalidValue("due_at", f"{amendment.due_at} is not a finite time")
    if amendment.due_at is not None and settlement is not None:
        raise InvalidValue("due_at", "a settled question has no deadline")
    if (amendment.rule or amendment.by_rule) and settlement is None:
        raise InvalidValue("rule", "a rule can only be created or used together with a settlement")
    if amendment.rule is not None and amendment.by_rule is not None:
        raise InvalidValue("rule", "an approval by a rule cannot create another rule")
    if amendment.rule is not None:
        check_rule(amendment.rule)
    check_optional_text("by_rule", amendment.by_rule)
    if amendment.signal is not None:
        for field in ("run_id", "name", "value", "by"):
            check_optional_text(f"signal.{field}", getattr(amendment.signal, field))
    check_events(amendment.events)


def check_rule(new: NewRule) -> None:
    """Raise InvalidValue for a rule that not every store can keep, or that would never be in force."""
    for field in ("id", "tool", "question_id", "run_id", "session_id"):
        check_optional_text(f"rule.{field}", getattr(new, field))
        if field != "tool":
            check_size(f"rule.{field}", getattr(new, field), LONGEST_ID_BYTES)
    if check_user("rule.by", new.by).startswith("user:"):
        raise InvalidValue("rule.by", f"write {new.by!r} without user:")
    for name in (*new.groups, *new.roles):
        check_part("rule.groups", name)
    if new.session_id is not None and (new.run_id is not None or not new.session_id):
        raise InvalidValue("rule.session_id", "set the id of a run or of a session, or neither")
    if new.session_id is None and new.expires_at is None:
        raise InvalidValue("rule.expires_at", "a rule without a session needs an end")
    if new.expires_at is not None and not math.isfinite(new.expires_at):
        raise InvalidValue("rule.expires_at", "it is not a finite time")
    if new.max_uses is not None and not 0 < new.max_uses < 2**31:
        raise InvalidValue("rule.max_uses", f"{new.max_uses} is not between 1 and 2147483647")
    check_object("rule.arguments", new.arguments)


def check_events(events: Sequence[NewAuditEvent]) -> None:
    """Raise InvalidValue for an event that not every store can keep, or that could not be read back."""
    for event in events:
        if event.kind not in _RECORDED:
            raise InvalidValue("kind", f"{event.kind.value!r} is not recorded by callers")
        check_ids(id=event.id, question_id=event.question_id, run_id=event.run_id)
        check_optional_text("id", event.id)
        check_optional_text("question_id", event.question_id)
        check_optional_text("run_id", event.run_id)
        check_optional_text("by", event.by)
        check_size("by", event.by, LONGEST_PERSON_BYTES)
        if event.details is not None:
            check_object("details", event.details)
        if event.origin is not None:
            for name, said in facts_of(event.origin).items():
                check_optional_text(f"origin.{name}", said)


def check_deliveries(channel: str, deliveries: Sequence[NewDelivery]) -> None:
    """Raise InvalidValue for a channel or deliveries that not every store can keep."""
    check_optional_text("channel", channel)
    check_size("channel", channel, LONGEST_NAMESPACE_BYTES)
    for new in deliveries:
        check_ids(id=new.id, event_id=new.event_id, question_id=new.question_id, run_id=new.run_id)
        _check_people("recipient", (new.recipient,))
        for field in ("id", "recipient", "event_id", "question_id", "run_id"):
            check_optional_text(field, getattr(new, field))


def check_report(report: Report) -> None:
    """Raise InvalidValue for a report without an end or a time of the next attempt, or that cannot be kept."""
    check_optional_text("error", report.error)
    if report.state is DeliveryState.PENDING and (report.due_at is None or not math.isfinite(report.due_at)):
        raise InvalidValue("due_at", "a pending delivery needs the time of its next attempt")


def check_worker(worker: WorkerInfo) -> None:
    """Raise InvalidValue for a worker that not every store can keep."""
    for field in ("id", "host", "group"):
        check_optional_text(field, getattr(worker, field))
        check_size(field, getattr(worker, field))
    for field in ("signoff_version", "python_version", "build"):
        text: str | None = getattr(worker, field)
        check_optional_text(field, text)
        if text is not None and not 0 < len(text) <= LONGEST_BUILD:
            raise InvalidValue(field, f"{text[:60]!r} is not 1 to {LONGEST_BUILD} characters long")


def check_workflows(workflows: Sequence[WorkflowInfo]) -> None:
    """Raise InvalidValue for workflows that not every store can keep, or that are given twice."""
    for each in workflows:
        for field in ("group", "name", "version"):
            text: str = getattr(each, field)
            check_optional_text(field, text)
            if not 0 < len(text.encode()) <= LONGEST_NAME:
                raise InvalidValue(field, f"{text[:60]!r} is not 1 to {LONGEST_NAME} bytes long")
        check_optional_text("description", each.description)
        if len(each.description or "") > _ENCRYPTED * LONGEST_DESCRIPTION:
            raise InvalidValue("description", f"it is longer than {LONGEST_DESCRIPTION} characters")
        if each.parameters is not None:
            check_object("parameters", each.parameters)
            if len(each.parameters.encode()) > _ENCRYPTED * LONGEST_SCHEMA:
                raise InvalidValue("parameters", f"it is longer than {LONGEST_SCHEMA} bytes")
    if len({(each.group, each.name, each.version) for each in workflows}) < len(workflows):
        raise InvalidValue("workflows", "one of them is listed twice")


def check_live(pieces: Sequence[LiveText]) -> None:
    """Raise InvalidValue for live text that not every store can keep."""
    for piece in pieces:
        for field in ("run_id", "name", "kind", "text"):
            check_optional_text(field, getattr(piece, field))


def check_token(new: NewToken) -> None:
    """Raise InvalidValue for a token that not every store can keep, or whose hash is not valid."""
    for field in ("id", "subject", "question_id", "label", "created_by"):
        check_optional_text(field, getattr(new, field))
    check_optional_text("kind", new.kind.value)
    check_ids(id=new.id, question_id=new.question_id)
    check_size("subject", new.subject, LONGEST_PERSON_BYTES)
    check_size("created_by", new.created_by, LONGEST_PERSON_BYTES)
    check_size("kind", new.kind.value, LONGEST_KIND)
    check_hash("hash", new.hash)
    if new.expires_at is not None and not math.isfinite(new.expires_at):
        raise InvalidValue("expires_at", f"{new.expires_at} is not a finite time; None means never")
    if new.data is not None:
        check_object("data", new.data)


def check_hash(field: str, hash: str) -> None:
    """Raise InvalidValue unless a text is the hash of a secret."""
    if re.fullmatch("[0-9a-f]{64}", hash) is None:
        raise InvalidValue(field, "it is not a SHA-256 in hex")  # do not quote it: it may be the secret


def check_object(field: str, text: str) -> None:
    """Raise InvalidValue for text that is not the JSON of an object, or is too large or too deep."""
    check_optional_text(field, text)
    size = len(text.encode())
    if size > MAX_DETAILS:
        raise InvalidValue(field, f"{size} bytes are more than {MAX_DETAILS}")
    try:
        value: object = json.loads(text, parse_int=_int)
        if not isinstance(value, dict):
            raise ValueError("it is not an object")
        if _is_deep(cast("dict[str, object]", value)):
            raise ValueError(f"it is nested more than {MAX_DEPTH} deep")
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidValue(field, f"it is not the JSON of an object: {error}") from None


def _int(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_DIGITS:
        raise ValueError(f"it has a number of more than {MAX_DIGITS} digits")
    return int(digits)


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [item for each in level for item in _items(each) if isinstance(item, dict | list)]
    return bool(level)


def _items(value: object) -> Iterable[object]:
    return (
        cast("dict[str, object]", value).values() if isinstance(value, dict) else cast("list[object]", value)
    )


def check_arguments(arguments: Mapping[str, Any]) -> None:
    """Raise InvalidValue for arguments of an operation that their names or types alone show to be invalid."""
    check_request(arguments.get("request_id"), arguments.get("token"))
    check_names(**{name: arguments.get(name) for name in ("worker_id", "pid", "address")})
    if (thread_id := arguments.get("thread_id")) is not None:
        checkpoints.check_thread(thread_id)
    check_limits(arguments.get("max_running"), arguments.get("starts_per"))
    if "deliveries" in arguments:
        check_deliveries(arguments["channel"], arguments["deliveries"])
    for value in arguments.values():
        kind: type[Any] = value.__class__
        if kind in (list, tuple) and value:
            kind_of_items: type[Any] = value[0].__class__
            if (check_all := _CHECKS_OF_ALL.get(kind_of_items)) is not None:
                check_all(value)
        elif (check := _CHECKS.get(kind)) is not None:
            check(value)


_CHECKS_OF_ALL: Final[Mapping[type[Any], Callable[[Any], None]]] = {
    NewAuditEvent: check_events,
    WorkflowInfo: check_workflows,
    LiveText: check_live,
    TaskRef: check_refs,
    CheckpointWrite: checkpoints.check_writes,
    CheckpointRef: checkpoints.check_refs,
}
"""The check of a sequence, by the type of its items."""

_CHECKS: Final[Mapping[type[Any], Callable[[Any], None]]] = {
    Settlement: lambda settlement: check_request(settlement.request_id),
    Amendment: check_amendment,
    NewAuditEvent: lambda event: check_events([event]),
    NewRule: check_rule,
    NewSchedule: check_schedule,
    NewPromiseSchedule: check_promise_schedule,
    NewToken: check_token,
    NewInvocation: check_invocation,
    Report: check_report,
    TaskLease: check_lease,
    TaskRef: lambda ref: check_refs([ref]),
    Saved: check_saved,
    NewCheckpoint: checkpoints.check_checkpoint,
    CheckpointRef: checkpoints.check_ref,
    WorkerInfo: check_worker,
    **dict.fromkeys(
        (
            AuditFilter,
            CheckpointFilter,
            DeliveryFilter,
            PromiseFilter,
            RuleFilter,
            TokenFilter,
            WorkflowFilter,
        ),
        lambda which: which.check(),
    ),
}
"""The check of an argument, by its type."""
