"""Runs in SQLite: starting, ending, cancelling, retrying and listing them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from pydantic_core import to_json

from signoff.codec import encode_error
from signoff.errors import (
    CircularWait,
    IdConflict,
    InvalidState,
    LeaseLost,
    NotFound,
    RunCancelled,
    RunTerminated,
    RunTimeout,
    SignoffError,
)
from signoff.records import Entry, EntryKind, MessageKind, NewAuditEvent, NewRun, Run, RunState
from signoff.records.names import check_optional_text
from signoff.records.paging import LAST_NUMBER, Page, RunFilter, page_number
from signoff.stores.contract import retries
from signoff.stores.contract.leases import Outcome
from signoff.stores.contract.timers import GRACE_SECONDS
from signoff.stores.shared.equality import OTHER_ACTIVE, difference
from signoff.stores.shared.listed_payloads import Listing, read_page
from signoff.stores.shared.rows import RUN_COLUMNS
from signoff.stores.shared.wait_cycles import cycle_of
from signoff.stores.sqlite import audit, journal, live, messages, promises, sessions
from signoff.stores.sqlite import transitions as states
from signoff.stores.sqlite.deferred_changes import make_or_defer
from signoff.stores.sqlite.rows import READ_RUN_COLUMNS, has_large, run_column, run_size, to_run
from signoff.stores.sqlite.schema import row_unchanged
from signoff.stores.sqlite.transaction import Transaction

GET = f"SELECT {RUN_COLUMNS} FROM runs WHERE namespace = ? AND id = ?"

GET_LARGE = f"SELECT {READ_RUN_COLUMNS} FROM runs WHERE namespace = ? AND id = ?"

CREATED_BY = "SELECT 1 FROM runs WHERE namespace = ? AND id = ? AND create_token = ?"

RETRIED_BY = """
SELECT 1 FROM journal
WHERE namespace = ? AND run_id = ? AND kind = 'retried' AND json_extract(details, '$.token') = ?
"""

ASK_TO_CANCEL = """
UPDATE runs SET cancel_asked = 1
WHERE namespace = ? AND id = ? AND NOT cancel_asked AND ended_at IS NULL
"""

IS_NOT_ASKED = "SELECT 1 FROM runs WHERE namespace = ? AND id = ? AND NOT cancel_asked AND ended_at IS NULL"

PARENT = "SELECT parent_id FROM runs WHERE namespace = ? AND id = ?"

CHILDREN = """
SELECT number, id FROM runs INDEXED BY runs_by_parent
WHERE namespace = ? AND parent_id = ? AND parent_n IS NOT NULL AND (ended_at IS NULL OR retryable)
"""

WAITING_FOR = """
WITH waiting(id) AS (
    SELECT parent_id FROM runs
    WHERE namespace = :namespace AND id = :run_id AND parent_id IS NOT NULL AND parent_n IS NOT NULL
    UNION
    SELECT run_id FROM waiters WHERE namespace = :namespace AND target = 'run' AND target_id = :run_id
)
SELECT waiting.id FROM waiting CROSS JOIN runs ON runs.namespace = :namespace AND runs.id = waiting.id
WHERE runs.ended_at IS NULL OR runs.retryable
"""

IS_RECORDED = "SELECT 1 FROM audit WHERE namespace = ? AND id = ?"

OPEN_CHILD = f"""
SELECT {READ_RUN_COLUMNS} FROM runs INDEXED BY runs_by_parent
WHERE namespace = ? AND parent_id = ? AND parent_n = ? AND ended_at IS NOT NULL AND NOT retryable
"""

PASS_DEADLINES = """
UPDATE runs SET deadline_passed = 1
WHERE number IN (
    SELECT number FROM runs INDEXED BY runs_deadlines
    WHERE deadline_at IS NOT NULL AND deadline_passed = 0 AND ended_at IS NULL AND deadline_at <= ?
    ORDER BY deadline_at LIMIT ?
)
RETURNING namespace, id
"""

PASS_DEADLINE = "UPDATE runs SET deadline_passed = 1 WHERE namespace = ? AND id = ?"

UNCLAIMED = """
SELECT namespace, id FROM runs INDEXED BY runs_unclaimed
WHERE deadline_at IS NOT NULL AND deadline_passed = 1 AND state = 'ready' AND max(deadline_at, ready_at) <= ?
ORDER BY max(deadline_at, ready_at) LIMIT ?
"""

ENDED = """
SELECT id FROM runs INDEXED BY runs_by_id
WHERE namespace = ? AND id IN (SELECT value FROM json_each(?)) AND state IN ('succeeded', 'failed', 'cancelled')
"""

LISTING = Listing(Run, RUN_COLUMNS, run_size, run_column)

# One branch per requested state: SQLite merges them, each in the order of its index.
LIST_BRANCH = f"""
SELECT {LISTING.columns}, number FROM runs INDEXED BY {{index}}
WHERE namespace = :namespace AND state = '{{state}}' AND number < :before {{filters}}
"""

LIST_ORDER = "ORDER BY number DESC LIMIT :limit"


def create_run(tx: Transaction, namespace: str, new: NewRun, token: str | None) -> tuple[Run, bool]:
    """Create a run, or return the existing one."""
    created = states.create(tx, namespace, new, token)
    if created is not None:
        return created, True
    run = get_run(tx.db, namespace, new.id)
    differs = difference(run, new)
    if differs is not None:
        raise IdConflict(new.id, differs)
    is_repeated = token is not None and tx.db.execute(CREATED_BY, (namespace, new.id, token)).fetchone()
    return run, bool(is_repeated)


def start_child(tx: Transaction, namespace: str, parent_id: str, new: NewRun) -> None:
    """Create a child run, or let the parent join the run with the same id."""
    if states.create(tx, namespace, new) is not None:
        return
    run = get_run(tx.db, namespace, new.id)
    n = new.parent_n
    if n is None or (run.parent_id == parent_id and run.parent_n == n):
        return
    differs = difference(run, new)
    if differs is not None:
        _refuse(tx, namespace, parent_id, n, new.id, IdConflict(new.id, differs))
        return
    has_ended = run.state.is_final and not run.retryable
    if not has_ended:
        cycle = cycle_of(parent_id, run.id, lambda id: _waiting_for(tx, namespace, id))
        if cycle is not None:
            _refuse(tx, namespace, parent_id, n, new.id, CircularWait(cycle))
            return
    joined = messages.join(tx, namespace, "run", run.id, parent_id, n)
    if joined and has_ended:
        _notify(tx, namespace, parent_id, n, run.id, Outcome(run.state, run.result, run.error))


def cancel_child(tx: Transaction, namespace: str, parent_id: str, run_id: str) -> None:
    """Cancel a child run, or let the parent leave a run that it had joined."""
    row = tx.db.execute(PARENT, (namespace, run_id)).fetchone()
    if row is None:
        return
    if row[0] == parent_id:
        _cancel_or_defer(tx, namespace, run_id, parent_id)
    else:
        messages.unjoin(tx, namespace, "run", run_id, parent_id)


def finish(
    tx: Transaction, namespace: str, run_id: str, outcome: Outcome, parent: tuple[str | None, int | None]
) -> None:
    """Clean up after a run's end, and notify its parent and the runs that wait for it."""
    messages.drop_all(tx, namespace, run_id)
    promises.close_all(tx, namespace, run_id)
    parent_id, parent_n = parent
    if parent_id is not None and parent_n is not None:
        _notify(tx, namespace, parent_id, parent_n, run_id, outcome)
    for waiter, n in messages.waiters(tx, namespace, "run", run_id):
        _notify(tx, namespace, waiter, n, run_id, outcome, leave=messages.leave_or_defer)


