"""Every transition of a run's state in SQLite; nothing else writes ``runs.state``.

The table of transitions is in ``stores/contract/store.py``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from signoff.records import NewRun, Run, RunState
from signoff.stores.contract.validation import check_run
from signoff.stores.shared.failure_isolation import ROW_UNCHANGED, ItemFailed
from signoff.stores.shared.heartbeats import log_unreleased
from signoff.stores.shared.rows import RUN_COLUMNS, RUN_WIDTH
from signoff.stores.sqlite import concurrency_keys as keys
from signoff.stores.sqlite import groups, sessions
from signoff.stores.sqlite import large_values as large
from signoff.stores.sqlite.concurrency_keys import Slots
from signoff.stores.sqlite.deferred_changes import make_or_defer
from signoff.stores.sqlite.rows import READ_RUN_COLUMNS, from_run, has_large, to_run
from signoff.stores.sqlite.schema import row_unchanged
from signoff.stores.sqlite.transaction import Transaction

# -> ready, or paused until its start time or its turn
CREATE = f"""
INSERT INTO runs (namespace, id, workflow, group_name, state, created_at, ready_at, wake_at, parent_id, parent_n,
    deadline_at, priority, start_at, concurrency_key, concurrency_limit, traceparent, started_by, session_id,
    position, arguments, create_token)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (namespace, id) DO NOTHING
RETURNING {RUN_COLUMNS}, number
"""

# -> the state in a snapshot
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

READ_LARGE = f"SELECT {READ_RUN_COLUMNS} FROM runs WHERE number = ?"

IS_RUNNING = "SELECT 1 FROM runs WHERE namespace = ? AND id = ? AND state = 'running'"

LENGTH = """
(SELECT coalesce(max(seq) + 1, 0) FROM journal WHERE journal.namespace = runs.namespace AND run_id = runs.id)
"""

# Progress resets a run's takeovers.
CLEARED = f"""
takeovers = CASE WHEN takeovers > 0 AND {LENGTH} > takeover_seq THEN 0 ELSE takeovers END
"""

# running -> paused, unless a message came since `wakes` was read
PAUSE = f"""
UPDATE runs
SET state = 'paused', wake_at = CASE WHEN suspended_at IS NULL THEN ? END, worker_id = NULL, lease_until = NULL,
    {CLEARED}
WHERE namespace = ? AND id = ? AND epoch = ? AND state = 'running' AND (wakes = ? OR suspended_at IS NOT NULL)
RETURNING group_name, workflow, concurrency_key
"""

# paused -> ready, when a message comes. Delayed runs (epoch 0) and suspended ones only collect messages; so does a run
# that failed retryably.
WAKE = """
UPDATE runs
SET wakes = wakes + 1,
    state = CASE WHEN state = 'paused' AND epoch > 0 AND suspended_at IS NULL THEN 'ready' ELSE state END,
    ready_at = CASE WHEN state = 'paused' AND epoch > 0 AND suspended_at IS NULL THEN ? ELSE ready_at END,
    wake_at = CASE WHEN epoch > 0 THEN NULL ELSE wake_at END
WHERE namespace = ? AND id = ? AND (ended_at IS NULL OR retryable)
RETURNING wakes, state, concurrency_key
"""

HAS_NOT_ENDED = "SELECT 1 FROM runs WHERE namespace = ? AND id = ? AND (ended_at IS NULL OR retryable)"

# paused -> ready, when its timer or the start of a delayed run is due
WAKE_THESE = """
UPDATE runs
SET state = 'ready', ready_at = :now, wake_at = NULL
WHERE number IN ({these})
RETURNING namespace, id, concurrency_key
"""

WAKE_TIMERS = WAKE_THESE.format(
    these="""
    SELECT number FROM runs INDEXED BY runs_timers
    WHERE state = 'paused' AND wake_at IS NOT NULL AND wake_at <= :now
    ORDER BY wake_at LIMIT :limit
"""
)

WAKE_TIMER = WAKE_THESE.format(these=":number")

# A suspended run is not ready when its worker is gone.
LET_GO = """
state = CASE WHEN suspended_at IS NULL THEN 'ready' ELSE 'paused' END, ready_at = ?, worker_id = NULL,
    lease_until = NULL
