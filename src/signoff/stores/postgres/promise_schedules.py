"""Schedules of promises in Postgres, on reader connections."""

from __future__ import annotations

from signoff.errors import NotFound
from signoff.records import Due
from signoff.records.paging import Page
from signoff.records.promise_schedules import NewPromiseSchedule, PromiseSchedule
from signoff.stores.contract.promise_schedules import MOST_LISTED
from signoff.stores.postgres.reads import Connection
from signoff.stores.postgres.schedules import NOW
from signoff.stores.shared.promise_schedule_rows import COLUMNS, to_page, to_promise_schedule
from signoff.stores.shared.rows import found

PUT = f"""
INSERT INTO signoff.promise_schedules ({COLUMNS})
VALUES (%s, %s, %s, %s, %s, {NOW}, NULL)
ON CONFLICT DO NOTHING
"""

GET = f"SELECT {COLUMNS} FROM signoff.promise_schedules WHERE namespace = %s AND id = %s"

LIST = (
    f"SELECT {COLUMNS} FROM signoff.promise_schedules WHERE namespace = %s AND id > %s ORDER BY id LIMIT %s"
)

DELETE = "DELETE FROM signoff.promise_schedules WHERE namespace = %s AND id = %s"

DUE = f"""
SELECT namespace, id, next_at FROM signoff.promise_schedules
WHERE next_at <= (SELECT {NOW})
ORDER BY next_at LIMIT %s
"""

NEXT_DUE = "SELECT next_at FROM signoff.promise_schedules ORDER BY next_at LIMIT 1"

ADVANCE = """
UPDATE signoff.promise_schedules SET next_at = %s, last_at = %s
WHERE namespace = %s AND id = %s AND next_at = %s
"""


def put(db: Connection, namespace: str, new: NewPromiseSchedule, now: float | None) -> PromiseSchedule:
    """Create a schedule, or return the one with this id."""
    db.execute(PUT, (namespace, new.id, new.cron, new.data, new.next_at, now))
    return get(db, namespace, new.id)


def get(db: Connection, namespace: str, schedule_id: str) -> PromiseSchedule:
    """Return a schedule. Raises NotFound."""
    row = db.execute(GET, (namespace, schedule_id)).fetchone()
    return found("schedule", schedule_id, row, to_promise_schedule)


def list_promise_schedules(
    db: Connection, namespace: str, after: str | None, limit: int
) -> Page[PromiseSchedule]:
    """Return a page of schedules, sorted by id."""
    limit = min(limit, MOST_LISTED)
    return to_page(db.execute(LIST, (namespace, after or "", limit + 1)).fetchall(), limit)


def delete(db: Connection, namespace: str, schedule_id: str) -> None:
    """Delete a schedule. Raises NotFound."""
    if db.execute(DELETE, (namespace, schedule_id)).rowcount == 0:
        raise NotFound("schedule", schedule_id)


def due(db: Connection, now: float | None, limit: int) -> tuple[list[Due], float | None]:
    """Return the due schedules of all namespaces, and when the next one is due."""
    found = [Due(*row) for row in db.execute(DUE, (now, limit)).fetchall()]
    row = db.execute(NEXT_DUE).fetchone()
    return found, None if row is None else row[0]


def advance(
    db: Connection, namespace: str, schedule_id: str, expected: float, next_at: float, last_at: float
) -> bool:
    """Move a schedule to its next time; False if another process has."""
    return db.execute(ADVANCE, (next_at, last_at, namespace, schedule_id, expected)).rowcount > 0
