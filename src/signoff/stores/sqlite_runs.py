"""Runs in SQLite: starting, ending, cancelling, retrying and listing them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pydantic_core import to_json

from signoff.codec import encode_error
from signoff.errors import IdConflict, InvalidState, NotFound, RunCancelled
from signoff.records import Entry, EntryKind, MessageKind, NewRun, Run, RunState
from signoff.stores import sqlite_journal as journal
from signoff.stores import sqlite_messages as messages
from signoff.stores import sqlite_promises as promises
from signoff.stores import sqlite_states as states
from signoff.stores.base import Outcome
from signoff.stores.paging import LAST_NUMBER, Page, RunFilter, page_number
from signoff.stores.same import difference
from signoff.stores.sqlite_rows import RUN_COLUMNS, RUN_WIDTH, to_run
from signoff.stores.sqlite_transaction import Transaction

GET = f"SELECT {RUN_COLUMNS} FROM runs WHERE namespace = ? AND id = ?"

CREATED_BY = "SELECT 1 FROM runs WHERE namespace = ? AND id = ? AND create_token = ?"

RETRIED_BY = """
SELECT 1 FROM journal
WHERE namespace = ? AND run_id = ? AND kind = 'retried' AND json_extract(details, '$.token') = ?
"""

ASK_TO_CANCEL = """
UPDATE runs SET cancel_asked = 1
WHERE namespace = ? AND id = ? AND NOT cancel_asked AND ended_at IS NULL
"""

PARENT = "SELECT parent_id FROM runs WHERE namespace = ? AND id = ?"

PASS_DEADLINES = """
UPDATE runs SET deadline_passed = 1
WHERE number IN (
    SELECT number FROM runs INDEXED BY runs_deadlines
    WHERE deadline_at IS NOT NULL AND deadline_passed = 0 AND ended_at IS NULL AND deadline_at <= ?
    ORDER BY deadline_at LIMIT ?
)
RETURNING namespace, id
"""

ENDED = """
SELECT id FROM runs INDEXED BY runs_by_id
WHERE namespace = ? AND id IN (SELECT value FROM json_each(?)) AND state IN ('succeeded', 'failed', 'cancelled')
"""

# One branch for each state asked for: SQLite merges them, each in the order of its index.
LIST_BRANCH = f"""
SELECT {RUN_COLUMNS}, number FROM runs INDEXED BY {{index}}
WHERE namespace = :namespace AND state = '{{state}}' AND number < :before {{filters}}
"""

LIST_ORDER = "ORDER BY number DESC LIMIT :limit"


def create_run(tx: Transaction, namespace: str, new: NewRun, token: str | None) -> tuple[Run, bool]:
    """Create a run, or find it."""
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
    """Create a child run, or let the parent join the run that has the id."""
    if states.create(tx, namespace, new) is not None:
        return
    run = get_run(tx.db, namespace, new.id)
    n = new.parent_n
    if n is None or (run.parent_id == parent_id and run.parent_n == n):
        return
    differs = difference(run, new)
    if differs is not None:
        _refuse(tx, namespace, parent_id, n, new.id, differs)
        return
    joined = messages.join(tx, namespace, "run", run.id, parent_id, n)
    if joined and run.state.is_final and not run.retryable:
        _tell(tx, namespace, parent_id, n, run.id, Outcome(run.state, run.result, run.error))


def cancel_child(tx: Transaction, namespace: str, parent_id: str, run_id: str) -> None:
    """Cancel a child run, or let the parent leave a run that it had joined."""
    row = tx.db.execute(PARENT, (namespace, run_id)).fetchone()
    if row is None:
        return
    if row[0] == parent_id:
        cancel(tx, namespace, run_id, None, f"run:{parent_id}")
    else:
        messages.unjoin(tx, namespace, "run", run_id, parent_id)


def finish(
    tx: Transaction, namespace: str, run_id: str, outcome: Outcome, parent: tuple[str | None, int | None]
) -> None:
    """Do what follows from a run's end: clear up after it, and tell whoever waits for it."""
    messages.drop_all(tx, namespace, run_id)
    promises.close_all(tx, namespace, run_id)
    parent_id, parent_n = parent
    if parent_id is not None and parent_n is not None:
        _tell(tx, namespace, parent_id, parent_n, run_id, outcome)
    for waiter, n in messages.waiters(tx, namespace, "run", run_id):
        _tell(tx, namespace, waiter, n, run_id, outcome)


