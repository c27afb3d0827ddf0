"""Deletes runs that ended long ago from SQLite, with everything that belongs to them, and promises without a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from signoff.stores.shared import settled_promises as settled
from signoff.stores.shared.failure_isolation import AT_ONCE, Done, Failure, Skipped
from signoff.stores.sqlite.schema import row_unchanged
from signoff.stores.sqlite.transaction import Transaction

JOB: Final = "ended run"

FIRST_ENDED = """
SELECT number, id FROM runs INDEXED BY runs_ended
WHERE namespace = ? AND ended_at < ? AND parent_id IS NULL AND ended_at IS NOT NULL AND retryable = 0
ORDER BY ended_at, number LIMIT 1
"""

NEXT_ENDED = """
SELECT number, id FROM runs INDEXED BY runs_ended
WHERE namespace = ? AND ended_at < ? AND parent_id IS NULL AND ended_at IS NOT NULL AND retryable = 0
    AND id NOT IN (SELECT value FROM json_each(?))
ORDER BY ended_at, number LIMIT ?
"""

LEAVE_CHILDREN = """
UPDATE runs INDEXED BY runs_by_parent SET parent_id = NULL, parent_n = NULL
WHERE namespace = :namespace AND parent_id = :run_id AND parent_id IS NOT NULL
"""

DELETE_PROMISE_WAITERS = """
DELETE FROM waiters
WHERE namespace = :namespace AND target = 'promise' AND target_id IN (
    SELECT id FROM promises INDEXED BY promises_by_run
    WHERE namespace = :namespace AND run_id = :run_id AND run_id IS NOT NULL
)
"""

DELETE_RUN_WAITERS = """
DELETE FROM waiters WHERE namespace = :namespace AND target = 'run' AND target_id = :run_id
"""

DELETE_JOINS = (
    "DELETE FROM waiters INDEXED BY waiters_by_run WHERE namespace = :namespace AND run_id = :run_id"
)

DELETE_CALLBACKS = """
DELETE FROM tokens INDEXED BY tokens_by_question
WHERE namespace = :namespace AND kind = 'callback' AND question_id IS NOT NULL AND question_id IN (
    SELECT id FROM promises INDEXED BY promises_by_run
    WHERE namespace = :namespace AND run_id = :run_id AND run_id IS NOT NULL
)
"""

DELETE_PROMISES = """
DELETE FROM promises INDEXED BY promises_by_run
WHERE namespace = :namespace AND run_id = :run_id AND run_id IS NOT NULL
"""

DELETE_JOURNAL = "DELETE FROM journal WHERE namespace = :namespace AND run_id = :run_id"

DELETE_LARGE_VALUES = "DELETE FROM large_values WHERE namespace = :namespace AND run_id = :run_id"

DELETE_MESSAGES = "DELETE FROM messages WHERE namespace = :namespace AND run_id = :run_id"

# Another run may reuse the id. For a change of turn, the id is the session's.
DELETE_DEFERRED_CHANGES = (
    "DELETE FROM deferred WHERE namespace = :namespace AND id = :run_id AND kind <> 'turn'"
)

DELETE_REQUESTS = "DELETE FROM requests WHERE namespace = :namespace AND run_id = :run_id"

HAS_JOURNAL = "SELECT 1 FROM journal WHERE namespace = ? AND run_id = ? LIMIT 1"

DELETE_RUN = "DELETE FROM runs WHERE number = ?"

SETTLED = """
SELECT settled_at, number, id FROM promises INDEXED BY promises_settled
WHERE namespace = :namespace AND run_id IS NULL AND settled_at < :before
    AND (settled_at, number) > (:settled_at, :number)
ORDER BY settled_at, number LIMIT :limit
"""

IS_KEPT = """
SELECT EXISTS (SELECT 1 FROM runs INDEXED BY runs_by_id WHERE namespace = :namespace AND id = :id)
    OR EXISTS (SELECT 1 FROM waiters WHERE namespace = :namespace AND target = 'promise' AND target_id = :id)
    OR EXISTS (
        SELECT 1 FROM promises INDEXED BY promises_by_id
        WHERE namespace = :namespace AND state = 'pending' AND id IN (
            SELECT branch FROM promise_branches INDEXED BY promise_branches_by_promise
            WHERE namespace = :namespace AND promise_id = :id
            UNION ALL
            SELECT value FROM json_each(:callers)
        )
    )