"""

TAKEN_OVER = f"""
takeovers = CASE WHEN {LENGTH} > takeover_seq THEN 1 ELSE takeovers + 1 END, takeover_seq = {LENGTH}
"""

# running -> ready, when the lease has expired
FREE_THESE = f"""
UPDATE runs
SET {LET_GO}, {TAKEN_OVER}
WHERE number IN ({{these}})
RETURNING namespace, id, group_name, workflow, concurrency_key
"""

FREE_LOST = FREE_THESE.format(
    these="""
    SELECT number FROM runs INDEXED BY runs_leases
    WHERE state = 'running' AND lease_until <= ?
    ORDER BY lease_until LIMIT ?
"""
)

FREE = FREE_THESE.format(these="?")

# running -> ready, when the worker releases it
RELEASE = f"""
UPDATE runs INDEXED BY runs_held
SET {LET_GO}, {CLEARED}
WHERE worker_id = ? AND state = 'running'
RETURNING namespace, id, group_name, workflow, concurrency_key
"""

# running -> ready, when the worker's process is dead
RELEASE_DEAD = RELEASE.replace(CLEARED, TAKEN_OVER)

# The same for one run.
RELEASE_ONE = FREE.replace(TAKEN_OVER, CLEARED)

HELD = """
SELECT number, namespace, CAST(id AS BLOB) FROM runs INDEXED BY runs_held WHERE worker_id = ? AND state = 'running'
"""

# running -> succeeded | failed | cancelled
END = """
UPDATE runs
SET state = ?, result = ?, error = ?, retryable = ?, ended_at = ?, worker_id = NULL, lease_until = NULL,
    suspended_at = NULL, suspended_by = NULL, suspended_reason = NULL
WHERE namespace = ? AND id = ? AND epoch = ? AND state = 'running'
RETURNING parent_id, parent_n, session_id, group_name, workflow, concurrency_key
"""

# ready or paused, never started -> cancelled; failed, retryable -> cancelled: no running code could clean up
CANCEL_AT_ONCE = f"""
UPDATE runs
SET state = 'cancelled', retryable = 0, error = ?, ended_at = ?, wake_at = NULL, blocked = 0,
    suspended_at = NULL, suspended_by = NULL, suspended_reason = NULL
WHERE namespace = ? AND id = ? AND (epoch = 0 AND ended_at IS NULL OR state = 'failed' AND retryable)
RETURNING {READ_RUN_COLUMNS}
"""

# ready or paused -> failed: its deadline has passed
EXPIRE_THESE = f"""
UPDATE runs
SET state = 'failed', error = :error, ended_at = :now, wake_at = NULL, blocked = 0,
    suspended_at = NULL, suspended_by = NULL, suspended_reason = NULL
WHERE namespace = :namespace AND id = :run_id AND ended_at IS NULL AND ({{these}})
RETURNING {READ_RUN_COLUMNS}
"""

NEVER_STARTED = f"epoch = 0 OR state = 'ready' AND {LENGTH} = 0"

EXPIRE_NEW = EXPIRE_THESE.format(these=NEVER_STARTED)

EXPIRE_UNCLAIMED = EXPIRE_THESE.format(these="state = 'ready'")

# Restarts the grace period of a deadline that no process has noticed in time.
WAIT_ANEW = (
    "UPDATE runs SET ready_at = ? WHERE namespace = ? AND id = ? AND state = 'ready' AND deadline_at < ?"
)

# not ended, or failed retryably -> cancelled
TERMINATE = f"""
UPDATE runs
SET state = 'cancelled', retryable = 0, result = NULL, error = ?, ended_at = ?, wake_at = NULL, blocked = 0,
    worker_id = NULL, lease_until = NULL, suspended_at = NULL, suspended_by = NULL, suspended_reason = NULL
WHERE namespace = ? AND id = ? AND (ended_at IS NULL OR retryable)
RETURNING {READ_RUN_COLUMNS}
"""

# ready or paused -> paused; running -> paused later: see PAUSE and LET_GO
SUSPEND = f"""
UPDATE runs
SET state = CASE state WHEN 'running' THEN 'running' ELSE 'paused' END, wake_at = NULL, blocked = 0,
    suspended_at = ?, suspended_by = ?, suspended_reason = ?
WHERE namespace = ? AND id = ? AND ended_at IS NULL AND suspended_at IS NULL
RETURNING {READ_RUN_COLUMNS}
"""

# suspended -> the state it would have without the suspension
RESUME = f"""
UPDATE runs
SET state = CASE
        WHEN state = 'paused' AND (epoch > 0 OR NOT :waits AND coalesce(start_at, 0) <= :now) THEN 'ready'
        ELSE state
    END,
    wake_at = CASE WHEN state = 'paused' AND epoch = 0 AND NOT :waits AND start_at > :now THEN start_at END,
    ready_at = :now, takeovers = 0, suspended_at = NULL, suspended_by = NULL, suspended_reason = NULL
