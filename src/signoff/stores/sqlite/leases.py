"""Leases in SQLite: claims, writes by lease holders, heartbeats and releases."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from signoff.errors import InvalidValue, LeaseLost
from signoff.records import Message, Run, WorkerInfo
from signoff.stores.contract.leases import Claim, Outcome, Write
from signoff.stores.contract.validation import check_worker
from signoff.stores.shared.claims import ClaimedEach
from signoff.stores.shared.listed_payloads import PAGE_BYTES, bytes_of
from signoff.stores.shared.rows import WORKER_COLUMNS, to_worker
from signoff.stores.sqlite import claims, journal, live, messages, promises, runs
from signoff.stores.sqlite import transitions as states
from signoff.stores.sqlite.transaction import Transaction

# CROSS JOIN keeps the planner from starting at the runs.
HEARTBEAT = """
UPDATE runs SET lease_until = :lease_until
WHERE number IN (
    SELECT number FROM json_each(:held) AS held
    CROSS JOIN runs ON runs.namespace = :namespace AND runs.id = held.key
    WHERE runs.epoch = held.value AND runs.worker_id = :worker_id AND runs.state = 'running'
)
RETURNING id
"""

ENLIST = f"INSERT OR REPLACE INTO workers ({WORKER_COLUMNS}) VALUES ({', '.join('?' * 13)})"

OLDEST_SEEN = "SELECT min(seen_at) FROM workers"

DELIST = "DELETE FROM workers WHERE id = ?"

LIST_WORKERS = f"""
SELECT {WORKER_COLUMNS},
    (SELECT count(*) FROM runs INDEXED BY runs_held WHERE worker_id = workers.id AND state = 'running')
FROM workers ORDER BY id
"""


def claim(
    tx: Transaction,
    namespace: str,
    worker_id: str,
    group: str,
    workflows: Sequence[str],
    limit: int,
    lease_seconds: float,
    token: str | None,
) -> list[Claim]:
    """Lease ready runs to a worker, or return those that the same call has leased before."""
    claimed = [] if token is None else claims.claimed(tx, namespace, worker_id, token)
    if not claimed:
        lease_until = tx.lease_now + lease_seconds
        claimed = claims.claim(tx, namespace, worker_id, group, workflows, limit, lease_until, token)
    waking = [run.id for run in claimed if run.wakes > 0]
    return _claims_with(claimed, messages.read_messages(tx.db, namespace, waking) if waking else ())


def claim_each(
    tx: Transaction,
    namespace: str,
    worker_id: str,
    group: str,
    workflows: Sequence[str],
    limit: int,
    lease_seconds: float,
    token: str | None,
    skipped: Sequence[str],
    known: Sequence[str],
) -> ClaimedEach:
    """Like ``claim``, but one run at a time, except for ``skipped`` runs."""

    def read(run: Run) -> Claim:
        [claim] = _claims_with(
            [run], messages.read_messages(tx.db, namespace, [run.id]) if run.wakes > 0 else ()
        )
        return claim

    claimed = [] if token is None else claims.claimed(tx, namespace, worker_id, token)
    if claimed:
        return ClaimedEach([read(run) for run in claimed], (), known)
    lease_until = tx.lease_now + lease_seconds
    leased, failures = claims.claim_each(
        tx, namespace, worker_id, group, workflows, limit, lease_until, token, skipped, read
    )
    return ClaimedEach(leased, failures, claims.still_ready(tx, namespace, known))


def _claims_with(runs: Iterable[Run], found: Sequence[tuple[Message, int]]) -> list[Claim]:
    """Return claims of runs with their messages.

    If the messages fill a page there may be more: then the runs' counters show that not all were read.
    """
    if not found:
        return [Claim(run, ()) for run in runs]
    waiting: dict[str, list[Message]] = {}
    for message, _ in found:
        waiting.setdefault(message.run_id, []).append(message)
    is_full = bytes_of([message for message, _ in found]) >= PAGE_BYTES
    return [
        Claim(
            replace(run, wakes=run.wakes - 1) if is_full and run.wakes else run,
            tuple(waiting.get(run.id, ())),
        )
        for run in runs
    ]


def append(tx: Transaction, namespace: str, write: Write) -> bool:
    """Write a batch for the holder of a run's lease. Returns False if it was written before."""
    if not journal.append(tx, namespace, write.run_id, write.epoch, write.entries):
        return False
    if write.taken:
        messages.take(tx, namespace, write.run_id, write.taken)
    for new_promise in write.opens:
        promises.open_promise(tx, namespace, write.run_id, new_promise)
    for promise_id in write.closes:  # after the opens: one batch may open and close a promise
        promises.close_promise(tx, namespace, write.run_id, promise_id)
    for new_run in write.starts:
        runs.start_child(tx, namespace, write.run_id, new_run)
    for run_id in write.cancels:
        runs.cancel_child(tx, namespace, write.run_id, run_id)
    if write.first_seq is not None:
        journal.begin_generation(tx, namespace, write.run_id, write.first_seq)
    for n in write.unpublishes:
        live.delete_of_call(tx, namespace, write.run_id, n)
    return True


