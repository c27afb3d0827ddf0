"""Every transition of a run's state in SQLite; nothing else writes ``runs.state``.

The table of transitions is in ``stores/base.py``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from signoff.records import NewRun, Run, RunState
from signoff.stores.sqlite_rows import RUN_COLUMNS, to_run
from signoff.stores.sqlite_transaction import Transaction

# -> ready
CREATE = f"""
INSERT INTO runs (namespace, id, workflow, group_name, state, created_at, ready_at, parent_id, parent_n,
    deadline_at, arguments, create_token)
VALUES (?, ?, ?, ?, 'ready', ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (namespace, id) DO NOTHING
RETURNING {RUN_COLUMNS}
"""

# ready -> running
CLAIM = f"""
UPDATE runs
SET state = 'running', epoch = epoch + 1, worker_id = ?, lease_until = ?, claim_token = ?
WHERE number IN ({{candidates}})
RETURNING {RUN_COLUMNS}, ready_at, number
"""

# One branch for each workflow: SQLite merges them, each in the order of its index.
CANDIDATES = """
SELECT number, ready_at FROM runs INDEXED BY runs_ready
WHERE namespace = ? AND group_name = ? AND workflow = ? AND state = 'ready'
"""

OLDEST_READY = "SELECT number FROM ({branches} ORDER BY ready_at, number LIMIT ?)"

WORKFLOWS_AT_ONCE = 200  # SQLite merges up to 500 branches in one statement

ANY_READY = """
SELECT 1 FROM runs INDEXED BY runs_ready
WHERE namespace = ? AND group_name = ? AND state = 'ready'
    AND workflow IN (SELECT value FROM json_each(?))
LIMIT 1
"""

CLAIMED = f"""
SELECT {RUN_COLUMNS}, ready_at, number FROM runs INDEXED BY runs_claims
WHERE claim_token = ? AND state = 'running' AND namespace = ? AND worker_id = ?
"""

ANY_CLAIMED = "SELECT 1 FROM runs INDEXED BY runs_claims WHERE claim_token = ? AND state = 'running'"

IS_RUNNING = "SELECT 1 FROM runs WHERE namespace = ? AND id = ? AND state = 'running'"

# running -> paused, unless something came since `wakes` was read
PAUSE = """
UPDATE runs
SET state = 'paused', wake_at = ?, worker_id = NULL, lease_until = NULL
WHERE namespace = ? AND id = ? AND epoch = ? AND state = 'running' AND wakes = ?
"""

# paused -> ready, when something came. A run that failed retryably is kept whole: it goes on collecting.
WAKE = """
UPDATE runs
SET wakes = wakes + 1,
    state = CASE state WHEN 'paused' THEN 'ready' ELSE state END,
    ready_at = CASE state WHEN 'paused' THEN ? ELSE ready_at END,
    wake_at = NULL
WHERE namespace = ? AND id = ? AND (ended_at IS NULL OR retryable)
RETURNING wakes, state
"""

# paused -> ready, when its timer is due
WAKE_TIMERS = """
UPDATE runs
SET state = 'ready', ready_at = :now, wake_at = NULL
WHERE number IN (
    SELECT number FROM runs INDEXED BY runs_timers
    WHERE state = 'paused' AND wake_at IS NOT NULL AND wake_at <= :now
    ORDER BY wake_at LIMIT :limit
)
RETURNING namespace, id
"""

# running -> ready, when the lease ran out
FREE_LOST = """
UPDATE runs
SET state = 'ready', ready_at = ?, worker_id = NULL, lease_until = NULL
WHERE number IN (
    SELECT number FROM runs INDEXED BY runs_leases
    WHERE state = 'running' AND lease_until <= ?
    ORDER BY lease_until LIMIT ?
)
RETURNING namespace, id
"""

# running -> ready, when the worker lets go
RELEASE = """
UPDATE runs INDEXED BY runs_held
SET state = 'ready', ready_at = ?, worker_id = NULL, lease_until = NULL
WHERE worker_id = ? AND state = 'running'
RETURNING namespace, id
"""

# running -> succeeded | failed | cancelled
END = """
UPDATE runs
SET state = ?, result = ?, error = ?, retryable = ?, ended_at = ?, worker_id = NULL, lease_until = NULL
WHERE namespace = ? AND id = ? AND epoch = ? AND state = 'running'
RETURNING parent_id, parent_n
"""

# ready, never started -> cancelled; failed, retryable -> cancelled: no code is left that could clean up
CANCEL_AT_ONCE = f"""
UPDATE runs
SET state = 'cancelled', retryable = 0, error = ?, ended_at = ?
WHERE namespace = ? AND id = ? AND (state = 'ready' AND epoch = 0 OR state = 'failed' AND retryable)
RETURNING {RUN_COLUMNS}
"""

# failed, retryable -> ready
RETRY = f"""
UPDATE runs
SET state = 'ready', ready_at = ?, retryable = 0, ended_at = NULL, error = NULL
WHERE namespace = ? AND id = ? AND state = 'failed' AND retryable
RETURNING {RUN_COLUMNS}
"""


def create(tx: Transaction, namespace: str, new: NewRun, token: str | None = None) -> Run | None:
    """Create a ready run; None if the id is taken."""
    row = tx.db.execute(
        CREATE,
        (
            namespace,
            new.id,
            new.workflow,
            new.group,
            tx.now,
            tx.now,
            new.parent_id,
            new.parent_n,
            new.deadline_at,
            new.arguments,
            token,
        ),
    ).fetchone()
    if row is None:
        return None
    tx.touch(namespace, new.id, ready=True, due=new.deadline_at is not None)
    return to_run(row)


def may_claim(
    db: sqlite3.Connection, namespace: str, group: str, workflows_json: str, token: str | None
) -> bool:
    """Whether ``claim`` would find a run."""
    if db.execute(ANY_READY, (namespace, group, workflows_json)).fetchone() is not None:
        return True
    return token is not None and db.execute(ANY_CLAIMED, (token,)).fetchone() is not None


def claim(
    tx: Transaction,
    namespace: str,
    worker_id: str,
    group: str,
    workflows: Sequence[str],
    lease_until: float,
    limit: int,
    token: str | None,
) -> list[Run]:
    """Lease ready runs to a worker, oldest ready first."""
    claimed: list[Run] = []
    for start in range(0, len(workflows), WORKFLOWS_AT_ONCE):
        some = workflows[start : start + WORKFLOWS_AT_ONCE]
        values: list[Any] = [worker_id, lease_until, token]
        for workflow in some:
            values += (namespace, group, workflow)
        rows = tx.db.execute(claim_statement(len(some)), [*values, limit - len(claimed)]).fetchall()
        rows.sort(key=lambda row: row[20:])
        claimed += [to_run(row) for row in rows]
    for run in claimed:
        tx.touch(namespace, run.id)
    return claimed


def claimed(tx: Transaction, namespace: str, worker_id: str, token: str) -> list[Run]:
    """Return the runs that a worker still holds under the leases of one call of ``claim``."""
    rows = tx.db.execute(CLAIMED, (token, namespace, worker_id)).fetchall()
    return [to_run(row) for row in sorted(rows, key=lambda row: row[20:])]


def is_running(tx: Transaction, namespace: str, run_id: str) -> bool:
    """Whether a run is leased."""
    return tx.db.execute(IS_RUNNING, (namespace, run_id)).fetchone() is not None


@lru_cache
def claim_statement(workflows: int) -> str:
    """Return the statement that claims runs of so many workflows."""
    candidates = OLDEST_READY.format(branches="UNION ALL".join([CANDIDATES] * workflows))
    return CLAIM.format(candidates=candidates)


def pause(
    tx: Transaction, namespace: str, run_id: str, epoch: int, wakes: int, wake_at: float | None
) -> bool:
    """Pause a run; False if something came meanwhile, or the lease is lost."""
    paused = tx.db.execute(PAUSE, (wake_at, namespace, run_id, epoch, wakes)).rowcount > 0
    if paused:
        tx.touch(namespace, run_id, due=wake_at is not None)
    return paused


def wake(tx: Transaction, namespace: str, run_id: str) -> int | None:
    """Count something that came for a run, and make it ready if it is paused.

    Returns:
        The run's ``wakes`` now; None if it has ended.
    """
    row = tx.db.execute(WAKE, (tx.now, namespace, run_id)).fetchone()
    if row is None:
        return None
    tx.touch_woken(namespace, run_id, ready=row[1] == RunState.READY)
    return row[0]


def wake_timers(tx: Transaction, limit: int) -> None:
    """Make paused runs ready whose time has come, in every namespace."""
    _made_ready(tx, tx.db.execute(WAKE_TIMERS, {"now": tx.now, "limit": limit}).fetchall())


def free_lost(tx: Transaction, limit: int) -> None:
    """Make running runs ready whose lease ran out, in every namespace."""
    _made_ready(tx, tx.db.execute(FREE_LOST, (tx.now, tx.lease_now, limit)).fetchall())


def release(tx: Transaction, worker_id: str) -> int:
    """Make the runs of a worker ready, in every namespace. Returns how many."""
    return _made_ready(tx, tx.db.execute(RELEASE, (tx.now, worker_id)).fetchall())


def end(
    tx: Transaction,
    namespace: str,
    run_id: str,
    epoch: int,
    state: RunState,
    result: str | None,
    error: str | None,
    *,
    retryable: bool,
) -> tuple[str | None, int | None] | None:
    """End a running run.

    Returns:
        Its parent and the parent's call; None if the lease is lost.
    """
    values = (state.value, result, error, retryable, tx.now, namespace, run_id, epoch)
    parent = tx.db.execute(END, values).fetchone()
    if parent is not None:
        tx.touch_ended(namespace, run_id)
    return parent


def cancel_at_once(tx: Transaction, namespace: str, run_id: str, error: str) -> Run | None:
    """End a run that never started, or that failed retryably; None for any other."""
    row = tx.db.execute(CANCEL_AT_ONCE, (error, tx.now, namespace, run_id)).fetchone()
    if row is None:
        return None
    tx.touch_ended(namespace, run_id)
    return to_run(row)


def retry(tx: Transaction, namespace: str, run_id: str) -> Run | None:
    """Make a run ready that failed retryably; None if it did not."""
    row = tx.db.execute(RETRY, (tx.now, namespace, run_id)).fetchone()
    if row is None:
        return None
    run = to_run(row)
    tx.touch(namespace, run_id, ready=True, due=run.deadline_at is not None)
    return run


def _made_ready(tx: Transaction, rows: Sequence[tuple[str, str]]) -> int:
    for namespace, run_id in rows:
        tx.touch(namespace, run_id, ready=True)
    return len(rows)
