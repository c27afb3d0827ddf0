"""Schedules in SQLite. Callers compute the times when schedules fire; the store ensures that each fires once."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from signoff.errors import NotFound
from signoff.records import Due, NewRun, NewSchedule, Schedule
from signoff.records.paging import Page
from signoff.stores.shared.listed_payloads import Listing, read_page, size_in_sqlite
from signoff.stores.shared.rows import SCHEDULE_COLUMNS, found, of_schedule, to_schedule
from signoff.stores.sqlite import transitions as states
from signoff.stores.sqlite.schema import row_unchanged
from signoff.stores.sqlite.transaction import Transaction

PUT = f"""
INSERT INTO schedules ({SCHEDULE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, NULL, NULL)
ON CONFLICT (namespace, id) DO UPDATE
SET workflow = excluded.workflow, group_name = excluded.group_name, arguments = excluded.arguments,
    catch_up = excluded.catch_up, priority = excluded.priority, concurrency_key = excluded.concurrency_key,
    concurrency_limit = excluded.concurrency_limit,
    next_at = CASE WHEN (cron, timezone) = (excluded.cron, excluded.timezone) THEN next_at ELSE excluded.next_at END,
    cron = excluded.cron, timezone = excluded.timezone
RETURNING {SCHEDULE_COLUMNS}
"""

GET = f"SELECT {SCHEDULE_COLUMNS} FROM schedules WHERE namespace = ? AND id = ?"

LISTING = Listing(Schedule, SCHEDULE_COLUMNS, size_in_sqlite)

LIST = (
    f"SELECT {LISTING.columns}, id AS place FROM schedules WHERE namespace = ? AND id > ? ORDER BY id LIMIT ?"
)

PAUSE = f"UPDATE schedules SET is_paused = 1 WHERE namespace = ? AND id = ? RETURNING {SCHEDULE_COLUMNS}"

RESUME = f"""
UPDATE schedules SET is_paused = 0, next_at = CASE WHEN is_paused THEN ? ELSE next_at END
WHERE namespace = ? AND id = ?
RETURNING {SCHEDULE_COLUMNS}
"""

DELETE = "DELETE FROM schedules WHERE namespace = ? AND id = ?"

DUE = """
SELECT namespace, id, next_at FROM schedules INDEXED BY schedules_due
WHERE is_paused = 0 AND next_at <= ? ORDER BY next_at LIMIT ?
"""

NEXT_DUE = "SELECT min(next_at) FROM schedules INDEXED BY schedules_due WHERE is_paused = 0"

FIRE = """
UPDATE schedules SET next_at = ? WHERE namespace = ? AND id = ? AND next_at = ? AND is_paused = 0
"""

IS_AT = "SELECT 1 FROM schedules WHERE namespace = ? AND id = ? AND next_at = ? AND is_paused = 0"

NOTE_RUN = "UPDATE schedules SET last_at = ?, last_run_id = ? WHERE namespace = ? AND id = ?"


def put(tx: Transaction, namespace: str, new: NewSchedule) -> Schedule:
    """Create a schedule, or replace the one with this id."""
    values = (*of_schedule(namespace, new), tx.now)
    tx.due = True
    return to_schedule(tx.db.execute(PUT, values).fetchone())


def pause(tx: Transaction, namespace: str, schedule_id: str) -> Schedule:
    """Pause a schedule. Raises NotFound."""
    row = tx.db.execute(PAUSE, (namespace, schedule_id)).fetchone()
    return found("schedule", schedule_id, row, to_schedule)


def resume(tx: Transaction, namespace: str, schedule_id: str, next_at: float) -> Schedule:
    """Resume a paused schedule. Raises NotFound."""
    tx.due = True
    row = tx.db.execute(RESUME, (next_at, namespace, schedule_id)).fetchone()
    return found("schedule", schedule_id, row, to_schedule)


def delete(tx: Transaction, namespace: str, schedule_id: str) -> None:
    """Delete a schedule. Raises NotFound."""
    if tx.db.execute(DELETE, (namespace, schedule_id)).rowcount == 0:
        raise NotFound("schedule", schedule_id)


def fire(
    tx: Transaction,
    namespace: str,
    schedule_id: str,
    expected: float,
    runs: Sequence[NewRun],
    next_at: float,
) -> bool:
    """Advance a schedule from ``expected`` and start its runs; False if another process has advanced it."""
    if tx.db.execute(FIRE, (next_at, namespace, schedule_id, expected)).rowcount == 0:
        if tx.db.execute(IS_AT, (namespace, schedule_id, expected)).fetchone() is not None:
            raise row_unchanged()
        return False
    tx.due = True
    for new in runs:
        states.create(tx, namespace, new)
    if runs:
        tx.db.execute(NOTE_RUN, (tx.now, runs[-1].id, namespace, schedule_id))
    return True


def get(db: sqlite3.Connection, namespace: str, schedule_id: str) -> Schedule:
    """Return a schedule. Raises NotFound."""
    return found("schedule", schedule_id, db.execute(GET, (namespace, schedule_id)).fetchone(), to_schedule)


def list_schedules(db: sqlite3.Connection, namespace: str, after: str | None, limit: int) -> Page[Schedule]:
    """Return a page of schedules, sorted by id."""
    rows, more = read_page(db.execute(LIST, (namespace, after or "", limit + 1)), limit, LISTING.bytes_of)
    return LISTING.page(rows, more, to_schedule)


def due(db: sqlite3.Connection, now: float, limit: int) -> tuple[list[Due], float | None]:
    """Return the due schedules of all namespaces, and when the next one is due."""
    rows = db.execute(DUE, (now, limit)).fetchall()
    return [Due(*row) for row in rows], db.execute(NEXT_DUE).fetchone()[0]
