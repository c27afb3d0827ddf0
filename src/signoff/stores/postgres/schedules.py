"""Schedules in Postgres, on reader connections. Callers compute the times when schedules fire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, LiteralString, cast

from pydantic_core import to_json

from signoff.errors import NotFound
from signoff.records import CatchUp, Due, NewRun, NewSchedule, Schedule
from signoff.records.paging import Page
from signoff.stores.postgres.reads import Connection
from signoff.stores.postgres.rows import from_run
from signoff.stores.shared.listed_payloads import Listing, cut, size_in_postgres, within_page
from signoff.stores.shared.touched_runs import TouchedRuns

COLUMNS = """namespace, id, workflow, group_name, arguments, cron, timezone, catch_up, next_at, priority,
    concurrency_key, concurrency_limit, created_at, is_paused, last_at, last_run_id"""

NOW = "coalesce(%s::double precision, extract(epoch FROM clock_timestamp())::double precision)"

PUT = f"""
INSERT INTO signoff.schedules AS schedules ({COLUMNS})
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, {NOW}, false, NULL, NULL)
ON CONFLICT (id, namespace) DO UPDATE
SET workflow = excluded.workflow, group_name = excluded.group_name, arguments = excluded.arguments,
    catch_up = excluded.catch_up, priority = excluded.priority, concurrency_key = excluded.concurrency_key,
    concurrency_limit = excluded.concurrency_limit, cron = excluded.cron, timezone = excluded.timezone,
    next_at = CASE
        WHEN (schedules.cron, schedules.timezone) = (excluded.cron, excluded.timezone) THEN schedules.next_at
        ELSE excluded.next_at
    END
RETURNING {COLUMNS}
"""

GET = f"SELECT {COLUMNS} FROM signoff.schedules WHERE namespace = %s AND id = %s"

LISTING = Listing(Schedule, COLUMNS, size_in_postgres)

LIST = within_page(
    f"SELECT {LISTING.columns} FROM signoff.schedules WHERE namespace = %s AND id > %s ORDER BY id LIMIT %s",
    "id",
)

PAUSE = f"UPDATE signoff.schedules SET is_paused = true WHERE namespace = %s AND id = %s RETURNING {COLUMNS}"

RESUME = f"""
UPDATE signoff.schedules SET is_paused = false, next_at = CASE WHEN is_paused THEN %s ELSE next_at END
WHERE namespace = %s AND id = %s
RETURNING {COLUMNS}
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
    values = (
        namespace,
        new.id,
        new.workflow,
        new.group,
        new.arguments,
        new.cron,
        new.timezone,
        new.catch_up.value,
        new.next_at,
        new.priority,
        new.concurrency_key,
        new.concurrency_limit,
        now,
    )
    return _found(new.id, db.execute(PUT, values).fetchone()), _due()


def get(db: Connection, namespace: str, schedule_id: str) -> Schedule:
    """Return a schedule. Raises NotFound."""
    return _found(schedule_id, db.execute(GET, (namespace, schedule_id)).fetchone())


def list_schedules(db: Connection, namespace: str, after: str | None, limit: int) -> Page[Schedule]:
    """Return a page of schedules, sorted by id."""
    values = (namespace, after or "", limit + 1)
    rows, more = cut(db.execute(cast("LiteralString", LIST), values).fetchall(), limit)
    found = tuple(LISTING.read(row, to_schedule) for row in rows)
    return Page(found, found[-1].id if more and found else None)


def pause(db: Connection, namespace: str, schedule_id: str) -> Schedule:
    """Pause a schedule. Raises NotFound."""
    return _found(schedule_id, db.execute(PAUSE, (namespace, schedule_id)).fetchone())


def resume(db: Connection, namespace: str, schedule_id: str, next_at: float) -> tuple[Schedule, TouchedRuns]:
    """Resume a paused schedule. Raises NotFound."""
    return _found(schedule_id, db.execute(RESUME, (next_at, namespace, schedule_id)).fetchone()), _due()


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


def to_schedule(row: Sequence[Any]) -> Schedule:
    """Return the schedule in ``COLUMNS``."""
    fields = list(row)
    fields[7] = CatchUp(fields[7])
    return Schedule(*fields)


def _found(schedule_id: str, row: Sequence[Any] | None) -> Schedule:
    if row is None:
        raise NotFound("schedule", schedule_id)
    return to_schedule(row)


def _due() -> TouchedRuns:
    touched = TouchedRuns()
    touched.due = True
    return touched
