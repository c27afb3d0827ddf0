"""Schedules of promises in SQLite."""

from __future__ import annotations

import sqlite3

from signoff.errors import NotFound
from signoff.records import Due
from signoff.records.paging import Page
from signoff.records.promise_schedules import NewPromiseSchedule, PromiseSchedule
from signoff.stores.contract.promise_schedules import MOST_LISTED
from signoff.stores.shared.promise_schedule_rows import COLUMNS, to_page, to_promise_schedule
from signoff.stores.shared.rows import found
from signoff.stores.sqlite.transaction import Transaction

PUT = f"INSERT INTO promise_schedules ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, NULL) ON CONFLICT DO NOTHING"

GET = f"SELECT {COLUMNS} FROM promise_schedules WHERE namespace = ? AND id = ?"

LIST = f"SELECT {COLUMNS} FROM promise_schedules WHERE namespace = ? AND id > ? ORDER BY id LIMIT ?"

DELETE = "DELETE FROM promise_schedules WHERE namespace = ? AND id = ?"

DUE = """
SELECT namespace, id, next_at FROM promise_schedules INDEXED BY promise_schedules_due
WHERE next_at <= ? ORDER BY next_at LIMIT ?
"""

NEXT_DUE = "SELECT min(next_at) FROM promise_schedules INDEXED BY promise_schedules_due"

ADVANCE = """
UPDATE promise_schedules SET next_at = ?, last_at = ? WHERE namespace = ? AND id = ? AND next_at = ?
"""


def put(tx: Transaction, namespace: str, new: NewPromiseSchedule) -> PromiseSchedule:
    """Create a schedule, or return the one with this id."""
    tx.db.execute(PUT, (namespace, new.id, new.cron, new.data, new.next_at, tx.now))
    return get(tx.db, namespace, new.id)


def get(db: sqlite3.Connection, namespace: str, schedule_id: str) -> PromiseSchedule:
    """Return a schedule. Raises NotFound."""
    row = db.execute(GET, (namespace, schedule_id)).fetchone()
    return found("schedule", schedule_id, row, to_promise_schedule)


def list_promise_schedules(
    db: sqlite3.Connection, namespace: str, after: str | None, limit: int
) -> Page[PromiseSchedule]:
    """Return a page of schedules, sorted by id."""
    limit = min(limit, MOST_LISTED)
    return to_page(db.execute(LIST, (namespace, after or "", limit + 1)).fetchall(), limit)


def delete(tx: Transaction, namespace: str, schedule_id: str) -> None:
    """Delete a schedule. Raises NotFound."""
    if tx.db.execute(DELETE, (namespace, schedule_id)).rowcount == 0:
        raise NotFound("schedule", schedule_id)


def due(db: sqlite3.Connection, now: float, limit: int) -> tuple[list[Due], float | None]:
    """Return the due schedules of all namespaces, and when the next one is due."""
    rows = db.execute(DUE, (now, limit)).fetchall()
    return [Due(*row) for row in rows], db.execute(NEXT_DUE).fetchone()[0]


def advance(
    tx: Transaction, namespace: str, schedule_id: str, expected: float, next_at: float, last_at: float
) -> bool:
    """Move a schedule to its next time; False if another process has."""
    return tx.db.execute(ADVANCE, (next_at, last_at, namespace, schedule_id, expected)).rowcount > 0
