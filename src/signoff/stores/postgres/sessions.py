"""Listing sessions in Postgres. ``schema/postgres/functions/sessions.sql`` passes the turn from run to run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from signoff.errors import NotFound
from signoff.records import Session
from signoff.records.paging import LAST_NUMBER, Page, page_number
from signoff.stores.postgres.reads import Connection, checked

GET = """
SELECT namespace, id, created_at, last_at, last_position, signoff.active_run(namespace, id), last_number
FROM signoff.sessions WHERE id = %s AND namespace = %s
"""

LIST = "SELECT * FROM signoff.listed_sessions(%s, %s, %s)"


def get_session(db: Connection, namespace: str, session_id: str) -> Session:
    """Return a session. Raises NotFound."""
    row = db.execute(GET, (session_id, namespace)).fetchone()
    if row is None:
        raise NotFound("session", session_id)
    return _session(row)


def list_sessions(db: Connection, namespace: str, after: str | None, limit: int) -> Page[Session]:
    """Return a page of sessions, those with the most recently started run first."""
    rows = db.execute(LIST, (namespace, page_number(after, LAST_NUMBER), checked(limit) + 1)).fetchall()
    more = len(rows) > limit
    rows = rows[:limit]
    return Page(tuple(map(_session, rows)), str(rows[-1][-1]) if more and rows else None)


def _session(row: Sequence[Any]) -> Session:
    return Session(*row[:-1])