def cancel(tx: Transaction, namespace: str, run_id: str, reason: str | None, by: str | None) -> Run:
    """Request a run's cancellation. A run that never started or failed retryably ends at once."""
    error = encode_error(RunCancelled(run_id, reason))
    run = states.cancel_at_once(tx, namespace, run_id, error)
    if run is not None:
        _close(tx, namespace, run, EntryKind.CANCELLED)
        return run
    if tx.db.execute(ASK_TO_CANCEL, (namespace, run_id)).rowcount > 0:
        messages.leave(tx, namespace, run_id, MessageKind.CANCEL, by=by, note=reason)
    elif tx.db.execute(IS_NOT_ASKED, (namespace, run_id)).fetchone() is not None:
        raise row_unchanged()
    return get_run(tx.db, namespace, run_id)


def retry(
    tx: Transaction,
    namespace: str,
    run_id: str,
    how: retries.Retry | None,
    event: NewAuditEvent | None,
    token: str | None,
) -> Run:
    """Make a failed run ready, or resume a suspended one."""
    if token is not None and tx.db.execute(RETRIED_BY, (namespace, run_id, token)).fetchone():
        return get_run(tx.db, namespace, run_id)
    run = get_run(tx.db, namespace, run_id)
    if event is not None and _is_recorded(tx, namespace, event):
        return run
    if run.is_suspended:
        return _recorded(tx, namespace, _resume(tx, namespace, run_id), event)
    if not retries.may_retry(run, how):
        raise InvalidState(run_id, run.state.value, "retry")
    if run.retryable:
        how = None
    elif run.session_id is not None and sessions.is_busy(tx, namespace, run.session_id):
        raise InvalidState(run_id, run.state.value, "retry", OTHER_ACTIVE)
    retried = states.retry(tx, namespace, run_id)
    entry = Entry(
        journal.next_seq(tx, namespace, run_id),
        tx.now,
        EntryKind.RETRIED,
        details=retries.details_of(token, how),
    )
    journal.add(tx, namespace, run_id, [entry])
    for n in () if how is None else how.open:
        promises.notify_again(tx, namespace, run_id, n)
        for row in tx.db.execute(OPEN_CHILD, (namespace, run_id, n)).fetchall():
            child = to_run(row)
            _notify(tx, namespace, run_id, n, child.id, Outcome(child.state, child.result, child.error))
    if how is not None:
        retried = get_run(tx.db, namespace, run_id)  # each notified call has woken it
    return _recorded(tx, namespace, retried, event)


