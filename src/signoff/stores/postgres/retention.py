"""Deletes runs that ended long ago from Postgres, with everything that belongs to them."""

from __future__ import annotations

from typing import Final

from signoff.stores.postgres.leases import AT_ONCE
from signoff.stores.postgres.reads import Connection
from signoff.stores.shared.failure_isolation import Done, Failure, ItemFailed, Skipped
from signoff.stores.shared.failure_texts import text_of_postgres
from signoff.stores.shared.touched_runs import TouchedRuns

JOB: Final = "ended run"

DELETE_EACH = "SELECT signoff.delete_each(%s, %s, %s, %s::text[], %s)"

DELETE_ENDED = "SELECT signoff.delete_ended(%s, %s, %s)"


def delete_ended(db: Connection, namespace: str, before: float, limit: int) -> tuple[int, TouchedRuns]:
    """Delete up to ``limit`` runs without a parent that ended before ``before``. Returns how many."""
    touched = TouchedRuns()
    rows = db.execute(DELETE_ENDED, (namespace, before, limit)).fetchall()
    for (run_id,) in rows:
        touched.touch(namespace, run_id)
    return len(rows), touched


def delete_each(
    db: Connection, namespace: str, before: float, limit: int, skipped: Skipped
) -> tuple[Done[int], TouchedRuns]:
    """Like ``delete_ended``, but one run at a time, except for ``skipped`` runs. A failed deletion is rolled back."""
    passed_over = [id for _, id in skipped[JOB]]
    row = db.execute(DELETE_EACH, (namespace, before, limit, passed_over, AT_ONCE)).fetchone()
    assert row is not None
    reply = row[0]
    touched = TouchedRuns()
    for run_id in reply["deleted"]:
        touched.touch(namespace, run_id)
    failures = [
        Failure(JOB, (namespace, id), ItemFailed(f"{text_of_postgres(code, reason)} (SQLSTATE {code})"))
        for id, code, reason in reply["failures"]
    ]
    return Done(len(reply["deleted"]), failures, reply["is_all"]), touched