def pause(tx: Transaction, namespace: str, write: Write, wakes: int, wake_at: float | None) -> bool:
    """Write the batch and pause the run, unless a message has arrived meanwhile."""
    is_new = append(tx, namespace, write)
    if not is_new and not states.is_running(tx, namespace, write.run_id):
        return True
    if is_new:
        live.delete(tx, namespace, write.run_id)
    return states.pause(tx, namespace, write.run_id, write.epoch, wakes, wake_at)


def complete(tx: Transaction, namespace: str, write: Write, outcome: Outcome) -> None:
    """Write the batch and end the run."""
    if not outcome.state.is_final:
        raise InvalidValue("outcome.state", f"{outcome.state.value} is not an end")
    if not append(tx, namespace, write):
        return
    live.delete(tx, namespace, write.run_id)
    parent = states.end(
        tx,
        namespace,
        write.run_id,
        write.epoch,
        outcome.state,
        outcome.result,
        outcome.error,
        retryable=outcome.retryable,
    )
    if parent is None:
        raise LeaseLost(write.run_id, write.epoch)
    if not outcome.retryable:
        runs.finish(tx, namespace, write.run_id, outcome, parent)


def heartbeat(
    tx: Transaction, namespace: str, worker_id: str, held: Mapping[str, int], lease_seconds: float
) -> set[str]:
    """Extend leases. Returns the runs whose leases are lost."""
    values = {
        "lease_until": tx.lease_now + lease_seconds,
        "held": json.dumps(dict(held)),
        "namespace": namespace,
        "worker_id": worker_id,
    }
    rows = tx.db.execute(HEARTBEAT, values).fetchall()
    return set(held) - {row[0] for row in rows}


def enlist(tx: Transaction, namespace: str, worker: WorkerInfo) -> None:
    """Register a worker, or record that it is alive."""
    check_worker(worker)
    if tx.db.execute(OLDEST_SEEN).fetchone()[0] is None:
        tx.due = True
    started_at = worker.process_started_at
    values = (
        worker.id,
        worker.host,
        worker.pid,
        started_at,
        worker.group,
        worker.namespace,
        worker.signoff_version,
        worker.python_version,
        worker.build,
        worker.threads,
        worker.threads_busy,
        worker.threads_waiting,
        tx.lease_now,
    )
    tx.db.execute(ENLIST, values)


def release(tx: Transaction, namespace: str, worker_id: str, dead: bool) -> int:
    """Unregister a worker and make its runs ready."""
    tx.db.execute(DELIST, (worker_id,))
    return states.release(tx, worker_id, dead=dead)


def list_workers(db: sqlite3.Connection) -> list[WorkerInfo]:
    """Return the registered workers."""
    return [to_worker(row) for row in db.execute(LIST_WORKERS).fetchall()]