WHERE namespace = :namespace AND id = :run_id AND ended_at IS NULL AND suspended_at IS NOT NULL
RETURNING {READ_RUN_COLUMNS}
"""

PLACE_IN_SESSION = """
SELECT session_id FROM runs WHERE namespace = ? AND id = ? AND session_id IS NOT NULL
"""

# The place of a run that has just become ready.
PLACE = """
SELECT group_name, workflow, concurrency_key, concurrency_limit, priority, ready_at, number FROM runs
WHERE namespace = ? AND id = ?
"""

# failed -> ready
RETRY = f"""
UPDATE runs
SET state = 'ready', ready_at = :now, retryable = 0, ended_at = NULL, error = NULL, takeovers = 0,
    deadline_at = CASE WHEN retryable OR deadline_at > :now THEN deadline_at END
WHERE namespace = :namespace AND id = :run_id AND state = 'failed'
RETURNING {READ_RUN_COLUMNS}
"""


AWAITS_TURN = f"""
SELECT number FROM runs
WHERE namespace = :namespace AND id = ({sessions.IS_BUSY}) AND state = 'paused' AND epoch = 0 AND wake_at IS NULL
    AND suspended_at IS NULL
"""

# paused until its turn -> ready, or paused until its start time
TAKE_TURN = """
UPDATE runs
SET state = CASE WHEN start_at > :now THEN 'paused' ELSE 'ready' END, ready_at = :now,
    wake_at = CASE WHEN start_at > :now THEN start_at END
