"""Counts in SQLite how long expired leases have been kept, across processes.

A process that starts or returns from an outage frees no leases for one lease duration (``stores/shared/outages.py``).
If such processes followed one another, no lease would ever be freed. So the file counts the time that they served.
"""

from __future__ import annotations

from typing import Final

from signoff.stores.sqlite.transaction import Transaction

HAS_RUN_OUT: Final = """
SELECT EXISTS (SELECT 1 FROM runs INDEXED BY runs_leases WHERE state = 'running' AND lease_until <= :until)
    OR EXISTS (SELECT 1 FROM tasks INDEXED BY tasks_leases WHERE state = 'acquired' AND lease_until <= :until)
"""
READ: Final = "SELECT before, served, at, but_until FROM held_leases"
WRITE: Final = """
INSERT OR REPLACE INTO held_leases (one, before, served, at, but_until) VALUES (1, ?, ?, ?, ?)
"""


def count(tx: Transaction, served: float, lease_seconds: float) -> float | None:
    """Count time in which expired leases were kept although their holders could have extended them.

    Args:
        tx: The transaction.
        served: For how many seconds this process could write since its last call.
        lease_seconds: The time after which leases are freed.

    Returns:
        Leases that expired up to this time, by the lease clock, are freed anyway; None if none are.
    """
    now = tx.lease_now
    if not _has_run_out(tx, now):
        return None
    row: tuple[float, float, float, float | None] | None = tx.db.execute(READ).fetchone()
    if row is None or not _has_run_out(tx, min(row[0], now)):
        tx.db.execute(WRITE, (now, 0.0, now, None))
        return None
    before, served_before, at, but_until = row
    before = min(before, now)
    served_now = served_before + min(served, max(0.0, now - at))  # several processes may count the same time
    if but_until is not None:
        but_until = min(but_until, now)  # the clock may have been set back
    if served_now >= lease_seconds:
        # Leases that expired up to ``before`` are freed from now on. The others get a new count, because one of the
        # former may never be freed.
        but_until, before, served_now = before, now, 0.0
    tx.db.execute(WRITE, (before, served_now, now, but_until))
    return but_until


def _has_run_out(tx: Transaction, until: float) -> bool:
    return bool(tx.db.execute(HAS_RUN_OUT, {"until": until}).fetchone()[0])
