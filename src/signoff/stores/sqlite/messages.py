"""Messages to runs in SQLite. A message wakes its run."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Literal

from signoff.errors import InvalidState, NotFound, RequestConflict
from signoff.records import Message, MessageKind, NewSignal
from signoff.stores.shared.equality import same_json
from signoff.stores.shared.listed_payloads import first_of, seen_of
from signoff.stores.shared.readable_rows import readable
from signoff.stores.shared.rows import MESSAGE_COLUMNS, to_message
from signoff.stores.sqlite import transitions as states
from signoff.stores.sqlite.deferred_changes import make_or_defer
from signoff.stores.sqlite.transaction import Transaction

LEAVE = """
INSERT INTO messages (namespace, run_id, id, kind, at, n, name, state, value, error, "by", note)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

TAKE = "DELETE FROM messages WHERE namespace = ? AND run_id = ? AND id = ?"

DROP_ALL = "DELETE FROM messages WHERE namespace = ? AND run_id = ?"

DROP = "DELETE FROM messages WHERE namespace = ? AND run_id = ? AND kind = ?"

IS_LEFT = "SELECT 1 FROM messages WHERE namespace = ? AND run_id = ? AND kind = ? AND n = ? AND name = ?"

READ_OF_ONE = f"""
SELECT {MESSAGE_COLUMNS}, (SELECT wakes FROM runs WHERE namespace = :namespace AND id = :run_id)
FROM messages
WHERE namespace = :namespace AND run_id = :run_id
ORDER BY id
"""

READ_OF_MANY = f"""
SELECT {MESSAGE_COLUMNS}, (SELECT wakes FROM runs WHERE namespace = :namespace AND runs.id = messages.run_id)
FROM messages
WHERE namespace = :namespace AND run_id IN (SELECT value FROM json_each(:run_ids))
ORDER BY run_id, id
"""

WAITERS = "SELECT run_id, n FROM waiters WHERE namespace = ? AND target = ? AND target_id = ?"

ADD_WAITER = """
INSERT INTO waiters (namespace, target, target_id, run_id, n) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
"""

REMOVE_WAITS = "DELETE FROM waiters WHERE namespace = ? AND run_id = ?"

REMOVE_WAITER = "DELETE FROM waiters WHERE namespace = ? AND target = ? AND target_id = ? AND run_id = ?"

ENDED = "SELECT state, ended_at IS NOT NULL AND NOT retryable FROM runs WHERE namespace = ? AND id = ?"

REMEMBER_REQUEST = """
INSERT INTO requests (namespace, run_id, request_id, name, value, token) VALUES (?, ?, ?, ?, ?, ?)
"""

FIND_REQUEST = "SELECT name, value, token FROM requests WHERE namespace = ? AND run_id = ? AND request_id = ?"

# The answer or signal that a request id was used for within an execution: a run, or all runs of its session.
FIND_USE = """
SELECT name, value FROM requests
WHERE namespace = :namespace AND run_id = :run_id AND request_id = :request_id
UNION ALL
SELECT name, value FROM requests INDEXED BY requests_of_session
WHERE namespace = :namespace AND request_id = :request_id AND session_id IS NOT NULL AND value IS NULL
    AND session_id = (SELECT session_id FROM runs WHERE namespace = :namespace AND id = :run_id)
LIMIT 1
"""

NOTE_ANSWER = """
INSERT INTO requests (namespace, run_id, request_id, name, session_id)
VALUES (
    :namespace, :run_id, :request_id, :promise_id,
    (SELECT session_id FROM runs WHERE namespace = :namespace AND id = :run_id)
)
"""


def leave(
    tx: Transaction,
    namespace: str,
    run_id: str,
    kind: MessageKind,
    *,
    n: int | None = None,
    name: str | None = None,
    state: str | None = None,
    value: str | None = None,
    error: str | None = None,
    by: str | None = None,
    note: str | None = None,
) -> None:
    """Leave a message for a run and wake it, unless the run has ended."""
    wakes = states.wake(tx, namespace, run_id)
    if wakes is not None:
        tx.db.execute(
            LEAVE, (namespace, run_id, wakes, kind.value, tx.now, n, name, state, value, error, by, note)
        )


def leave_or_defer(
    tx: Transaction, namespace: str, run_id: str, kind: MessageKind, *, n: int, **what: str | None
) -> None:
    """Leave a message for a run that joined a settled promise or run; later, if its row cannot be changed."""
    make_or_defer(
        tx,
        "message",
        namespace,
        run_id,
        lambda: leave(tx, namespace, run_id, kind, n=n, **what),
        n=n,
        details={"kind": kind.value, **what},
    )


def leave_signal(tx: Transaction, namespace: str, signal: NewSignal | None) -> None:
    """Leave a signal that accompanies another write, if there is one."""
    if signal is not None:
        run_id, kind = signal.run_id, MessageKind.SIGNAL
        leave(tx, namespace, run_id, kind, name=signal.name, value=signal.value, by=signal.by)


