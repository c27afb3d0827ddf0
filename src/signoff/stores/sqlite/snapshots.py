"""Snapshots in SQLite: reads and writes a run with everything needed to continue it elsewhere."""

from __future__ import annotations

import sqlite3
from collections import deque

from signoff.errors import NotFound
from signoff.records import NewAuditEvent, Promise, Run
from signoff.stores.contract.snapshots import (
    Joined,
    Saved,
    SavedRequest,
    SavedRun,
    loaded_run,
    message_row,
    taken_promise,
    taken_run,
    taken_session,
)
from signoff.stores.shared.rows import MESSAGE_COLUMNS, PROMISE_COLUMNS, RUN_WIDTH, of_promise, to_message
from signoff.stores.sqlite import audit, journal, sessions
from signoff.stores.sqlite import transitions as states
from signoff.stores.sqlite.rows import READ_RUN_COLUMNS, assignees_text, to_promise, to_run
from signoff.stores.sqlite.transaction import Transaction

GET = f"SELECT {READ_RUN_COLUMNS}, cancel_asked, deadline_passed FROM runs WHERE namespace = ? AND id = ?"

CHILDREN = """
SELECT id FROM runs INDEXED BY runs_by_parent
WHERE namespace = ? AND parent_id = ? AND parent_id IS NOT NULL AND parent_n IS NOT NULL
    AND (ended_at IS NULL OR retryable)
ORDER BY number
"""

PROMISES = f"""
SELECT {PROMISE_COLUMNS} FROM promises INDEXED BY promises_by_run
WHERE namespace = ? AND run_id = ? AND run_id IS NOT NULL
ORDER BY number
"""

MESSAGES = f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE namespace = ? AND run_id = ? ORDER BY id"

REQUESTS = """
SELECT run_id, request_id, name, value FROM requests WHERE namespace = ? AND run_id = ? ORDER BY request_id
"""

JOINED = """
SELECT target, target_id, n FROM waiters INDEXED BY waiters_by_run WHERE namespace = ? AND run_id = ? ORDER BY n
"""

SHARED_PROMISE = f"SELECT {PROMISE_COLUMNS} FROM promises WHERE namespace = ? AND id = ? AND run_id IS NULL"

WAS_LOADED = "SELECT 1 FROM audit WHERE namespace = ? AND id = ?"

ADD_PROMISE = f"""
INSERT INTO promises ({PROMISE_COLUMNS})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (namespace, id) DO NOTHING
"""

ADD_MESSAGE = f"""
INSERT INTO messages (namespace, {MESSAGE_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

ADD_REQUEST = """
INSERT INTO requests (namespace, run_id, request_id, name, value, session_id) VALUES (?, ?, ?, ?, ?, ?)
"""

ADD_WAITER = "INSERT INTO waiters (namespace, target, target_id, run_id, n) VALUES (?, ?, ?, ?, ?)"


def save_run(db: sqlite3.Connection, namespace: str, run_id: str) -> Saved:
    """Return a consistent snapshot of a run and its unfinished descendants. Raises NotFound."""
    db.execute("BEGIN")
    try:
        runs: list[SavedRun] = []
        left = deque([run_id])
        while left:
            runs.append(_read(db, namespace, left.popleft()))
            left.extend(id for (id,) in db.execute(CHILDREN, (namespace, runs[-1].id)).fetchall())
        shared = {
            joined.id: _shared_promise(db, namespace, joined.id)
            for saved in runs
            for joined in saved.awaited()
            if joined.target == "promise"
        }
        return Saved(tuple(runs), tuple(promise for promise in shared.values() if promise is not None))
    finally:
        db.execute("COMMIT")


def load_run(tx: Transaction, namespace: str, saved: Saved, event: NewAuditEvent) -> Run:
    """Create the runs of a snapshot."""
    if tx.db.execute(WAS_LOADED, (namespace, event.id)).fetchone() is not None:
        return _read(tx.db, namespace, saved.id).run
    firsts = saved.sessions()
    for session_id, first in firsts.items():
        if sessions.is_busy(tx, namespace, session_id):
            raise taken_session(first, session_id)
    for each in saved.by_position():
        run = loaded_run(each, firsts.get(each.run.session_id or ""), tx.now)
        if not states.load(tx, namespace, run, each.cancel_asked, each.deadline_passed):
            raise taken_run(run.id)
        journal.add(tx, namespace, run.id, each.entries)
        for promise in each.promises:
            _add_promise(tx, namespace, saved.id, promise)
        tx.db.executemany(ADD_MESSAGE, [(namespace, *message_row(message)) for message in each.messages])
        requests = [
            (namespace, run.id, made.request_id, made.name, made.value, run.session_id)
            for made in each.requests
        ]
        tx.db.executemany(ADD_REQUEST, requests)
        joins = [(namespace, joined.target, joined.id, run.id, joined.n) for joined in each.awaited()]
        tx.db.executemany(ADD_WAITER, joins)
    for promise in saved.promises:
        _add_promise(tx, namespace, saved.id, promise)
    audit.record(tx, namespace, [event])
    return _read(tx.db, namespace, saved.id).run


def _read(db: sqlite3.Connection, namespace: str, run_id: str) -> SavedRun:
    row = db.execute(GET, (namespace, run_id)).fetchone()
    if row is None:
        raise NotFound("run", run_id)
    whose = (namespace, run_id)
    return SavedRun(
        to_run(row),
        tuple(journal.read_journal(db, namespace, run_id, -1, None)),
        tuple(map(to_promise, db.execute(PROMISES, whose).fetchall())),
        tuple(map(to_message, db.execute(MESSAGES, whose).fetchall())),
        tuple(SavedRequest(*found) for found in db.execute(REQUESTS, whose).fetchall()),
        tuple(Joined(*found) for found in db.execute(JOINED, whose).fetchall()),
        cancel_asked=bool(row[RUN_WIDTH]),
        deadline_passed=bool(row[RUN_WIDTH + 1]),
    )


def _shared_promise(db: sqlite3.Connection, namespace: str, promise_id: str) -> Promise | None:
    row = db.execute(SHARED_PROMISE, (namespace, promise_id)).fetchone()
    return None if row is None else to_promise(row)


def _add_promise(tx: Transaction, namespace: str, run_id: str, promise: Promise) -> None:
    values = of_promise(namespace, promise, assignees_text(promise.assignees))
    if tx.db.execute(ADD_PROMISE, values).rowcount == 0:
        raise taken_promise(run_id, promise.id)