WHERE number = :number
RETURNING id, state, concurrency_key
"""


def create(tx: Transaction, namespace: str, new: NewRun, token: str | None = None) -> Run | None:
    """Create a run: ready, delayed or waiting for its turn; None if the id exists already."""
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
            large.column_text(new.arguments),
            token,
        ),
    ).fetchone()
    if row is None:
        return None
    run = to_run(row)
    if large.is_large(new.arguments):
        large.put(tx, namespace, new.id, [(large.ARGUMENTS, new.arguments)])
        run = replace(run, arguments=new.arguments)
    if new.session_id is not None and position is not None:
        sessions.note_run(tx, namespace, new.session_id, position, row[RUN_WIDTH])
    ready = run.state is RunState.READY and _line_up(tx, run, row[RUN_WIDTH])
    tx.touch(namespace, new.id, ready=ready, due=delayed or new.deadline_at is not None)
    return run


def load(tx: Transaction, namespace: str, run: Run, cancel_asked: bool, deadline_passed: bool) -> bool:
    """Create a run from a snapshot; False if the id exists already."""
    if run.session_id is not None:
        position = max(run.position or 0, sessions.next_position(tx, namespace, run.session_id))
        run = replace(run, position=position)
    values = from_run(replace(run, namespace=namespace))
    row = tx.db.execute(LOAD, (*values, tx.now, cancel_asked, deadline_passed)).fetchone()
    if row is None:
        return False
    texts = ((large.ARGUMENTS, run.arguments), (large.RESULT, run.result))
    large.put(tx, namespace, run.id, [(seq, text or "") for seq, text in texts if large.is_large(text)])
    if run.session_id is not None and run.position is not None:
        sessions.note_run(tx, namespace, run.session_id, run.position, row[0])
    ready = run.state is RunState.READY and _line_up(tx, replace(run, namespace=namespace), row[0])
    tx.touch(namespace, run.id, ready=ready, due=True)
    return True


def claim(
    tx: Transaction, worker_id: str, lease_until: float, numbers: Sequence[int], token: str | None
) -> list[Run]:
    """Lease ready runs, given by their numbers, to a worker. Returns them in the given order."""
    rows = tx.db.execute(CLAIM, (worker_id, lease_until, token, json.dumps(numbers))).fetchall()
    if len(rows) != len(numbers):  # a trigger has prevented it
        raise ItemFailed(ROW_UNCHANGED)
    by_number = {
        row[RUN_WIDTH]: to_run(
            tx.db.execute(READ_LARGE, (row[RUN_WIDTH],)).fetchone() if has_large(row) else row
        )
        for row in rows
    }
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
    """Pause a run; False if a message has arrived meanwhile, or the lease is lost."""
    row = tx.db.execute(PAUSE, (wake_at, namespace, run_id, epoch, wakes)).fetchone()
    if row is None:
        return False
    tx.touch(namespace, run_id, due=wake_at is not None)
    _slot_freed(tx, namespace, *row)
    return True


def wake(tx: Transaction, namespace: str, run_id: str) -> int | None:
    """Count a message for a run, and make the run ready if it is paused.

    Returns:
        The run's new ``wakes``; None if it has ended.

    Raises:
        sqlite3.IntegrityError: A trigger has left the row unchanged, so the message would be lost.
    """
    row = tx.db.execute(WAKE, (tx.now, namespace, run_id)).fetchone()
    if row is None:
        if tx.db.execute(HAS_NOT_ENDED, (namespace, run_id)).fetchone() is not None:
            raise row_unchanged()
        return None
    wakes, state, key = row
    ready = state == RunState.READY
    if ready and key is not None:
        ready = _line_up_again(tx, namespace, run_id)
    tx.touch_woken(namespace, run_id, ready=ready)
    return wakes


def wake_timers(tx: Transaction, limit: int) -> int:
    """Make paused runs with due timers ready, in all namespaces. Returns their number."""
    return _wake_these(tx, tx.db.execute(WAKE_TIMERS, {"now": tx.now, "limit": limit}).fetchall())


def wake_timer(tx: Transaction, number: int) -> None:
    """Make a paused run with a due timer ready."""
    _wake_these(tx, tx.db.execute(WAKE_TIMER, {"now": tx.now, "number": number}).fetchall())


def _wake_these(tx: Transaction, rows: Sequence[tuple[str, str, str | None]]) -> int:
    for namespace, run_id, key in rows:
        ready = key is None or _line_up_again(tx, namespace, run_id)
        tx.touch(namespace, run_id, ready=ready)
    return len(rows)


def free_lost(tx: Transaction, until: float, limit: int) -> int:
    """Make running runs ready whose lease expired up to ``until``, in all namespaces. Returns their number."""
    return _let_go(tx, tx.db.execute(FREE_LOST, (tx.now, until, limit)).fetchall())


def free(tx: Transaction, number: int) -> None:
    """Make a running run with an expired lease ready."""
    _let_go(tx, tx.db.execute(FREE, (tx.now, number)).fetchall())


def release(tx: Transaction, worker_id: str, *, dead: bool) -> int:
    """Make the runs of a worker ready, in all namespaces. Returns their number.

    If that fails, each run is released by itself. Runs that fail stay leased until their leases expire.
    """
    freed = 0

    def let_go(statement: str, which: str | int) -> None:
        nonlocal freed
        freed += _let_go(tx, tx.db.execute(statement, (tx.now, which)).fetchall())

    if tx.attempt(partial(let_go, RELEASE_DEAD if dead else RELEASE, worker_id)) is None:
        return freed
    for number, namespace, id in tx.db.execute(HELD, (worker_id,)).fetchall():
        error = tx.attempt(partial(let_go, FREE if dead else RELEASE_ONE, number))
        if error is not None:
            log_unreleased(id.decode(errors="replace"), namespace, error)
    return freed


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
    values = (state.value, large.column_text(result), error, retryable, tx.now, namespace, run_id, epoch)
    row = tx.db.execute(END, values).fetchone()
    if row is None:
        return None
    if large.is_large(result):
        large.put(tx, namespace, run_id, [(large.RESULT, result or "")])
    parent_id, parent_n, session_id, *slot = row
    tx.touch_ended(namespace, run_id)
    _slot_freed(tx, namespace, *slot)
    if session_id is not None and not retryable:
        _pass_turn(tx, namespace, session_id)
    return parent_id, parent_n


def cancel_at_once(tx: Transaction, namespace: str, run_id: str, error: str) -> Run | None:
    """End a run that never started, or that failed retryably; None for any other."""
    return _ended(tx, tx.db.execute(CANCEL_AT_ONCE, (error, tx.now, namespace, run_id)).fetchone())


def expire(tx: Transaction, namespace: str, run_id: str, error: str, is_new: bool) -> Run | None:
    """End a run past its deadline.

    Args:
        tx: The transaction.
        namespace: The run's namespace.
        run_id: The run.
        error: The error that it ends with.
        is_new: End it only if it never started; otherwise, only if it waits for a worker.

    Returns:
        The run; None if it does not end.
    """
    values = {"error": error, "now": tx.now, "namespace": namespace, "run_id": run_id}
    return _ended(tx, tx.db.execute(EXPIRE_NEW if is_new else EXPIRE_UNCLAIMED, values).fetchone())


def wait_anew(tx: Transaction, namespace: str, run_id: str, late_before: float) -> None:
    """Restart the grace period of a ready run whose deadline passed before ``late_before``."""
    tx.db.execute(WAIT_ANEW, (tx.now, namespace, run_id, late_before))


def terminate(tx: Transaction, namespace: str, run_id: str, error: str) -> Run | None:
    """End a run in any state; None if it has ended already."""
    was_running = is_running(tx, namespace, run_id)
    run = _ended(tx, tx.db.execute(TERMINATE, (error, tx.now, namespace, run_id)).fetchone())
    if run is not None and was_running:
        groups.slot_freed(tx, namespace, run.group)
    return run


def suspend(tx: Transaction, namespace: str, run_id: str, by: str | None, reason: str | None) -> Run | None:
    """Suspend a run, or make its worker release it; None if it has ended or is suspended already."""
    row = tx.db.execute(SUSPEND, (tx.now, by, reason, namespace, run_id)).fetchone()
    if row is None:
        return None
    run = to_run(row)
    tx.touch(namespace, run_id)
    if run.state is RunState.PAUSED and run.concurrency_key is not None:
        keys.slot_freed(tx, _slots(run))
    return run


def resume(tx: Transaction, namespace: str, run_id: str) -> Run | None:
    """Resume a suspended run; None if it is not suspended."""
    before = tx.db.execute(PLACE_IN_SESSION, (namespace, run_id)).fetchone()
    waits = before is not None and sessions.is_behind(tx, namespace, before[0], run_id)
    values = {"now": tx.now, "waits": waits, "namespace": namespace, "run_id": run_id}
    row = tx.db.execute(RESUME, values).fetchone()
    if row is None:
        return None
    run = to_run(row)
    ready = run.state is RunState.READY
    if ready and run.concurrency_key is not None:
        ready = _line_up_again(tx, namespace, run_id)
    tx.touch(namespace, run_id, ready=ready, due=run.wake_at is not None)
    return run


def _ended(tx: Transaction, row: Sequence[Any] | None) -> Run | None:
    """Record that a run has ended without running its code, and free its slots."""
    if row is None:
        return None
    run = to_run(tuple(row))
    tx.touch_ended(run.namespace, run.id)
    if run.concurrency_key is not None:
        keys.slot_freed(tx, _slots(run))
    if run.session_id is not None:
        _pass_turn(tx, run.namespace, run.session_id)
    return run


def retry(tx: Transaction, namespace: str, run_id: str) -> Run | None:
    """Make a failed run ready; None if it did not fail."""
    row = tx.db.execute(RETRY, {"now": tx.now, "namespace": namespace, "run_id": run_id}).fetchone()
    if row is None:
        return None
    run = to_run(row)
    tx.touch(namespace, run_id, ready=True, due=run.deadline_at is not None)
    return run


def _pass_turn(tx: Transaction, namespace: str, session_id: str) -> None:
    """Pass the turn to the session's next run, if it is waiting. If its row cannot be changed, defer that."""
    number = _awaiting_turn(tx, namespace, session_id)
    if number is not None:
        make_or_defer(tx, "turn", namespace, session_id, lambda: _take_turn(tx, namespace, number))


