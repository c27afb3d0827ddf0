"""Deleting runs from Postgres that ended long ago, with everything that is theirs."""

from __future__ import annotations

from signoff.stores.postgres_reads import Connection
from signoff.stores.touched import Touched

DELETE_ENDED = "SELECT signoff.delete_ended(%s, %s, %s)"


def delete_ended(db: Connection, namespace: str, before: float, limit: int) -> tuple[int, Touched]:
    """Delete up to ``limit`` runs without a parent that ended before that time. Returns how many."""
    touched = Touched()
    rows = db.execute(DELETE_ENDED, (namespace, before, limit)).fetchall()
    for (run_id,) in rows:
        touched.touch(namespace, run_id)
    return len(rows), touched
