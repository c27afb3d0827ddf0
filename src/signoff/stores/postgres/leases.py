"""Leases, deadlines and timers in Postgres, on reader connections beside the writer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import to_json

from signoff.codec import encode_error
from signoff.errors import RunCancelled, RunTimeout
from signoff.records import WorkerInfo
from signoff.records.failed_items import SetAsideItem
from signoff.stores.contract.leases import Claim
from signoff.stores.contract.validation import check_worker
from signoff.stores.contract.workers import FORGET_SECONDS
from signoff.stores.postgres.reads import Connection
from signoff.stores.postgres.write_requests import claim_of
from signoff.stores.shared.claims import JOB as CLAIM_JOB
from signoff.stores.shared.claims import ClaimedEach
from signoff.stores.shared.deferred_changes import JOB as DEFERRED_JOB
from signoff.stores.shared.deferred_changes import Made, Times
from signoff.stores.shared.failed_items import LONGEST_SECONDS, Key
from signoff.stores.shared.failure_isolation import Done, Failure, ItemFailed, Skipped
from signoff.stores.shared.failure_texts import text_of_postgres
from signoff.stores.shared.heartbeats import log_unreleased
from signoff.stores.shared.listed_payloads import PAGE_BYTES
from signoff.stores.shared.rows import WORKER_COLUMNS
from signoff.stores.shared.touched_runs import TouchedRuns

ENLIST = f"""
WITH register AS (SELECT NOT EXISTS (SELECT FROM signoff.workers) AS is_first)
INSERT INTO signoff.workers ({WORKER_COLUMNS})
VALUES (
    %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s,
    coalesce(%s::double precision, extract(epoch FROM clock_timestamp()))
)
ON CONFLICT (id) DO UPDATE
SET host = excluded.host, pid = excluded.pid, process_started_at = excluded.process_started_at,
    group_name = excluded.group_name, namespace = excluded.namespace, signoff_version = excluded.signoff_version,
    python_version = excluded.python_version, build = excluded.build, threads = excluded.threads,
    threads_busy = excluded.threads_busy, threads_waiting = excluded.threads_waiting, seen_at = excluded.seen_at
