"""Schedules in Postgres, on reader connections. Callers compute the times when schedules fire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString, cast

from pydantic_core import to_json

from signoff.errors import NotFound
from signoff.records import Due, NewRun, NewSchedule, Schedule
from signoff.records.paging import Page
from signoff.stores.postgres.reads import Connection
from signoff.stores.postgres.rows import from_run
from signoff.stores.shared.listed_payloads import Listing, cut, size_in_postgres, within_page
from signoff.stores.shared.rows import SCHEDULE_COLUMNS, found, of_schedule, to_schedule
from signoff.stores.shared.touched_runs import TouchedRuns

NOW = "coalesce(%s::double precision, extract(epoch FROM clock_timestamp())::double precision)"

PUT = f"""
INSERT INTO signoff.schedules AS schedules ({SCHEDULE_COLUMNS})
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, {NOW}, false, NULL, NULL)
ON CONFLICT (id, namespace) DO UPDATE
SET workflow = excluded.workflow, group_name = excluded.group_name, arguments = excluded.arguments,
    catch_up = excluded.catch_up, priority = excluded.priority, concurrency_key = excluded.concurrency_key,
    concurrency_limit = excluded.concurrency_limit, cron = excluded.cron, timezone = excluded.timezone,
    next_at = CASE
        WHEN (schedules.cron, schedules.timezone) = (excluded.cron, excluded.timezone) THEN schedules.next_at
        ELSE excluded.next_at
    END
RETURNING {SCHEDULE_COLUMNS}
"""

GET = f"SELECT {SCHEDULE_COLUMNS} FROM signoff.schedules WHERE namespace = %s AND id = %s"

LISTING = Listing(Schedule, SCHEDULE_COLUMNS, size_in_postgres)

LIST = within_page(
    f"SELECT {LISTING.columns}, id AS place FROM signoff.schedules "
    "WHERE namespace = %s AND id > %s ORDER BY id LIMIT %s",
    "id",
)

PAUSE = f"UPDATE signoff.schedules SET is_paused = true WHERE namespace = %s AND id = %s RETURNING {SCHEDULE_COLUMNS}"

RESUME = f"""
UPDATE signoff.schedules SET is_paused = false, next_at = CASE WHEN is_paused THEN %s ELSE next_at END
WHERE namespace = %s AND id = %s
RETURNING {SCHEDULE_COLUMNS}
"""

DELETE = "DELETE FROM signoff.schedules WHERE namespace = %s AND id = %s"

DUE = f"""
SELECT namespace, id, next_at FROM signoff.schedules
WHERE NOT is_paused AND next_at <= (SELECT {NOW})
ORDER BY next_at LIMIT %s
"""

NEXT_DUE = "SELECT next_at FROM signoff.schedules WHERE NOT is_paused ORDER BY next_at LIMIT 1"

FIRE = "SELECT signoff.fire_schedule(%s, %s, %s, %s, %s, %s)"


def put(db: Connection, namespace: str, new: NewSchedule, now: float | None) -> tuple[Schedule, TouchedRuns]:
    """Create a schedule, or replace the one with this id."""
    values = (*of_schedule(namespace, new), now)
    return found("schedule", new.id, db.execute(PUT, values).fetchone(), to_schedule), _due()


def get(db: Connection, namespace: str, schedule_id: str) -> Schedule:
    """Return a schedule. Raises NotFound."""
    return found("schedule", schedule_id, db.execute(GET, (namespace, schedule_id)).fetchone(), to_schedule)


def list_schedules(db: Connection, namespace: str, after: str | None, limit: int) -> Page[Schedule]:
    """Return a page of schedules, sorted by id."""
    values = (namespace, after or "", limit + 1)
    rows, more = cut(db.execute(cast("LiteralString", LIST), values).fetchall(), limit)
    return LISTING.page(rows, more, to_schedule)


def pause(db: Connection, namespace: str, schedule_id: str) -> Schedule:
    """Pause a schedule. Raises NotFound."""
    return found("schedule", schedule_id, db.execute(PAUSE, (namespace, schedule_id)).fetchone(), to_schedule)


def resume(db: Connection, namespace: str, schedule_id: str, next_at: float) -> tuple[Schedule, TouchedRuns]:
    """Resume a paused schedule. Raises NotFound."""
    row = db.execute(RESUME, (next_at, namespace, schedule_id)).fetchone()
    return found("schedule", schedule_id, row, to_schedule), _due()


def delete(db: Connection, namespace: str, schedule_id: str) -> None:
    """Delete a schedule. Raises NotFound."""
    if db.execute(DELETE, (namespace, schedule_id)).rowcount == 0:
        raise NotFound("schedule", schedule_id)


def due(db: Connection, now: float | None, limit: int) -> tuple[list[Due], float | None]:
    """Return the due schedules of all namespaces, and when the next one is due."""
    found = [Due(*row) for row in db.execute(DUE, (now, limit)).fetchall()]
    row = db.execute(NEXT_DUE).fetchone()
    return found, None if row is None else row[0]


def fire(
    db: Connection,
    namespace: str,
    schedule_id: str,
    expected: float,
    runs: Sequence[NewRun],
    next_at: float,
    now: float | None,
) -> tuple[bool, TouchedRuns]:
    """Advance a schedule from ``expected`` and start its runs; False if another process has advanced it."""
    created = to_json([from_run(new) for new in runs]).decode()
    row = db.execute(FIRE, (namespace, schedule_id, expected, created, next_at, now)).fetchone()
    touched = TouchedRuns()
    if row is None or not row[0]:
        return False, touched
    touched.due = True
    for new in runs:
        touched.touch(namespace, new.id, ready=True)
    return True, touched


def _due() -> TouchedRuns:
    touched = TouchedRuns()
    touched.due = True
    return touched
