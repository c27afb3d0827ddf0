"""Sessions in SQLite: the current turn, positions, and lists. ``stores/sqlite/transitions.py`` passes the turn on."""

from __future__ import annotations

import sqlite3

from signoff.records import Session
from signoff.records.paging import LAST_NUMBER, Page, page_number
from signoff.stores.shared.rows import found, to_session
from signoff.stores.sqlite.transaction import Transaction

HEAD = """
SELECT id FROM runs INDEXED BY runs_in_line
WHERE namespace = {namespace} AND session_id = {session_id} AND (ended_at IS NULL OR retryable)
ORDER BY position LIMIT 1
"""

IS_BUSY = HEAD.format(namespace=":namespace", session_id=":session_id")

LAST_POSITION = "SELECT last_position FROM sessions WHERE namespace = ? AND id = ?"

NOTE_RUN = """
INSERT INTO sessions (namespace, id, created_at, last_at, last_position, last_number)
VALUES (:namespace, :id, :now, :now, :position, :number)
ON CONFLICT (namespace, id) DO UPDATE
SET last_at = :now, last_position = :position, last_number = :number
"""

COLUMNS = f"""
namespace, id, created_at, last_at, last_position,
({HEAD.format(namespace="sessions.namespace", session_id="sessions.id")}), last_number
"""

GET = f"SELECT {COLUMNS} FROM sessions WHERE namespace = ? AND id = ?"

LIST = f"""
SELECT {COLUMNS} FROM sessions INDEXED BY sessions_by_last
WHERE namespace = ? AND last_number < ?
ORDER BY last_number DESC LIMIT ?
"""


def is_busy(tx: Transaction, namespace: str, session_id: str) -> bool:
    """Whether a new run of a session has to wait for its turn."""
    return tx.db.execute(IS_BUSY, {"namespace": namespace, "session_id": session_id}).fetchone() is not None


def is_behind(tx: Transaction, namespace: str, session_id: str, run_id: str) -> bool:
    """Whether a run of a session has to wait for another one."""
    row = tx.db.execute(IS_BUSY, {"namespace": namespace, "session_id": session_id}).fetchone()
    return row is not None and row[0] != run_id


def next_position(tx: Transaction, namespace: str, session_id: str) -> int:
    """Return the position of a session's next run."""
    row = tx.db.execute(LAST_POSITION, (namespace, session_id)).fetchone()
    return 1 if row is None else row[0] + 1


def note_run(tx: Transaction, namespace: str, session_id: str, position: int, number: int) -> None:
    """Record the start of a session's next run. The first one creates the session."""
    values = {"namespace": namespace, "id": session_id, "position": position, "number": number}
    tx.db.execute(NOTE_RUN, {**values, "now": tx.now})


def get_session(db: sqlite3.Connection, namespace: str, session_id: str) -> Session:
    """Return a session. Raises NotFound."""
    return found("session", session_id, db.execute(GET, (namespace, session_id)).fetchone(), to_session)


def list_sessions(db: sqlite3.Connection, namespace: str, after: str | None, limit: int) -> Page[Session]:
    """Return a page of sessions, those with the most recently started run first."""
    rows = db.execute(LIST, (namespace, page_number(after, LAST_NUMBER), limit + 1)).fetchall()
    more = len(rows) > limit
    rows = rows[:limit]
    return Page(tuple(map(to_session, rows)), str(rows[-1][-1]) if more and rows else None)