def cancel(tx: Transaction, namespace: str, run_id: str, reason: str | None, by: str | None) -> Run:
    """Ask a run to stop; end it if it never started or failed retryably."""
    error = encode_error(RunCancelled(run_id, reason))
    run = states.cancel_at_once(tx, namespace, run_id, error)
    if run is not None:
        entry = Entry(journal.next_seq(tx, namespace, run_id), tx.now, EntryKind.CANCELLED, error=error)
        journal.add(tx, namespace, run_id, [entry])
        outcome = Outcome(RunState.CANCELLED, error=error)
        finish(tx, namespace, run_id, outcome, (run.parent_id, run.parent_n))
        return run
    if tx.db.execute(ASK_TO_CANCEL, (namespace, run_id)).rowcount > 0:
        messages.leave(tx, namespace, run_id, MessageKind.CANCEL, by=by, note=reason)
    return get_run(tx.db, namespace, run_id)


def retry(tx: Transaction, namespace: str, run_id: str, token: str | None) -> Run:
    """Make a run ready that failed retryably."""
    if token is not None and tx.db.execute(RETRIED_BY, (namespace, run_id, token)).fetchone():
        return get_run(tx.db, namespace, run_id)
    run = states.retry(tx, namespace, run_id)
    if run is None:
        raise InvalidState(run_id, get_run(tx.db, namespace, run_id).state.value, "retry")
    details = None if token is None else to_json({"token": token}).decode()
    entry = Entry(journal.next_seq(tx, namespace, run_id), tx.now, EntryKind.RETRIED, details=details)
    journal.add(tx, namespace, run_id, [entry])
    return run


def pass_deadlines(tx: Transaction, limit: int) -> None:
    """Tell runs that their deadline has passed, in every namespace."""
    rows = tx.db.execute(PASS_DEADLINES, (tx.now, limit)).fetchall()
    for namespace, run_id in rows:
        messages.leave(tx, namespace, run_id, MessageKind.DEADLINE)


def get_run(db: sqlite3.Connection, namespace: str, run_id: str) -> Run:
    """Raises NotFound."""
    row = db.execute(GET, (namespace, run_id)).fetchone()
    if row is None:
        raise NotFound("run", run_id)
    return to_run(row)


def ended(db: sqlite3.Connection, namespace: str, run_ids: Sequence[str]) -> set[str]:
    """Return those of these runs that have ended."""
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
    rows = db.execute(statement, values).fetchall()
    more = len(rows) > limit
    rows = rows[:limit]
    return Page(tuple(to_run(row) for row in rows), str(rows[-1][RUN_WIDTH]) if more and rows else None)


@lru_cache
def list_statement(
    asked: frozenset[RunState], *, workflow: bool, group: bool, parent: bool, session: bool
) -> str:
    """Return the statement that lists runs by these filters, from the index that narrows most."""
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
    branches = [LIST_BRANCH.format(index=index, state=state, filters=filters) for state in sorted(asked)]
    return "UNION ALL".join(branches) + LIST_ORDER


def _refuse(tx: Transaction, namespace: str, parent_id: str, n: int, run_id: str, differs: str) -> None:
    """Leave an IdConflict as the outcome of the call that wanted the child."""
    if messages.is_left(tx, namespace, parent_id, n, run_id):
        return
    error = encode_error(IdConflict(run_id, differs))
    _tell(tx, namespace, parent_id, n, run_id, Outcome(RunState.FAILED, error=error))


def _tell(tx: Transaction, namespace: str, waiter: str, n: int, run_id: str, outcome: Outcome) -> None:
    messages.leave(
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
