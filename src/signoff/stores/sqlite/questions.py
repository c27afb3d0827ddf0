"""Questions in SQLite: amending pending questions, and finding those whose policies are due."""

from __future__ import annotations

import sqlite3

from signoff.errors import NotFound
from signoff.records import Amendment, Due, Promise, PromiseKind, PromiseState
from signoff.stores.contract.validation import check_amendment
from signoff.stores.shared.rows import PROMISE_COLUMNS, PROMISE_WIDTH
from signoff.stores.sqlite import audit, messages, promises, rules
from signoff.stores.sqlite.rows import assignees_text, to_promise
from signoff.stores.sqlite.schema import row_unchanged
from signoff.stores.sqlite.transaction import Transaction

AMEND = f"""
UPDATE promises
SET version = version + 1, progress = ?, assignees = ?, act_at = ?, due_at = coalesce(?, due_at)
WHERE namespace = ? AND id = ? AND kind = 'question' AND state = 'pending' AND version = ?
    AND (due_at IS NULL OR due_at > ?)
RETURNING {PROMISE_COLUMNS}, number
"""

NOTE = "INSERT INTO amendments (number, token) VALUES (?, ?)"

IS_NOTED = """
SELECT 1 FROM amendments
WHERE number = (SELECT number FROM promises WHERE namespace = ? AND id = ?) AND token = ?
"""

DUE = """
SELECT namespace, id, act_at FROM promises INDEXED BY promises_to_act
WHERE kind = 'question' AND state = 'pending' AND act_at IS NOT NULL AND act_at <= ?
ORDER BY act_at LIMIT ?
"""

NEXT_DUE = """
SELECT min(act_at) FROM promises INDEXED BY promises_to_act
WHERE kind = 'question' AND state = 'pending' AND act_at IS NOT NULL
"""


def amend(
    tx: Transaction, namespace: str, question_id: str, amendment: Amendment, token: str | None
) -> tuple[Promise, bool]:
    """Amend a pending question, settle it if the amendment says so, and record audit events."""
    check_amendment(amendment)
    if token is not None and tx.db.execute(IS_NOTED, (namespace, question_id, token)).fetchone():
        return promises.get_promise(tx.db, namespace, question_id), True
    if not rules.allow(tx, namespace, amendment):
        return _not_amended(tx, namespace, question_id)
    values = (
        amendment.progress,
        assignees_text(amendment.assignees),
        amendment.act_at,
        amendment.due_at,
        namespace,
        question_id,
        amendment.version,
        tx.now,
    )
    row = tx.db.execute(AMEND, values).fetchone()
    if row is None:
        question, _ = _not_amended(tx, namespace, question_id)
        if question.state is PromiseState.PENDING and question.version == amendment.version:
            raise row_unchanged()
        return question, False
    question = to_promise(row)
    if token is not None:
        tx.db.execute(NOTE, (row[PROMISE_WIDTH], token))
    messages.note_answer(tx, namespace, question.run_id, question_id, amendment.request_id)
    rules.note(tx, namespace, amendment)
    audit.record(tx, namespace, amendment.events)
    messages.leave_signal(tx, namespace, amendment.signal)
    if amendment.settlement is not None:
        settled = promises.settle(
            tx, namespace, question_id, PromiseKind.QUESTION, amendment.settlement, None
        )
        assert isinstance(settled, tuple)
        return settled
    tx.runs.setdefault(namespace, set())
    if question.run_id is not None:
        tx.touch(namespace, question.run_id)
    tx.due = tx.due or amendment.act_at is not None or amendment.due_at is not None
    return question, True


def due(db: sqlite3.Connection, now: float, limit: int) -> tuple[list[Due], float | None]:
    """Return the questions of all namespaces whose policies are due, and when the next policy is due."""
    [next_at] = db.execute(NEXT_DUE).fetchone()
    if next_at is None or next_at > now:
        return [], next_at
    return [Due(*row) for row in db.execute(DUE, (now, limit)).fetchall()], next_at


def _not_amended(tx: Transaction, namespace: str, question_id: str) -> tuple[Promise, bool]:
    try:
        question = promises.get_promise(tx.db, namespace, question_id)
    except NotFound:
        raise NotFound("question", question_id) from None
    if question.kind is not PromiseKind.QUESTION:
        raise NotFound("question", question_id)
    if question.state is PromiseState.PENDING and question.due_at is not None and question.due_at <= tx.now:
        return promises.time_out(tx, namespace, question_id), False
    return question, False
