"""Every transition of a run's state in SQLite; nothing else writes ``runs.state``.

The table of transitions is in ``stores/base.py``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from signoff.records import NewRun, Run, RunState
from signoff.stores import sqlite_groups as groups
from signoff.stores import sqlite_keys as keys
from signoff.stores import sqlite_sessions as sessions
from signoff.stores.limits import check_run
from signoff.stores.sqlite_keys import Slots
from signoff.stores.sqlite_rows import RUN_COLUMNS, RUN_WIDTH, from_run, to_run
from signoff.stores.sqlite_transaction import Transaction

# -> ready, or paused until it may start, or until its turn has come
CREATE = f"""
INSERT INTO runs (namespace, id, workflow, group_name, state, created_at, ready_at, wake_at, parent_id, parent_n,
    deadline_at, priority, start_at, concurrency_key, concurrency_limit, traceparent, started_by, session_id,
    position, arguments, create_token)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (namespace, id) DO NOTHING
RETURNING {RUN_COLUMNS}, number
"""

# -> as it was saved elsewhere
LOAD = f"""
INSERT INTO runs ({RUN_COLUMNS}, ready_at, cancel_asked, deadline_passed)
VALUES ({", ".join("?" * (RUN_WIDTH + 3))})
ON CONFLICT (namespace, id) DO NOTHING
RETURNING number
"""

# ready -> running
CLAIM = f"""
UPDATE runs
SET state = 'running', epoch = epoch + 1, worker_id = ?, lease_until = ?, claim_token = ?
WHERE number IN (SELECT value FROM json_each(?))
RETURNING {RUN_COLUMNS}, number
"""

IS_RUNNING = "SELECT 1 FROM runs WHERE namespace = ? AND id = ? AND state = 'running'"

# running -> paused, unless something came since `wakes` was read
PAUSE = """
UPDATE runs
SET state = 'paused', wake_at = ?, worker_id = NULL, lease_until = NULL
WHERE namespace = ? AND id = ? AND epoch = ? AND state = 'running' AND wakes = ?
RETURNING group_name, workflow, concurrency_key
"""

# paused -> ready, when something came; but a delayed run (epoch 0) only collects what comes.
# A run that failed retryably is kept whole: it goes on collecting, too.
WAKE = """
UPDATE runs
SET wakes = wakes + 1,
    state = CASE WHEN state = 'paused' AND epoch > 0 THEN 'ready' ELSE state END,
    ready_at = CASE WHEN state = 'paused' AND epoch > 0 THEN ? ELSE ready_at END,
    wake_at = CASE WHEN epoch > 0 THEN NULL ELSE wake_at END
WHERE namespace = ? AND id = ? AND (ended_at IS NULL OR retryable)
RETURNING wakes, state, concurrency_key
"""

# paused -> ready, when its timer is due, or a delayed run may start
WAKE_TIMERS = """
UPDATE runs
SET state = 'ready', ready_at = :now, wake_at = NULL
WHERE number IN (
    SELECT number FROM runs INDEXED BY runs_timers
    WHERE state = 'paused' AND wake_at IS NOT NULL AND wake_at <= :now
    ORDER BY wake_at LIMIT :limit
)
RETURNING namespace, id, concurrency_key
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
RETURNING namespace, id, group_name, workflow, concurrency_key
"""

# running -> ready, when the worker lets go
RELEASE = """
UPDATE runs INDEXED BY runs_held
SET state = 'ready', ready_at = ?, worker_id = NULL, lease_until = NULL
WHERE worker_id = ? AND state = 'running'
RETURNING namespace, id, group_name, workflow, concurrency_key
"""

# running -> succeeded | failed | cancelled
END = """
UPDATE runs
SET state = ?, result = ?, error = ?, retryable = ?, ended_at = ?, worker_id = NULL, lease_until = NULL
WHERE namespace = ? AND id = ? AND epoch = ? AND state = 'running'
RETURNING parent_id, parent_n, session_id, group_name, workflow, concurrency_key
"""

# ready or paused, never started -> cancelled; failed, retryable -> cancelled: no code is left that could clean up
CANCEL_AT_ONCE = f"""
UPDATE runs
SET state = 'cancelled', retryable = 0, error = ?, ended_at = ?, wake_at = NULL, blocked = 0
WHERE namespace = ? AND id = ? AND (epoch = 0 AND ended_at IS NULL OR state = 'failed' AND retryable)
RETURNING {RUN_COLUMNS}
"""

# Where a run stands that has just become ready.
PLACE = """
SELECT group_name, workflow, concurrency_key, concurrency_limit, priority, ready_at, number FROM runs
WHERE namespace = ? AND id = ?
"""

# failed, retryable -> ready
RETRY = f"""
UPDATE runs
SET state = 'ready', ready_at = ?, retryable = 0, ended_at = NULL, error = NULL
WHERE namespace = ? AND id = ? AND state = 'failed' AND retryable
RETURNING {RUN_COLUMNS}
"""


# paused until its turn comes -> ready, or paused until it may start
TAKE_TURN = f"""
UPDATE runs
SET state = CASE WHEN start_at > :now THEN 'paused' ELSE 'ready' END, ready_at = :now,
    wake_at = CASE WHEN start_at > :now THEN start_at END