def take(tx: Transaction, namespace: str, run_id: str, ids: Iterable[int]) -> None:
    """Remove messages that the journal now contains."""
    tx.db.executemany(TAKE, [(namespace, run_id, id) for id in ids])


def is_left(tx: Transaction, namespace: str, run_id: str, n: int, name: str) -> bool:
    """Whether the outcome of call ``n`` is among the run's messages."""
    found = tx.db.execute(IS_LEFT, (namespace, run_id, MessageKind.SETTLED.value, n, name))
    return found.fetchone() is not None


def drop_all(tx: Transaction, namespace: str, run_id: str) -> None:
    """Remove the messages of a run that has ended."""
    tx.db.execute(DROP_ALL, (namespace, run_id))


def drop(tx: Transaction, namespace: str, run_id: str, kind: MessageKind) -> None:
    """Remove a run's messages of one kind."""
    tx.db.execute(DROP, (namespace, run_id, kind.value))


def waiters(
    tx: Transaction, namespace: str, target: Literal["promise", "run"], target_id: str
) -> list[tuple[str, int]]:
    """Return the (run, call) pairs that joined a promise or a run."""
    return tx.db.execute(WAITERS, (namespace, target, target_id)).fetchall()


def join(
    tx: Transaction,
    namespace: str,
    target: Literal["promise", "run"],
    target_id: str,
    run_id: str,
    n: int,
) -> bool:
    """Add call ``n`` of a run as a waiter. Returns whether it is new."""
    return tx.db.execute(ADD_WAITER, (namespace, target, target_id, run_id, n)).rowcount > 0


def unjoin(
    tx: Transaction, namespace: str, target: Literal["promise", "run"], target_id: str, run_id: str
) -> None:
    """Remove a run from the waiters of a promise or run."""
    tx.db.execute(REMOVE_WAITER, (namespace, target, target_id, run_id))


def unjoin_all(tx: Transaction, namespace: str, run_id: str) -> None:
    """Remove an ended run from the waiters of all promises and runs."""
    tx.db.execute(REMOVE_WAITS, (namespace, run_id))


def read_messages(
    db: sqlite3.Connection, namespace: str, run_ids: Sequence[str]
) -> list[tuple[Message, int]]:
    """Return the messages of these runs that fit on a page, oldest first per run, each with its run's ``wakes``."""
    if len(run_ids) == 1:
        cursor = db.execute(READ_OF_ONE, {"namespace": namespace, "run_id": run_ids[0]})
    else:
        cursor = db.execute(READ_OF_MANY, {"namespace": namespace, "run_ids": json.dumps(list(run_ids))})
    rows = readable(
        cursor, lambda row: (to_message(row), row[11]), lambda row: f"message {row[0]} of run {row[1]!r}"
    )
    found, more = first_of(rows)
    return seen_of(found) if more else found


def note_answer(
    tx: Transaction, namespace: str, run_id: str | None, promise_id: str, request_id: str | None
) -> None:
    """Record for the execution that a request id has answered a promise, or voted on a question.

    Raises:
        RequestConflict: It was used for another promise of the execution, or for a signal.
    """
    if run_id is None or request_id is None:
        return
    made = {"namespace": namespace, "run_id": run_id, "request_id": request_id, "promise_id": promise_id}
    known = tx.db.execute(FIND_USE, made).fetchone()
    if known is None:
        tx.db.execute(NOTE_ANSWER, made)
    elif known[0] != promise_id or known[1] is not None:
        raise RequestConflict(request_id, promise_id, known[0])


def signal(
    tx: Transaction,
    namespace: str,
    run_id: str,
    name: str,
    value: str,
    by: str | None,
    request_id: str | None,
    token: str | None,
) -> bool:
    """Leave a signal. Returns False if another call has already sent the same request."""
    request_id = token if request_id is None else request_id
    if request_id is not None:
        known = tx.db.execute(FIND_REQUEST, (namespace, run_id, request_id)).fetchone()
        if known is not None:
            if known[1] is None:
                raise RequestConflict(request_id, run_id, known[0])
            if known[0] != name or not same_json(known[1], value):
                raise RequestConflict(request_id, run_id)
            return token is not None and known[2] == token
    found = tx.db.execute(ENDED, (namespace, run_id)).fetchone()
    if found is None:
        raise NotFound("run", run_id)
    state, ended = found
    if ended:
        raise InvalidState(run_id, state, "signal")
    if request_id is not None:
        tx.db.execute(REMEMBER_REQUEST, (namespace, run_id, request_id, name, value, token))
    leave(tx, namespace, run_id, MessageKind.SIGNAL, name=name, value=value, by=by)
    return True
