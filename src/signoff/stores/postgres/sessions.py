"""Listing sessions in Postgres. ``schema/postgres/functions/sessions.sql`` passes the turn from run to run."""

from __future__ import annotations

from signoff.records import Session
from signoff.records.paging import LAST_NUMBER, Page, page_number
from signoff.stores.postgres.reads import Connection, checked
from signoff.stores.shared.rows import found, to_session

GET = """
SELECT namespace, id, created_at, last_at, last_position, signoff.active_run(namespace, id), last_number
FROM signoff.sessions WHERE id = %s AND namespace = %s
"""

LIST = "SELECT * FROM signoff.listed_sessions(%s, %s, %s)"


def get_session(db: Connection, namespace: str, session_id: str) -> Session:
    """Return a session. Raises NotFound."""
    return found("session", session_id, db.execute(GET, (session_id, namespace)).fetchone(), to_session)


def list_sessions(db: Connection, namespace: str, after: str | None, limit: int) -> Page[Session]:
    """Return a page of sessions, those with the most recently started run first."""
    rows = db.execute(LIST, (namespace, page_number(after, LAST_NUMBER), checked(limit) + 1)).fetchall()
    more = len(rows) > limit
    rows = rows[:limit]
    return Page(tuple(map(to_session, rows)), str(rows[-1][-1]) if more and rows else None)
