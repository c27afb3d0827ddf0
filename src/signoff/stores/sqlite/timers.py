"""Fires due deadlines and timers and frees expired leases in SQLite: all at once, or one by one if that fails."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from signoff.errors import NotFound
from signoff.records import MessageKind
from signoff.stores.contract.timers import GRACE_SECONDS
from signoff.stores.contract.workers import FORGET_SECONDS
from signoff.stores.shared.deferred_changes import Kind, Made
from signoff.stores.shared.failure_isolation import AT_ONCE, Done, Failure, Skipped
from signoff.stores.sqlite import concurrency_keys as keys
from signoff.stores.sqlite import deferred_changes as deferred
from signoff.stores.sqlite import groups, messages, promises, runs, task_states
from signoff.stores.sqlite import transitions as states
from signoff.stores.sqlite.schema import row_unchanged
from signoff.stores.sqlite.transaction import Transaction

FORGET_SILENT = "DELETE FROM workers WHERE seen_at <= ?"

FORGET = "DELETE FROM workers WHERE id = ?"

# When the next promise, timer, run deadline and rate-limited start are due; when the first grace period began; the
# oldest heartbeat of a worker; and when the next leases on a run and on a task expire.
NEXT_DUE = """
SELECT
    (SELECT min(due_at) FROM promises INDEXED BY promises_due WHERE state = 'pending' AND due_at IS NOT NULL),
    (SELECT min(wake_at) FROM runs INDEXED BY runs_timers WHERE state = 'paused' AND wake_at IS NOT NULL),
    (SELECT min(deadline_at) FROM runs INDEXED BY runs_deadlines
        WHERE deadline_at IS NOT NULL AND deadline_passed = 0 AND ended_at IS NULL),
    (SELECT min(opens_at) FROM groups INDEXED BY groups_opening WHERE opens_at IS NOT NULL),
    (SELECT min(max(deadline_at, ready_at)) FROM runs INDEXED BY runs_unclaimed
        WHERE deadline_at IS NOT NULL AND deadline_passed = 1 AND state = 'ready'),
    (SELECT min(seen_at) FROM workers),
    (SELECT min(lease_until) FROM runs INDEXED BY runs_leases WHERE state = 'running'),
    (SELECT min(lease_until) FROM tasks INDEXED BY tasks_leases WHERE state = 'acquired')
