"""Deletes runs that ended long ago from Postgres, with everything that belongs to them, and promises without a run."""

from __future__ import annotations

from typing import Any, Final

from signoff.stores.postgres.leases import AT_ONCE
from signoff.stores.postgres.reads import Connection
from signoff.stores.shared import settled_promises as settled
from signoff.stores.shared.failure_isolation import Done, Failure, ItemFailed, Skipped
from signoff.stores.shared.failure_texts import text_of_postgres
from signoff.stores.shared.touched_runs import TouchedRuns

JOB: Final = "ended run"

DELETE_EACH = "SELECT signoff.delete_each(%s, %s, %s, %s::text[], %s)"

DELETE_ENDED = "SELECT signoff.delete_ended(%s, %s, %s)"

DELETE_SETTLED = "SELECT signoff.delete_settled(%s, %s, %s, %s, %s, %s::text[])"


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
    failures = _failures(JOB, namespace, reply["failures"])
    return Done(len(reply["deleted"]), failures, reply["is_all"]), touched


def delete_settled(
    db: Connection, namespace: str, before: float, limit: int, after: settled.Place
) -> tuple[int, str | None]:
    """Examine up to ``limit`` promises without a run that were settled before ``before``, and delete unused ones."""
    reply = _delete_settled(db, namespace, before, limit, after, None)
    return reply["deleted"], _next(reply)


def delete_each_settled(
    db: Connection, namespace: str, before: float, limit: int, after: settled.Place, skipped: Skipped
) -> Done[tuple[int, str | None]]:
    """Like ``delete_settled``, but one at a time, except for ``skipped`` ones. A failed deletion is rolled back."""
    passed_over = [id for _, id in skipped[settled.JOB]]
    reply = _delete_settled(db, namespace, before, limit, after, passed_over)
    failures = _failures(settled.JOB, namespace, reply["failures"])
    next_after = _next(reply)
    is_all = after == settled.FIRST and next_after is None
    return Done((reply["deleted"], next_after), failures, is_all=is_all)


def _delete_settled(
    db: Connection, namespace: str, before: float, limit: int, after: settled.Place, skipped: list[str] | None
) -> dict[str, Any]:
    row = db.execute(DELETE_SETTLED, (namespace, before, limit, *after, skipped)).fetchone()
    assert row is not None
    return row[0]


def _next(reply: dict[str, Any]) -> str | None:
    if reply["after"] is None:
        return None
    settled_at, number = reply["after"]
    return settled.after((float(settled_at), number))


def _failures(job: str, namespace: str, failures: list[tuple[str, str, str]]) -> list[Failure]:
    return [
        Failure(job, (namespace, id), ItemFailed(f"{text_of_postgres(code, reason)} (SQLSTATE {code})"))
        for id, code, reason in failures
    ]