def suspend(
    tx: Transaction,
    namespace: str,
    run_id: str,
    event: NewAuditEvent,
    reason: str | None,
    epoch: int | None,
) -> Run:
    """Suspend a run until an operator resumes it."""
    check_optional_text("reason", reason)
    before = get_run(tx.db, namespace, run_id)
    if epoch is not None and (before.epoch, before.state) != (epoch, RunState.RUNNING):
        if before.epoch == epoch and before.is_suspended:
            return before
        raise LeaseLost(run_id, epoch)
    if before.ended_at is not None:
        raise InvalidState(run_id, before.state.value, "suspend")
    run = states.suspend(tx, namespace, run_id, event.by, reason)
    if run is None:
        return before
    if epoch is not None:
        states.pause(tx, namespace, run_id, epoch, run.wakes, None)
    elif run.state is RunState.RUNNING:
        messages.leave(tx, namespace, run_id, MessageKind.SUSPEND, by=event.by, note=reason)
    return _recorded(tx, namespace, get_run(tx.db, namespace, run_id), event)


def resume(tx: Transaction, namespace: str, run_id: str, event: NewAuditEvent) -> Run:
    """Resume a suspended run."""
    before = get_run(tx.db, namespace, run_id)
    if before.ended_at is not None:
        raise InvalidState(run_id, before.state.value, "resume")
    run = _resume(tx, namespace, run_id)
    return before if run is None else _recorded(tx, namespace, run, event)