RETURNING (SELECT is_first FROM register)
"""

HEARTBEAT = "SELECT signoff.heartbeat(%s, %s, %s, %s, %s, %s)"

# `least` ignores NULL.
_LEASE_NOW = (
    "least(coalesce(%s::double precision, extract(epoch FROM clock_timestamp())), %s::double precision)"
)

DUE = f"SELECT signoff.due(%s, {_LEASE_NOW}, %s, %s, %s)"

DUE_EACH = f"SELECT signoff.due_each(%s, {_LEASE_NOW}, %s, %s, %s, %s::jsonb)"

HOLD = "SELECT signoff.hold_leases(%s, %s, %s)"

WAIT_FOR_LOCKS = """
WITH waited AS (UPDATE signoff.runs SET state = state WHERE false)
SELECT first_at, last_at FROM signoff.deferred_times()
"""

DEFERRED_TIMES = "SELECT first_at, last_at FROM signoff.deferred_times()"

LIST_FAILED_CHANGES = """
SELECT namespace, id, failures, first_at, next_at, code, error FROM signoff.deferred
WHERE failures > 0 ORDER BY next_at, number LIMIT %s
"""

MAKE_DEFERRED = "SELECT signoff.make_deferred_each(%s, %s, %s)"

AT_ONCE: Final = 50
"""Items per transaction when each has a savepoint: more than 64 subtransactions slow down all other transactions."""

JOBS: Final = ("promise", "timer", "deadline", "grace", "lease", "task", "rate", "worker")
"""The jobs whose items ``due`` processes."""

TIMED_OUT = json.dumps(
    {"run": encode_error(RunTimeout("<run>")), "child": encode_error(RunCancelled("<run>", None))}
)

CLAIM_EACH = "SELECT signoff.claim_each(%s::jsonb, %s, %s, %s::text[], %s::text[], %s, %s)"

RELEASE = """
WITH delisted AS (DELETE FROM signoff.workers WHERE id = %(worker_id)s)
SELECT namespace, id FROM signoff.release_rows(
    %(worker_id)s, coalesce(%(now)s::double precision, extract(epoch FROM clock_timestamp())::double precision),
    %(dead)s
)
"""


RELEASE_EACH = RELEASE.replace(
    "namespace, id FROM signoff.release_rows(", "namespace, id, code, error FROM signoff.release_each("
)


@dataclass(frozen=True, slots=True)
class Due:
    """The result of processing due items.

    Attributes:
        next_at: When the next item is due, in unix seconds; None if there is none.
        now: The database's time.
        touched: The runs that were touched.
        is_all: Whether all due items were processed, apart from those over the limit.
    """

    next_at: float | None
    now: float
    touched: TouchedRuns
    is_all: bool


@dataclass(frozen=True, slots=True)
class LeaseTime:
    """The time, in unix seconds, up to which expired leases are freed.

    Attributes:
        now: Lease time; None uses the database's clock.
        at_most: Upper bound; None for no bound.
    """

    now: float | None
    at_most: float | None = None


def enlist(db: Connection, worker: WorkerInfo, lease_now: float | None) -> TouchedRuns:
    """Register a worker, or record that it is alive."""
    check_worker(worker)
    values = (
        worker.id,
        worker.host,
        worker.pid,
        worker.process_started_at,
        worker.group,
        worker.namespace,
        worker.signoff_version,
        worker.python_version,
        worker.build,
        worker.threads,
        worker.threads_busy,
        worker.threads_waiting,
        lease_now,
    )
    row = db.execute(ENLIST, values).fetchone()
    assert row is not None
    touched = TouchedRuns()
    touched.due = row[0]
    return touched


def heartbeat(
    db: Connection,
    namespace: str,
    worker_id: str,
    held: Mapping[str, int],
    lease_now: float | None,
    lease_seconds: float,
) -> set[str]:
    """Extend leases. Returns the runs whose leases are lost."""
    run_ids = sorted(held)  # the global lock order of runs
    values = (namespace, worker_id, run_ids, [held[id] for id in run_ids], lease_now, lease_seconds)
    kept = {row[0] for row in db.execute(HEARTBEAT, values).fetchall()}
    return set(held) - kept


def wait_for_locks(db: Connection) -> Times | None:
    """Wait while a transaction, such as one that builds an index, blocks writes to runs.

    Returns:
        When to try deferred changes; None if there are none.
    """
    return _times(db.execute(WAIT_FOR_LOCKS).fetchone())


def deferred_times(db: Connection) -> Times | None:
    """Return when to try deferred changes; None if there are none."""
    return _times(db.execute(DEFERRED_TIMES).fetchone())


def _times(row: tuple[float | None, float | None] | None) -> Times | None:
    first, last = row or (None, None)
    return None if first is None or last is None else Times(first, last)


def list_failed_changes(db: Connection, limit: int) -> list[SetAsideItem]:
    """Return failed deferred changes of all namespaces."""
    return [_failed_change(*row) for row in db.execute(LIST_FAILED_CHANGES, (limit,)).fetchall()]


def _failed_change(
    namespace: str, id: str, failures: int, first_at: float, next_at: float, code: str, reason: str
) -> SetAsideItem:
    error = f"{text_of_postgres(code, reason)} (SQLSTATE {code})"
    return SetAsideItem(DEFERRED_JOB, namespace, id, failures, error, first_at, next_at)


def make_deferred(db: Connection, now: float | None) -> tuple[Made, TouchedRuns]:
    """Apply due deferred changes one by one. A change that fails is rolled back."""
    row = db.execute(MAKE_DEFERRED, (now, AT_ONCE, LONGEST_SECONDS)).fetchone()
    assert row is not None
    reply = row[0]
    touched = TouchedRuns()
    for namespace, made in reply["made"]:
        touched.ready.add(namespace)
        touched.due = True
        for run_id in made.get("woken") or ():
            touched.touch_woken(namespace, run_id, ready=True)
        for run_id in made.get("ended") or ():
            touched.touch_ended(namespace, run_id)
    failures = [_failed_change(*failed) for failed in reply["failures"]]
    return Made(len(reply["made"]), failures, reply["is_all"]), touched


def hold(db: Connection, lease_now: float | None, served: float, lease_seconds: float) -> float | None:
    """Count time in which expired leases were kept although their holders could have extended them.

    Args:
        db: A connection.
        lease_now: Lease time; None uses the database's clock.
        served: For how many seconds this process could write since its last call.
        lease_seconds: Leases are freed after this many seconds in total, even if each process that kept them had
            just started.

    Returns:
        Leases that expired up to this time are freed anyway; None if none are.
    """
    row = db.execute(HOLD, (lease_now, served, lease_seconds)).fetchone()
    assert row is not None
    return row[0]


def due(db: Connection, now: float | None, lease_time: LeaseTime, limit: int) -> Due:
    """Fire due deadlines and timers; free expired leases."""
    values = (now, lease_time.now, lease_time.at_most, limit, FORGET_SECONDS, TIMED_OUT)
    row = db.execute(DUE, values).fetchone()
    assert row is not None
    return _due(row[0])


def due_each(
    db: Connection, now: float | None, lease_time: LeaseTime, limit: int, skipped: Skipped
) -> Done[Due]:
    """Like ``due``, but one item at a time, except for ``skipped`` items. An item that fails is rolled back."""
    passed_over = {job: {_name(key): True for key in keys} for job, keys in skipped.items()}
    values = (
        now,
        lease_time.now,
        lease_time.at_most,
        min(limit, AT_ONCE),
        FORGET_SECONDS,
        TIMED_OUT,
        to_json(passed_over).decode(),
    )
    row = db.execute(DUE_EACH, values).fetchone()
    assert row is not None
    reply = row[0]
    failures = [
        Failure(job, (namespace, id), ItemFailed(f"{text_of_postgres(code, reason)} (SQLSTATE {code})"))
        for job, namespace, id, code, reason in reply["failures"]
    ]
    busy = [(job, (namespace, id)) for job, namespace, id in reply["busy"]]
    return Done(_due(reply), failures, reply["is_all"], busy)


def claim_each(
    db: Connection,
    namespace: str,
    body: Mapping[str, Any],
    skipped: Sequence[str],
    known: Sequence[str],
    now: float | None,
    lease_now: float | None,
) -> tuple[ClaimedEach, TouchedRuns]:
    """Lease ready runs to a worker one by one, except for ``skipped`` runs. A claim that fails is rolled back."""
    op = to_json({"namespace": namespace, **body}).decode()
    values = (op, now, lease_now, list(skipped), list(known), AT_ONCE, PAGE_BYTES)
    row = db.execute(CLAIM_EACH, values).fetchone()
    assert row is not None
    reply = row[0]
    touched = TouchedRuns()
    touched.due = "due" in reply
    if reply.get("claimable"):
        touched.ready.add(namespace)
    failures = [
        Failure(CLAIM_JOB, (namespace, id), ItemFailed(f"{text_of_postgres(code, reason)} (SQLSTATE {code})"))
        for id, code, reason in reply["failures"]
    ]
    claims: list[Claim] = []
    for made in reply["claims"] or ():
        try:
            claims.append(claim_of(made, namespace, touched))
        except Exception as error:
            failures.append(Failure(CLAIM_JOB, (namespace, str(made[0][1])), error))
    return ClaimedEach(claims, failures, reply["ready"]), touched


def _name(key: Key) -> str:
    """Return an item's key in the format of the SQL function ``due_each``."""
    return f"{len(key[0])}:{key[0]}{key[1]}"


