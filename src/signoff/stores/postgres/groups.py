"""Groups in Postgres: pausing, limiting and listing them on reader connections."""

from __future__ import annotations

from signoff.records import Group, Rate
from signoff.stores.contract.groups import COUNTED_AT_MOST
from signoff.stores.contract.validation import check_names
from signoff.stores.postgres.reads import Connection
from signoff.stores.shared.touched_runs import TouchedRuns

SET_PAUSED = """
INSERT INTO signoff.groups (namespace, name, is_paused) VALUES (%s, %s, %s)
ON CONFLICT (name, namespace) DO UPDATE SET is_paused = excluded.is_paused
"""

LIMIT = """
INSERT INTO signoff.groups (namespace, name, max_running, rate_count, rate_seconds) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (name, namespace) DO UPDATE
SET max_running = excluded.max_running, rate_count = excluded.rate_count, rate_seconds = excluded.rate_seconds,
    whole_at = NULL, opens_at = NULL
"""

LIST = """
SELECT name, is_paused, max_running, rate_count, rate_seconds, ready, running, paused
FROM signoff.list_groups(%s, %s)
"""

SUSPENDED = """
SELECT group_name, count(*), count(*) FILTER (WHERE suspended_by IS NULL AND takeovers > 0) FROM (
    SELECT group_name, suspended_by, takeovers FROM signoff.runs
    WHERE (namespace || '') = %s AND suspended_at IS NOT NULL AND state = 'paused'
    LIMIT %s
) AS suspended GROUP BY group_name
"""


def pause(db: Connection, namespace: str, name: str) -> tuple[None, TouchedRuns]:
    """Pause a group."""
    return _set_paused(db, namespace, name, True)


def resume(db: Connection, namespace: str, name: str) -> tuple[None, TouchedRuns]:
    """Resume a group."""
    return _set_paused(db, namespace, name, False)


def _set_paused(db: Connection, namespace: str, name: str, is_paused: bool) -> tuple[None, TouchedRuns]:
    check_names(group=name)
    db.execute(SET_PAUSED, (namespace, name, is_paused))
    return None, _ready(namespace)


def set_limits(
    db: Connection, namespace: str, name: str, max_running: int | None, starts_per: Rate | None
) -> tuple[None, TouchedRuns]:
    """Set the limits of a group."""
    check_names(group=name)
    rate = (None, None) if starts_per is None else (starts_per.count, starts_per.seconds)
    db.execute(LIMIT, (namespace, name, max_running, *rate))
    return None, _ready(namespace)


def list_groups(db: Connection, namespace: str) -> list[Group]:
    """Return the groups that are configured or have runs, sorted by name."""
    groups: list[Group] = []
    found = db.execute(SUSPENDED, (namespace, COUNTED_AT_MOST)).fetchall()
    suspended = {name: counts for name, *counts in found}
    for name, is_paused, max_running, count, seconds, *counts in db.execute(
        LIST, (namespace, COUNTED_AT_MOST)
    ):
        rate = None if count is None or seconds is None else Rate(count, seconds)
        groups.append(Group(name, is_paused, max_running, rate, *counts, *suspended.get(name, (0, 0))))
    return groups


def _ready(namespace: str) -> TouchedRuns:
    touched = TouchedRuns()
    touched.ready.add(namespace)
    return touched