def terminate(tx: Transaction, namespace: str, run_id: str, event: NewAuditEvent, reason: str | None) -> Run:
    """End a run without running its code again."""
    error = encode_error(RunTerminated(run_id, reason))
    run = states.terminate(tx, namespace, run_id, error)
    if run is None:
        run = get_run(tx.db, namespace, run_id)
        if not _is_recorded(tx, namespace, event):
            raise InvalidState(run_id, run.state.value, "terminate")
        return run
    _close(tx, namespace, run, EntryKind.CANCELLED, to_json({"by": event.by, "reason": reason}).decode())
    _clean_up(tx, namespace, run_id)
    return _recorded(tx, namespace, run, event)


def _clean_up(tx: Transaction, namespace: str, run_id: str) -> None:
    """Clean up after a run that ended without running its code: drop its live text and joins, cancel its children."""
    live.delete(tx, namespace, run_id)
    messages.unjoin_all(tx, namespace, run_id)
    for _, child_id in sorted(tx.db.execute(CHILDREN, (namespace, run_id)).fetchall()):
        _cancel_or_defer(tx, namespace, child_id, run_id)


def _cancel_or_defer(tx: Transaction, namespace: str, run_id: str, parent_id: str) -> None:
    by = f"run:{parent_id}"
    make_or_defer(
        tx, "cancel", namespace, run_id, lambda: cancel(tx, namespace, run_id, None, by), details={"by": by}
    )


def _resume(tx: Transaction, namespace: str, run_id: str) -> Run | None:
    messages.drop(tx, namespace, run_id, MessageKind.SUSPEND)
    return states.resume(tx, namespace, run_id)


def _is_recorded(tx: Transaction, namespace: str, event: NewAuditEvent) -> bool:
    """Whether this call was done before."""
    return tx.db.execute(IS_RECORDED, (namespace, event.id)).fetchone() is not None


def _close(tx: Transaction, namespace: str, run: Run, kind: EntryKind, details: str | None = None) -> None:
    """Apply the effects of the end of a run whose code did not run."""
    entry = Entry(journal.next_seq(tx, namespace, run.id), tx.now, kind, error=run.error, details=details)
    journal.add(tx, namespace, run.id, [entry])
    outcome = Outcome(run.state, error=run.error)
    finish(tx, namespace, run.id, outcome, (run.parent_id, run.parent_n))


def _recorded(tx: Transaction, namespace: str, run: Run | None, event: NewAuditEvent | None) -> Run:
    assert run is not None
    if event is not None:
        audit.record(tx, namespace, [event])
    return run


def pass_deadlines(tx: Transaction, limit: int) -> int:
    """Notify runs of their passed deadline, in all namespaces. End those that never started.

    Returns:
        The number of runs notified or ended.
    """
    rows = tx.db.execute(PASS_DEADLINES, (tx.now, limit)).fetchall()
    for namespace, run_id in rows:
        _deadline_passed(tx, namespace, run_id)
    return len(rows)


def pass_deadline(tx: Transaction, namespace: str, run_id: str) -> None:
    """Notify one run that its deadline has passed, or end it."""
    tx.db.execute(PASS_DEADLINE, (namespace, run_id))
    _deadline_passed(tx, namespace, run_id)


def _deadline_passed(tx: Transaction, namespace: str, run_id: str) -> None:
    if not _expire(tx, namespace, run_id, is_new=True):
        states.wait_anew(tx, namespace, run_id, tx.now - GRACE_SECONDS / 2)
        messages.leave(tx, namespace, run_id, MessageKind.DEADLINE)


def end_unclaimed(tx: Transaction, limit: int) -> int:
    """End runs, in all namespaces, that no worker claimed in the grace period after their deadline.

    Returns:
        The number of runs ended.
    """
    rows = tx.db.execute(UNCLAIMED, (tx.now - GRACE_SECONDS, limit)).fetchall()
    for namespace, run_id in rows:
        end_unclaimed_run(tx, namespace, run_id)
    return len(rows)


def end_unclaimed_run(tx: Transaction, namespace: str, run_id: str) -> None:
    """End one run that no worker claimed in the grace period after its deadline."""
    _expire(tx, namespace, run_id, is_new=False)