def _due(reply: Mapping[str, Any]) -> Due:
    touched = TouchedRuns()
    for namespace, run_id in reply["woken"]:
        touched.touch_woken(namespace, run_id, ready=True)
    for namespace, run_id in reply["freed"]:
        touched.touch(namespace, run_id, ready=True)
    for namespace, run_id in reply["ended"]:
        touched.touch_ended(namespace, run_id)
        touched.ready.add(namespace)
    touched.ready.update(reply["opened"])
    touched.due = reply["task_due"]
    next_at = reply["next"]
    return Due(None if next_at is None else float(next_at), reply["now"], touched, reply["is_all"])


def release(db: Connection, worker_id: str, now: float | None, *, dead: bool) -> tuple[int, TouchedRuns]:
    """Unregister a worker and make its runs ready."""
    touched = TouchedRuns()
    rows = db.execute(RELEASE, {"worker_id": worker_id, "now": now, "dead": dead}).fetchall()
    for namespace, run_id in rows:
        touched.touch(namespace, run_id, ready=True)
    return len(rows), touched


def release_each(db: Connection, worker_id: str, now: float | None, *, dead: bool) -> tuple[int, TouchedRuns]:
    """Unregister a worker and make its runs ready one by one. Runs that fail stay leased until their leases expire."""
    touched = TouchedRuns()
    freed = 0
    rows = db.execute(RELEASE_EACH, {"worker_id": worker_id, "now": now, "dead": dead}).fetchall()
    for namespace, run_id, code, error in rows:
        if code is None:
            freed += 1
            touched.touch(namespace, run_id, ready=True)
        else:
            log_unreleased(run_id, namespace, f"{text_of_postgres(code, error)} (SQLSTATE {code})")
    return freed, touched