WHERE namespace = :namespace AND id = ({sessions.IS_BUSY}) AND state = 'paused' AND epoch = 0 AND wake_at IS NULL
RETURNING id, state, concurrency_key
"""


def create(tx: Transaction, namespace: str, new: NewRun, token: str | None = None) -> Run | None:
    """Create a run, ready, delayed or waiting for its turn; None if the id is taken."""
    check_run(new)
    waits, position = False, None
    if new.session_id is not None:
        waits = sessions.is_busy(tx, namespace, new.session_id)
        position = sessions.next_position(tx, namespace, new.session_id)
    delayed = not waits and new.start_at is not None and new.start_at > tx.now
    row = tx.db.execute(
        CREATE,
        (
            namespace,
            new.id,
            new.workflow,
            new.group,
            (RunState.PAUSED if waits or delayed else RunState.READY).value,
            tx.now,
            tx.now,
            new.start_at if delayed else None,
            new.parent_id,
            new.parent_n,
            new.deadline_at,
            new.priority,
            new.start_at,
            new.concurrency_key,
            new.concurrency_limit,
            new.traceparent,
            new.started_by,
            new.session_id,
            position,
            new.arguments,
            token,
        ),
    ).fetchone()
    if row is None:
        return None
    run = to_run(row)
    if new.session_id is not None and position is not None:
        sessions.note_run(tx, namespace, new.session_id, position, row[RUN_WIDTH])
    ready = run.state is RunState.READY and _line_up(tx, run, row[RUN_WIDTH])
    tx.touch(namespace, new.id, ready=ready, due=delayed or new.deadline_at is not None)
    return run


def load(tx: Transaction, namespace: str, run: Run, cancel_asked: bool, deadline_passed: bool) -> bool:
    """Create a run as it was saved elsewhere; False if the id is taken."""
    if run.session_id is not None:
        position = max(run.position or 0, sessions.next_position(tx, namespace, run.session_id))
        run = replace(run, position=position)
    values = from_run(replace(run, namespace=namespace))
    row = tx.db.execute(LOAD, (*values, tx.now, cancel_asked, deadline_passed)).fetchone()
    if row is None:
        return False
    if run.session_id is not None and run.position is not None:
        sessions.note_run(tx, namespace, run.session_id, run.position, row[0])
    ready = run.state is RunState.READY and _line_up(tx, replace(run, namespace=namespace), row[0])
    tx.touch(namespace, run.id, ready=ready, due=True)
    return True


def claim(
    tx: Transaction, worker_id: str, lease_until: float, numbers: Sequence[int], token: str | None
) -> list[Run]:
    """Lease ready runs, given by their numbers, to a worker. They are returned in the order given."""
    rows = tx.db.execute(CLAIM, (worker_id, lease_until, token, json.dumps(numbers))).fetchall()
    by_number = {row[RUN_WIDTH]: to_run(row) for row in rows}
    claimed = [by_number[number] for number in numbers]
    for run in claimed:
        tx.touch(run.namespace, run.id)
    return claimed


def is_running(tx: Transaction, namespace: str, run_id: str) -> bool:
    """Whether a run is leased."""
    return tx.db.execute(IS_RUNNING, (namespace, run_id)).fetchone() is not None


def pause(
    tx: Transaction, namespace: str, run_id: str, epoch: int, wakes: int, wake_at: float | None
) -> bool:
    """Pause a run; False if something came meanwhile, or the lease is lost."""
    row = tx.db.execute(PAUSE, (wake_at, namespace, run_id, epoch, wakes)).fetchone()
    if row is None:
        return False
    tx.touch(namespace, run_id, due=wake_at is not None)
    _slot_freed(tx, namespace, *row)
    return True


def wake(tx: Transaction, namespace: str, run_id: str) -> int | None:
    """Count something that came for a run, and make it ready if it is paused.

    Returns:
        The run's ``wakes`` now; None if it has ended.
    """
    row = tx.db.execute(WAKE, (tx.now, namespace, run_id)).fetchone()
    if row is None:
        return None
    wakes, state, key = row
    ready = state == RunState.READY
    if ready and key is not None:
        ready = _line_up_again(tx, namespace, run_id)
    tx.touch_woken(namespace, run_id, ready=ready)
    return wakes


def wake_timers(tx: Transaction, limit: int) -> None:
    """Make paused runs ready whose time has come, in every namespace."""
    for namespace, run_id, key in tx.db.execute(WAKE_TIMERS, {"now": tx.now, "limit": limit}).fetchall():
        ready = key is None or _line_up_again(tx, namespace, run_id)
        tx.touch(namespace, run_id, ready=ready)


def free_lost(tx: Transaction, limit: int) -> None:
    """Make running runs ready whose lease ran out, in every namespace."""
    _let_go(tx, tx.db.execute(FREE_LOST, (tx.now, tx.lease_now, limit)).fetchall())


def release(tx: Transaction, worker_id: str) -> int:
    """Make the runs of a worker ready, in every namespace. Returns how many."""
    return _let_go(tx, tx.db.execute(RELEASE, (tx.now, worker_id)).fetchall())


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
    row = tx.db.execute(END, values).fetchone()
    if row is None:
        return None
    parent_id, parent_n, session_id, *slot = row
    tx.touch_ended(namespace, run_id)
    _slot_freed(tx, namespace, *slot)
    if session_id is not None and not retryable:
        _pass_turn(tx, namespace, session_id)
    return parent_id, parent_n


def cancel_at_once(tx: Transaction, namespace: str, run_id: str, error: str) -> Run | None:
    """End a run that never started, or that failed retryably; None for any other."""
    row = tx.db.execute(CANCEL_AT_ONCE, (error, tx.now, namespace, run_id)).fetchone()
    if row is None:
        return None
    tx.touch_ended(namespace, run_id)
    run = to_run(row)
    if run.concurrency_key is not None:
        keys.slot_freed(tx, _slots(run))
    if run.session_id is not None:
        _pass_turn(tx, namespace, run.session_id)
    return run


def retry(tx: Transaction, namespace: str, run_id: str) -> Run | None:
    """Make a run ready that failed retryably; None if it did not."""
    row = tx.db.execute(RETRY, (tx.now, namespace, run_id)).fetchone()
    if row is None:
        return None
    run = to_run(row)
    tx.touch(namespace, run_id, ready=True, due=run.deadline_at is not None)
    return run


def _pass_turn(tx: Transaction, namespace: str, session_id: str) -> None:
    """Let the run go on whose turn it has become, if it waits for that."""
    values = {"namespace": namespace, "session_id": session_id, "now": tx.now}
    row = tx.db.execute(TAKE_TURN, values).fetchone()
    if row is None:
        return
    run_id, state, key = row
    ready = state == RunState.READY and (key is None or _line_up_again(tx, namespace, run_id))
    tx.touch(namespace, run_id, ready=ready, due=state == RunState.PAUSED)


def _let_go(tx: Transaction, rows: Sequence[tuple[str, str, str, str, str | None]]) -> int:
    for namespace, run_id, group, workflow, key in rows:
        tx.touch(namespace, run_id, ready=True)
        _slot_freed(tx, namespace, group, workflow, key)
    return len(rows)


def _slot_freed(tx: Transaction, namespace: str, group: str, workflow: str, key: str | None) -> None:
    groups.slot_freed(tx, namespace, group)
    if key is not None:
        keys.slot_freed(tx, Slots(namespace, group, workflow, key))


def _line_up(tx: Transaction, run: Run, number: int) -> bool:
    """Let a run that became ready take its place among those of its key. Returns whether it may be claimable."""
    if run.concurrency_key is None or run.concurrency_limit is None:
        return True
    return keys.line_up(tx, _slots(run), run.concurrency_limit, run.priority, tx.now, number)


def _line_up_again(tx: Transaction, namespace: str, run_id: str) -> bool:
    group, workflow, key, limit, *place = tx.db.execute(PLACE, (namespace, run_id)).fetchone()
    return keys.line_up(tx, Slots(namespace, group, workflow, key), limit, *place)


def _slots(run: Run) -> Slots:
    assert run.concurrency_key is not None
    return Slots(run.namespace, run.group, run.workflow, run.concurrency_key)
