"""Requests of operators to a Postgres store: retry, suspend, resume and terminate runs."""

from __future__ import annotations

import json
from typing import Any

from signoff.codec import encode_error
from signoff.errors import InvalidState, LeaseLost, NotFound, RunCancelled, RunTerminated
from signoff.records import NewAuditEvent, Run, RunState
from signoff.records.names import check_optional_text
from signoff.stores.contract import retries
from signoff.stores.postgres.rows import from_event, run_of
from signoff.stores.postgres.write_requests import JsonRequest, Reply, Request, new_token, note_woken
from signoff.stores.shared.equality import OTHER_ACTIVE
from signoff.stores.shared.touched_runs import TouchedRuns


def retry(
    namespace: str,
    run_id: str,
    how: retries.Retry | None,
    event: NewAuditEvent | None,
    token: str | None,
) -> Request[Run]:
    """Make a failed run ready, or resume a suspended one."""

    def read(reply: Reply, touched: TouchedRuns) -> Run:
        if not reply:
            raise NotFound("run", run_id)
        run = run_of(reply["run"])
        if not reply.get("done"):
            raise InvalidState(run_id, run.state.value, "retry", OTHER_ACTIVE if "busy" in reply else "")
        _note(reply, namespace, run, touched)
        return run

    body = {
        "op": "retry",
        "run_id": run_id,
        "token": token or new_token(),
        "kept": retries.details_of(token, None),
        "dropped": None if how is None else retries.details_of(token, how),
        "open": () if how is None else how.open,
        "epoch": None if how is None else how.epoch,
        "event": None if event is None else from_event(event),
    }
    return JsonRequest(namespace, body, read)


def suspend(
    namespace: str, run_id: str, event: NewAuditEvent, reason: str | None, epoch: int | None
) -> Request[Run]:
    """Suspend a run until an operator resumes it."""
    check_optional_text("reason", reason)

    def read(reply: Reply, touched: TouchedRuns) -> Run:
        if "lost" in reply and epoch is not None:
            raise LeaseLost(run_id, epoch)
        return _read(reply, namespace, run_id, "suspend", touched)

    return _request(namespace, "suspend", run_id, event, read, reason=reason, epoch=epoch)


def resume(namespace: str, run_id: str, event: NewAuditEvent) -> Request[Run]:
    """Resume a suspended run."""

    def read(reply: Reply, touched: TouchedRuns) -> Run:
        return _read(reply, namespace, run_id, "resume", touched)

    return _request(namespace, "resume", run_id, event, read)


def terminate(namespace: str, run_id: str, event: NewAuditEvent, reason: str | None) -> Request[Run]:
    """End a run without running its code again."""

    def read(reply: Reply, touched: TouchedRuns) -> Run:
        run = _read(reply, namespace, run_id, "terminate", touched)
        for ended_id in (run_id, *reply.get("was_ended", ())):
            touched.touch_ended(namespace, ended_id)
        return run

    return _request(
        namespace,
        "terminate",
        run_id,
        event,
        read,
        error=encode_error(RunTerminated(run_id, reason)),
        child_error=encode_error(RunCancelled("<run>", None)),
        details=json.dumps({"by": event.by, "reason": reason}, separators=(",", ":"), ensure_ascii=False),
    )


def _request(
    namespace: str, op: str, run_id: str, event: NewAuditEvent, read: Any, **more: Any
) -> Request[Run]:
    return JsonRequest(namespace, {"op": op, "run_id": run_id, "event": from_event(event), **more}, read)


def _read(reply: Reply, namespace: str, run_id: str, operation: str, touched: TouchedRuns) -> Run:
    if not reply:
        raise NotFound("run", run_id)
    run = run_of(reply["run"])
    if not reply.get("done"):
        raise InvalidState(run_id, run.state.value, operation)
    _note(reply, namespace, run, touched)
    return run


def _note(reply: Reply, namespace: str, run: Run, touched: TouchedRuns) -> None:
    due = run.wake_at is not None or run.deadline_at is not None
    touched.touch(namespace, run.id, ready=run.state is RunState.READY, due=due)
    note_woken(reply, namespace, touched)