"""

SKIPPED = "(SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:skipped))"


@dataclass(frozen=True, slots=True)
class Job:
    """Items of one kind that become due.

    Attributes:
        source: Their table.
        index: The index that finds due items.
        where: The condition for rows that wait for a time.
        at: The column of that time, or an expression of the index.
        id: The column of their id.
        number: The column of the row number.
    """

    source: str
    index: str
    where: str
    at: str
    id: str = "id"
    number: str = "number"

    @property
    def items(self) -> str:
        """The statement that lists (namespace, id, number, time) of items except skipped ones, the first due first."""
        return f"""
            SELECT namespace, {self.id}, {self.number}, {self.at} FROM {self.source} INDEXED BY {self.index}
            WHERE {self.where} AND (namespace, {self.id}) NOT IN {SKIPPED}
            ORDER BY {self.at} LIMIT :limit
        """

    @property
    def is_due(self) -> str:
        """The statement that checks whether an item is due."""
        return f"""
            SELECT 1 FROM {self.source}
            WHERE namespace = :namespace AND {self.id} = :id AND {self.where} AND {self.at} <= :until
        """

    @property
    def any_due(self) -> str:
        """The statement that checks whether any item is due."""
        return f"""
            SELECT 1 FROM {self.source} INDEXED BY {self.index} WHERE {self.where} AND {self.at} <= ? LIMIT 1
        """


JOBS: Final = {
    "promise": Job("promises", "promises_due", "state = 'pending' AND due_at IS NOT NULL", "due_at"),
    "timer": Job("runs", "runs_timers", "state = 'paused' AND wake_at IS NOT NULL", "wake_at"),
    "deadline": Job(
        "runs",
        "runs_deadlines",
        "deadline_at IS NOT NULL AND deadline_passed = 0 AND ended_at IS NULL",
        "deadline_at",
    ),
    "grace": Job(
        "runs",
        "runs_unclaimed",
        "deadline_at IS NOT NULL AND deadline_passed = 1 AND state = 'ready'",
        "max(deadline_at, ready_at)",
    ),
    "lease": Job("runs", "runs_leases", "state = 'running'", "lease_until"),
    "task": Job("tasks", "tasks_leases", "state = 'acquired'", "lease_until", number="NULL"),
    "rate": Job("groups", "groups_opening", "opens_at IS NOT NULL", "opens_at", id="name", number="NULL"),
    "worker": Job("workers", "workers_seen", "true", "seen_at", number="NULL"),
}

ITEMS: Final = {name: job.items for name, job in JOBS.items()}
IS_DUE: Final = {name: job.is_due for name, job in JOBS.items()}
ANY_DUE: Final = {name: job.any_due for name, job in JOBS.items()}

_Do = Callable[[Transaction, str, str, int], object]

DO: Final[dict[str, _Do]] = {
    "promise": lambda tx, namespace, id, _: promises.time_out(tx, namespace, id),
    "timer": lambda tx, _, id, number: states.wake_timer(tx, number),
    "deadline": lambda tx, namespace, id, _: runs.pass_deadline(tx, namespace, id),
    "grace": lambda tx, namespace, id, _: runs.end_unclaimed_run(tx, namespace, id),
    "lease": lambda tx, _, id, number: states.free(tx, number),
    "task": lambda tx, namespace, id, _: task_states.free(tx, namespace, id),
    "rate": lambda tx, namespace, name, _: groups.open_one(tx, namespace, name),
    "worker": lambda tx, _, id, number: tx.db.execute(FORGET, (id,)),
}


def _leave(tx: Transaction, namespace: str, run_id: str, n: int, details: dict[str, Any]) -> None:
    kind = MessageKind(details.pop("kind"))
    messages.leave(tx, namespace, run_id, kind, n=n, **details)


def _cancel(tx: Transaction, namespace: str, run_id: str, n: int, details: dict[str, Any]) -> None:
    with suppress(NotFound):  # it was deleted meanwhile
        runs.cancel(tx, namespace, run_id, None, details["by"])


CHANGES: Final[dict[Kind, deferred.Make]] = {
    "turn": lambda tx, namespace, id, n, details: states.pass_turn(tx, namespace, id),
    "slot": lambda tx, namespace, id, n, details: keys.unblock(tx, namespace, id),
    "cancel": _cancel,
    "message": _leave,
}


def make_deferred(tx: Transaction, namespace: str) -> Made:
    """Retry deferred changes, one by one; see ``deferred_changes``."""
    return deferred.make_some(tx, CHANGES)


@dataclass(frozen=True, slots=True)
class Hold:
    """A hold on expired leases, which are not freed yet.

    Attributes:
        seconds: How long they are held.
        but_until: Leases that expired up to this time, by the lease clock, are freed anyway; None if none are.
    """

    seconds: float
    but_until: float | None


def due(
    tx: Transaction, namespace: str, limit: int, hold: Callable[[Transaction], Hold | None]
) -> tuple[float | None, bool]:
    """Fire due deadlines and timers; free expired leases.

    Args:
        tx: The transaction.
        namespace: Ignored: all namespaces are processed.
        limit: Maximum items of each kind.
        hold: Returns the hold on expired leases; None if there is no hold.

    Returns:
        When the next item is due; and whether all due items were processed, apart from the limit.
    """
    held = hold(tx)
    until = _until(tx, held)
    done = {
        "promise": promises.time_out_due(tx, limit),
        "timer": states.wake_timers(tx, limit),
        "deadline": runs.pass_deadlines(tx, limit),
        "grace": runs.end_unclaimed(tx, limit),
    }
    lease_until = until["lease"]
    if lease_until is not None:
        done["lease"] = states.free_lost(tx, lease_until, limit)
        done["task"] = task_states.free_expired(tx, lease_until, limit)
    done["rate"] = groups.open_due(tx, limit)
    tx.db.execute(FORGET_SILENT, (until["worker"],))
    done["worker"] = 0
    next_at = next_due(tx.db, tx.now, tx.lease_now, 0.0 if held is None else held.seconds)
    is_all = next_at is None or next_at > tx.now or not _any_left(tx, done, until, limit)
    return next_at, is_all


def _any_left(
    tx: Transaction, done: Mapping[str, int], until: Mapping[str, float | None], limit: int
) -> bool:
    """Whether due items remain of a job that did not reach its limit."""
    return any(
        count < limit and tx.db.execute(ANY_DUE[job], (until[job],)).fetchone() is not None
        for job, count in done.items()
    )


def _until(tx: Transaction, held: Hold | None) -> dict[str, float | None]:
    """Return, by job, the time up to which items are due, on the business or the lease clock; None if none are."""
    lease_until = tx.lease_now if held is None else held.but_until
    times: dict[str, float | None] = dict.fromkeys(JOBS, tx.now)
    ends = {
        "grace": tx.now - GRACE_SECONDS,
        "lease": lease_until,
        "task": lease_until,
        "worker": tx.lease_now - FORGET_SECONDS,
    }
    return times | ends


def next_due(db: sqlite3.Connection, now: float, lease_now: float, held_for: float = 0.0) -> float | None:
    """Return when the next item is due, in business time.

    Leases have their own clock: a lease that ends in three seconds is due in three seconds, and none is due before
    ``held_for`` seconds have passed.
    """
    *times, grace_at, seen_at, lease_until, task_until = db.execute(NEXT_DUE).fetchone()
    if grace_at is not None:
        times.append(grace_at + GRACE_SECONDS)
    if seen_at is not None:
        times.append(now + (seen_at + FORGET_SECONDS - lease_now))
    for until in (lease_until, task_until):
        if until is not None:
            times.append(now + max(until - lease_now, held_for))
    return min((time for time in times if time is not None), default=None)


def due_each(
    tx: Transaction,
    namespace: str,
    limit: int,
    skipped: Skipped,
    hold: Callable[[Transaction], Hold | None],
) -> Done[float | None]:
    """Like ``due``, but one item at a time, except for ``skipped`` items. An item that fails is rolled back."""
    limit = min(limit, AT_ONCE)
    held = hold(tx)
    until = _until(tx, held)
    failures: list[Failure] = []
    times: list[float] = []
    is_all = True

    def do(job: str, namespace: str, id: str, number: int, ends: float) -> None:
        DO[job](tx, namespace, id, number)
        if tx.db.execute(IS_DUE[job], {"namespace": namespace, "id": id, "until": ends}).fetchone():
            raise row_unchanged()

    for job, ends in until.items():
        if job in ("lease", "task") and held is not None:
            times.append(tx.now + held.seconds)
        if ends is None:
            continue
        values = {"skipped": json.dumps(skipped.get(job, ())), "limit": limit + 1}
        items = tx.db.execute(ITEMS[job], values).fetchall()
        for namespace, id, number, at in items[:limit]:
            if at > ends:
                times.append(tx.now + at - ends)
                break
            error = tx.attempt(partial(do, job, namespace, id, number, ends))
            if error is not None:
                failures.append(Failure(job, (namespace, id), error))
        else:
            if len(items) > limit:
                is_all = False
                times.append(tx.now + items[limit][3] - ends)
    return Done(min(times, default=None), failures, is_all)
