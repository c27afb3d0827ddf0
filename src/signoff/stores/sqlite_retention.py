"""Deleting runs from SQLite that ended long ago, with everything that is theirs."""

from __future__ import annotations

from signoff.stores.sqlite_transaction import Transaction

FIRST_ENDED = """
SELECT number, id FROM runs INDEXED BY runs_ended
WHERE namespace = ? AND ended_at < ? AND parent_id IS NULL AND ended_at IS NOT NULL AND retryable = 0
ORDER BY ended_at, number LIMIT 1
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

DELETE_MESSAGES = "DELETE FROM messages WHERE namespace = :namespace AND run_id = :run_id"

DELETE_REQUESTS = "DELETE FROM requests WHERE namespace = :namespace AND run_id = :run_id"

DELETE_RUN = "DELETE FROM runs WHERE number = ?"

WHAT_IS_THEIRS = (
    LEAVE_CHILDREN,
    DELETE_PROMISE_WAITERS,
    DELETE_RUN_WAITERS,
    DELETE_JOINS,
    DELETE_CALLBACKS,
    DELETE_PROMISES,
    DELETE_JOURNAL,
    DELETE_MESSAGES,
    DELETE_REQUESTS,
)


def delete_ended(tx: Transaction, namespace: str, before: float, limit: int) -> int:
    """Delete up to ``limit`` runs without a parent that ended before that time. Returns how many."""
    for deleted in range(limit):
        row = tx.db.execute(FIRST_ENDED, (namespace, before)).fetchone()
        if row is None:
            return deleted
        number, run_id = row
        for statement in WHAT_IS_THEIRS:
            tx.db.execute(statement, {"namespace": namespace, "run_id": run_id})
        tx.db.execute(DELETE_RUN, (number,))
        tx.touch(namespace, run_id)
    return limit