def _expire(tx: Transaction, namespace: str, run_id: str, is_new: bool) -> bool:
    """End a run past its deadline; see ``transitions.expire``. Returns whether it has ended."""
    run = states.expire(tx, namespace, run_id, encode_error(RunTimeout(run_id)), is_new)
    if run is not None:
        _close(tx, namespace, run, EntryKind.FAILED)
        _clean_up(tx, namespace, run_id)
    return run is not None


def get_run(db: sqlite3.Connection, namespace: str, run_id: str) -> Run:
    """Return a run. Raises NotFound."""
    row = db.execute(GET, (namespace, run_id)).fetchone()
    if row is not None and has_large(row):
        row = db.execute(GET_LARGE, (namespace, run_id)).fetchone()
    if row is None:
        raise NotFound("run", run_id)
    return to_run(row)


def ended(db: sqlite3.Connection, namespace: str, run_ids: Sequence[str]) -> set[str]:
    """Return the ids of the given runs that have ended."""
    rows = db.execute(ENDED, (namespace, to_json(list(run_ids)).decode())).fetchall()
    return {row[0] for row in rows}


def list_runs(
    db: sqlite3.Connection, namespace: str, which: RunFilter, after: str | None, limit: int
) -> Page[Run]:
    """Return a page of runs, newest first."""
    states_asked = frozenset(RunState) if which.states is None else which.states
    if not states_asked:
        return Page()
    statement = list_statement(
        states_asked,
        workflow=which.workflow is not None,
        group=which.group is not None,
        parent=which.parent_id is not None,
        session=which.session_id is not None,
        suspended=which.suspended,
    )
    values: dict[str, Any] = {
        "namespace": namespace,
        "before": page_number(after, LAST_NUMBER),
        "limit": limit + 1,
        "workflow": which.workflow,
        "group": which.group,
        "parent_id": which.parent_id,
        "session_id": which.session_id,
    }
    rows, more = read_page(db.execute(statement, values), limit, LISTING.bytes_of)
    return LISTING.page(rows, more, to_run)


@lru_cache
def list_statement(
    asked: frozenset[RunState],
    *,
    workflow: bool,
    group: bool,
    parent: bool,
    session: bool,
    suspended: bool | None = None,
) -> str:
    """Return the statement that lists runs with these filters, from the most selective index."""
    filters = ""
    index = "runs_by_state"
    if group:
        filters += "AND group_name = :group "
        index = "runs_by_group"
    if workflow:
        filters += "AND workflow = :workflow "
        index = "runs_by_workflow"
    if parent:
        filters += "AND parent_id = :parent_id "
        index = "runs_by_parent"
    if session:
        filters += "AND session_id = :session_id "
        index = "runs_by_session"
    if suspended is not None:
        filters += f"AND suspended_at IS {'NOT ' if suspended else ''}NULL "
        index = "runs_suspended" if suspended else index
    branches = [LIST_BRANCH.format(index=index, state=state, filters=filters) for state in sorted(asked)]
    return "UNION ALL".join(branches) + LIST_ORDER


def _waiting_for(tx: Transaction, namespace: str, run_id: str) -> list[str]:
    """Return the unfinished runs that wait for a run."""
    return [row[0] for row in tx.db.execute(WAITING_FOR, {"namespace": namespace, "run_id": run_id})]


def _refuse(tx: Transaction, namespace: str, parent_id: str, n: int, run_id: str, why: SignoffError) -> None:
    """Leave an error as the outcome of the call that tried to start the child."""
    if messages.is_left(tx, namespace, parent_id, n, run_id):
        return
    _notify(tx, namespace, parent_id, n, run_id, Outcome(RunState.FAILED, error=encode_error(why)))


def _notify(
    tx: Transaction,
    namespace: str,
    waiter: str,
    n: int,
    run_id: str,
    outcome: Outcome,
    *,
    leave: Callable[..., None] = messages.leave,
) -> None:
    leave(
        tx,
        namespace,
        waiter,
        MessageKind.SETTLED,
        n=n,
        name=run_id,
        state=outcome.state.value,
        value=outcome.result,
        error=outcome.error,
    )
