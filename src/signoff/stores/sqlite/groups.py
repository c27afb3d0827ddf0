"""Groups in SQLite: pausing, limits, and how many runs a claim may take."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from signoff.records import Group, Rate, RunState
from signoff.stores.contract.groups import COUNTED_AT_MOST
from signoff.stores.contract.validation import check_names
from signoff.stores.sqlite.transaction import Transaction

FIND = """
SELECT is_paused, max_running, rate_count, rate_seconds, whole_at, opens_at FROM groups
WHERE namespace = ? AND name = ?
"""

CONFIGURED = """
SELECT name, is_paused, max_running, rate_count, rate_seconds FROM groups WHERE namespace = ? ORDER BY name
"""

NEXT_NAME = """
SELECT min(group_name) FROM runs INDEXED BY runs_by_group WHERE namespace = ? AND group_name > ?
"""

COUNT = f"""
SELECT count(*) FROM (
    SELECT 1 FROM runs INDEXED BY runs_by_group
    WHERE namespace = ? AND group_name = ? AND state = ?
    LIMIT {COUNTED_AT_MOST}
)
"""

SUSPENDED = f"""
SELECT group_name, count(*), sum(suspended_by IS NULL AND takeovers > 0) FROM (
    SELECT group_name, suspended_by, takeovers FROM runs INDEXED BY runs_suspended
    WHERE namespace = ? AND suspended_at IS NOT NULL AND state = 'paused'
    LIMIT {COUNTED_AT_MOST}
) GROUP BY group_name
"""

RUNNING = """
SELECT count(*) FROM runs INDEXED BY runs_by_group WHERE namespace = ? AND group_name = ? AND state = 'running'
"""

HAS_SLOTS = "SELECT 1 FROM groups WHERE namespace = ? AND name = ? AND max_running IS NOT NULL"

SET_PAUSED = """
INSERT INTO groups (namespace, name, is_paused) VALUES (?, ?, ?)
ON CONFLICT (namespace, name) DO UPDATE SET is_paused = excluded.is_paused
"""

LIMIT = """
INSERT INTO groups (namespace, name, max_running, rate_count, rate_seconds) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (namespace, name) DO UPDATE
SET max_running = excluded.max_running, rate_count = excluded.rate_count, rate_seconds = excluded.rate_seconds,
    whole_at = NULL, opens_at = NULL