def pass_turn(tx: Transaction, namespace: str, session_id: str) -> None:
    """Pass the turn to the session's next run, if it is waiting."""
    number = _awaiting_turn(tx, namespace, session_id)
    if number is not None:
        _take_turn(tx, namespace, number)


def _awaiting_turn(tx: Transaction, namespace: str, session_id: str) -> int | None:
    row = tx.db.execute(AWAITS_TURN, {"namespace": namespace, "session_id": session_id}).fetchone()
    return None if row is None else row[0]


def _take_turn(tx: Transaction, namespace: str, number: int) -> None:
    row = tx.db.execute(TAKE_TURN, {"number": number, "now": tx.now}).fetchone()
    if row is None:
        raise ItemFailed(ROW_UNCHANGED)
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
    """Place a run that became ready among those of its key. Returns whether it may be claimable."""
    if run.concurrency_key is None or run.concurrency_limit is None:
        return True
    return keys.line_up(tx, _slots(run), run.concurrency_limit, run.priority, tx.now, number)


def _line_up_again(tx: Transaction, namespace: str, run_id: str) -> bool:
    group, workflow, key, limit, *place = tx.db.execute(PLACE, (namespace, run_id)).fetchone()
    return keys.line_up(tx, Slots(namespace, group, workflow, key), limit, *place)


def _slots(run: Run) -> Slots:
    assert run.concurrency_key is not None
    return Slots(run.namespace, run.group, run.workflow, run.concurrency_key)