"""

DELETE_CALLBACK = """
DELETE FROM tokens INDEXED BY tokens_by_question
WHERE namespace = ? AND kind = 'callback' AND question_id IS NOT NULL AND question_id = ?
"""

DELETE_PROMISE = "DELETE FROM promises WHERE number = ?"  # a trigger deletes its task and listeners

WHAT_IS_THEIRS = (
    LEAVE_CHILDREN,
    DELETE_PROMISE_WAITERS,
    DELETE_RUN_WAITERS,
    DELETE_JOINS,
    DELETE_CALLBACKS,
    DELETE_PROMISES,
    DELETE_JOURNAL,
    DELETE_LARGE_VALUES,
    DELETE_MESSAGES,
    DELETE_DEFERRED_CHANGES,
    DELETE_REQUESTS,
)


def delete_ended(tx: Transaction, namespace: str, before: float, limit: int) -> int:
    """Delete up to ``limit`` runs without a parent that ended before ``before``. Returns how many."""
    for deleted in range(limit):
        row = tx.db.execute(FIRST_ENDED, (namespace, before)).fetchone()
        if row is None:
            return deleted
        _delete(tx, namespace, *row)
    return limit


def delete_each(tx: Transaction, namespace: str, before: float, limit: int, skipped: Skipped) -> Done[int]:
    """Like ``delete_ended``, but one run at a time, except for ``skipped`` runs. A failed deletion is rolled back."""
    passed_over = [id for _, id in skipped[JOB]]
    failures: list[Failure] = []
    deleted = 0
    while deleted < limit and len(failures) < AT_ONCE:
        values = (namespace, before, json.dumps(passed_over), limit - deleted)
        rows = tx.db.execute(NEXT_ENDED, values).fetchall()
        if not rows:
            return Done(deleted, failures, is_all=True)
        for number, run_id in rows:
            error = tx.attempt(partial(_delete, tx, namespace, number, run_id))
            if error is None:
                deleted += 1
            else:
                failures.append(Failure(JOB, (namespace, run_id), error))
                passed_over.append(run_id)
    return Done(deleted, failures, is_all=False)


def _delete(tx: Transaction, namespace: str, number: int, run_id: str) -> None:
    for statement in WHAT_IS_THEIRS:
        tx.db.execute(statement, {"namespace": namespace, "run_id": run_id})
    is_gone = tx.db.execute(DELETE_RUN, (number,)).rowcount == 1
    # A remaining journal would be read as that of the next run with this id.
    if not is_gone or tx.db.execute(HAS_JOURNAL, (namespace, run_id)).fetchone() is not None:
        raise row_unchanged()
    tx.touch(namespace, run_id)


def delete_settled(
    tx: Transaction, namespace: str, before: float, limit: int, after: settled.Place
) -> tuple[int, str | None]:
    """Examine up to ``limit`` promises without a run that were settled before ``before``, and delete unused ones."""
    deleted = 0
    rows = _settled(tx, namespace, before, limit, after)
    for _, number, promise_id in rows:
        deleted += _delete_unused(tx, namespace, number, promise_id)
    return deleted, _next(rows, limit)


def delete_each_settled(
    tx: Transaction, namespace: str, before: float, limit: int, after: settled.Place, skipped: Skipped
) -> Done[tuple[int, str | None]]:
    """Like ``delete_settled``, but one at a time, except for ``skipped`` ones. A failed deletion is rolled back."""
    passed_over = {id for _, id in skipped[settled.JOB]}
    failures: list[Failure] = []
    deleted = 0
    rows = _settled(tx, namespace, before, limit, after)
    for _, number, promise_id in rows:
        if promise_id in passed_over:
            continue
        done: list[bool] = []
        error = tx.attempt(lambda: done.append(_delete_unused(tx, namespace, number, promise_id)))  # noqa: B023
        if error is None:
            deleted += done[0]
        else:
            failures.append(Failure(settled.JOB, (namespace, promise_id), error))
    next_after = _next(rows, limit)
    return Done((deleted, next_after), failures, is_all=after == settled.FIRST and next_after is None)


def _settled(
    tx: Transaction, namespace: str, before: float, limit: int, after: settled.Place
) -> Sequence[tuple[Any, ...]]:
    settled_at, number = after
    values = {"namespace": namespace, "before": before, "settled_at": settled_at, "number": number}
    return tx.db.execute(SETTLED, {**values, "limit": limit}).fetchall()


def _next(rows: Sequence[tuple[Any, ...]], limit: int) -> str | None:
    return settled.after((float(rows[-1][0]), rows[-1][1])) if rows and len(rows) == limit else None


def _delete_unused(tx: Transaction, namespace: str, number: int, promise_id: str) -> bool:
    """Delete a promise unless it may still be read. Returns whether it is deleted."""
    values = {"namespace": namespace, "id": promise_id, "callers": json.dumps(settled.callers_of(promise_id))}
    if tx.db.execute(IS_KEPT, values).fetchone()[0]:
        return False
    tx.db.execute(DELETE_CALLBACK, (namespace, promise_id))
    if tx.db.execute(DELETE_PROMISE, (number,)).rowcount != 1:
        raise row_unchanged()
    return True