"""

STARTED = "UPDATE groups SET whole_at = ? WHERE namespace = ? AND name = ?"

WAIT_TO_OPEN = """
UPDATE groups SET opens_at = ? WHERE namespace = ? AND name = ? AND opens_at IS NOT ?
"""

OPEN = """
UPDATE groups SET opens_at = NULL
WHERE (namespace, name) IN (
    SELECT namespace, name FROM groups INDEXED BY groups_opening
    WHERE opens_at IS NOT NULL AND opens_at <= ? ORDER BY opens_at LIMIT ?
)
RETURNING namespace
"""

OPEN_ONE = "UPDATE groups SET opens_at = NULL WHERE namespace = ? AND name = ?"

WHOLE = 1e-6  # of a start: tolerance for rounding of the allowance


@dataclass(slots=True)
class Room:
    """What a claim may take from a group.

    Attributes:
        runs: Number of runs.
        starts: How many of them may be first starts; None for any number.
        opens_at: When the next first start is allowed after ``starts``; None if there is no rate.
    """

    runs: int
    starts: int | None = None
    opens_at: float | None = None


def room(tx: Transaction, namespace: str, group: str, limit: int) -> Room:
    """Return how much of ``limit`` a claim may take from a group now."""
    row = tx.db.execute(FIND, (namespace, group)).fetchone()
    if row is None:
        return Room(limit)
    is_paused, max_running, count, seconds, whole_at, _ = row
    if is_paused:
        return Room(0)
    if max_running is not None:
        running = tx.db.execute(RUNNING, (namespace, group)).fetchone()[0]
        limit = max(0, min(limit, max_running - running))
    if count is None:
        return Room(limit)
    each = seconds / count
    whole_at = _whole_at(whole_at, tx.now, seconds)
    starts = int((tx.now + seconds - whole_at) / each + WHOLE)
    return Room(limit, starts, whole_at + (starts + 1) * each - seconds)


def note_starts(tx: Transaction, namespace: str, group: str, starts: int) -> None:
    """Deduct first starts from the allowance of a group with a rate."""
    _, _, count, seconds, whole_at, _ = tx.db.execute(FIND, (namespace, group)).fetchone()
    whole_at = _whole_at(whole_at, tx.now, seconds) + starts * seconds / count
    tx.db.execute(STARTED, (whole_at, namespace, group))


def wait_to_open(tx: Transaction, namespace: str, group: str, opens_at: float) -> None:
    """Schedule a notification to workers for when the rate allows the next start."""
    if tx.db.execute(WAIT_TO_OPEN, (opens_at, namespace, group, opens_at)).rowcount > 0:
        tx.due = True


def open_due(tx: Transaction, limit: int) -> int:
    """Notify workers of groups whose rate allows starts again, in all namespaces. Returns the number of groups."""
    rows = tx.db.execute(OPEN, (tx.now, limit)).fetchall()
    tx.ready.update(namespace for (namespace,) in rows)
    return len(rows)


def open_one(tx: Transaction, namespace: str, name: str) -> None:
    """Notify workers of one group whose rate allows starts again."""
    tx.db.execute(OPEN_ONE, (namespace, name))
    tx.ready.add(namespace)


def slot_freed(tx: Transaction, namespace: str, group: str) -> None:
    """Notify workers of a free slot, if the group has limited slots."""
    if tx.db.execute(HAS_SLOTS, (namespace, group)).fetchone() is not None:
        tx.ready.add(namespace)


def pause(tx: Transaction, namespace: str, name: str) -> None:
    """Pause a group."""
    _set_paused(tx, namespace, name, True)


def resume(tx: Transaction, namespace: str, name: str) -> None:
    """Resume a group."""
    _set_paused(tx, namespace, name, False)


def _set_paused(tx: Transaction, namespace: str, name: str, is_paused: bool) -> None:
    check_names(group=name)
    tx.db.execute(SET_PAUSED, (namespace, name, is_paused))
    tx.ready.add(namespace)


def set_limits(
    tx: Transaction, namespace: str, name: str, max_running: int | None, starts_per: Rate | None
) -> None:
    """Set the limits of a group."""
    check_names(group=name)
    rate = (None, None) if starts_per is None else (starts_per.count, starts_per.seconds)
    tx.db.execute(LIMIT, (namespace, name, max_running, *rate))
    tx.ready.add(namespace)


def list_groups(db: sqlite3.Connection, namespace: str) -> list[Group]:
    """Return the groups that are configured or have runs, sorted by name."""
    configured = {row[0]: row[1:] for row in db.execute(CONFIGURED, (namespace,)).fetchall()}
    names = set(configured)
    name: str | None = ""
    while (name := db.execute(NEXT_NAME, (namespace, name)).fetchone()[0]) is not None:
        names.add(name)
    suspended = {row[0]: row[1:] for row in db.execute(SUSPENDED, (namespace,)).fetchall()}
    return [
        _group(db, namespace, name, configured.get(name), suspended.get(name, (0, 0)))
        for name in sorted(names)
    ]


def _group(
    db: sqlite3.Connection,
    namespace: str,
    name: str,
    configured: tuple[int, int | None, int | None, float | None] | None,
    suspended: tuple[int, int],
) -> Group:
    is_paused, max_running, count, seconds = configured or (0, None, None, None)
    ready, running, paused = (
        db.execute(COUNT, (namespace, name, state.value)).fetchone()[0]
        for state in (RunState.READY, RunState.RUNNING, RunState.PAUSED)
    )
    rate = None if count is None or seconds is None else Rate(count, seconds)
    return Group(name, bool(is_paused), max_running, rate, ready, running, paused, *suspended)


def _whole_at(whole_at: float | None, now: float, seconds: float) -> float:
    """Return when the allowance is full: now or later, but within ``seconds`` even if the clock was set back."""
    return now if whole_at is None else min(max(whole_at, now), now + seconds)
