"""The audit trail in SQLite: immutable events and the hash chain that seals them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from signoff.records import AuditEvent, NewAuditEvent, Seal
from signoff.records.failed_items import Unreadable
from signoff.records.origins import text_of
from signoff.records.paging import AuditFilter, Page, page_number
from signoff.stores.shared.listed_payloads import Listing, read_page, size_in_sqlite
from signoff.stores.shared.readable_rows import read_each
from signoff.stores.shared.rows import EVENT_WIDTH, to_event
from signoff.stores.sqlite.schema import row_unchanged
from signoff.stores.sqlite.transaction import Transaction

COLUMNS = "audit.namespace, audit.id, at, kind, question_id, run_id, by, details, origin"

RECORD = """
INSERT INTO audit (namespace, id, at, kind, question_id, run_id, by, details, origin)
SELECT :namespace, :id, :at, :kind, :question_id, :run_id, :by, :details, :origin
WHERE NOT EXISTS (SELECT 1 FROM audit WHERE namespace = :namespace AND id = :id)
"""

LISTING = Listing(AuditEvent, COLUMNS, size_in_sqlite)

LIST = f"""
SELECT {LISTING.columns}, seals.seq, hash, number
FROM audit INDEXED BY {{index}} LEFT JOIN seals ON seals.namespace = audit.namespace AND event_id = audit.id
WHERE audit.namespace = :namespace AND {{filter}} AND number > :after
ORDER BY number LIMIT :limit
"""

LIST_ALL = LIST.format(index="audit_by_namespace", filter="TRUE")
LIST_OF_QUESTION = LIST.format(
    index="audit_by_question",
    filter="question_id = :question_id AND (:run_id IS NULL OR run_id = :run_id)",
)
LIST_OF_RUN = LIST.format(index="audit_by_run", filter="run_id = :run_id")

READ_CHAIN = f"""
SELECT seals.seq, event_id, hash, {LISTING.columns}
FROM seals LEFT JOIN audit ON audit.namespace = seals.namespace AND audit.id = event_id
WHERE seals.namespace = ? AND seals.seq > ?
ORDER BY seals.seq LIMIT ?
"""

UNSEALED = f"""
SELECT {LISTING.columns} FROM unsealed CROSS JOIN audit USING (number)
WHERE namespace NOT IN (SELECT value FROM json_each(?))
ORDER BY number LIMIT ?
"""

LAST_SEAL = "SELECT seq, event_id, hash FROM seals WHERE namespace = ? ORDER BY seq DESC LIMIT 1"

NEXT_SEALED = "SELECT min(namespace) FROM seals WHERE namespace > ?"

TAKE_UNSEALED = """
DELETE FROM unsealed WHERE number = (SELECT number FROM audit WHERE id = ? AND namespace = ?)
"""

SEAL = "INSERT INTO seals (namespace, seq, event_id, hash) VALUES (?, ?, ?, ?)"


def record(tx: Transaction, namespace: str, events: Sequence[NewAuditEvent]) -> None:
    """Record events. Events that are already recorded are skipped."""
    for new in events:
        values = {
            "namespace": namespace,
            "id": new.id,
            "at": tx.now,
            "kind": new.kind.value,
            "question_id": new.question_id,
            "run_id": new.run_id,
            "by": new.by,
            "details": new.details,
            "origin": text_of(new.origin),
        }
        tx.db.execute(RECORD, values)


def list_audit(
    db: sqlite3.Connection, namespace: str, which: AuditFilter, after: str | None, limit: int
) -> Page[AuditEvent]:
    """Return a page of events in recording order."""
    statement = LIST_ALL
    if which.question_id is not None:
        statement = LIST_OF_QUESTION
    elif which.run_id is not None:
        statement = LIST_OF_RUN
    values: dict[str, Any] = {
        "namespace": namespace,
        "question_id": which.question_id,
        "run_id": which.run_id,
        "after": page_number(after, 0),
        "limit": limit + 1,
    }
    rows, more = read_page(db.execute(statement, values), limit, LISTING.bytes_of)
    events = tuple(to_event(row[:EVENT_WIDTH], *row[LISTING.width : -1]) for row in rows)
    return Page(events, str(rows[-1][-1]) if more and rows else None)


def read_chain(
    db: sqlite3.Connection, namespace: str, after: int, limit: int
) -> list[tuple[Seal, AuditEvent | None]]:
    """Return the seals after ``after``, each with its event if it still exists."""
    cursor = db.execute(READ_CHAIN, (namespace, after, limit))
    rows, _ = read_page(cursor, limit, lambda row: LISTING.bytes_of(row[3:]))
    return [
        (Seal(*row[:3]), None if row[3] is None else to_event(row[3 : 3 + EVENT_WIDTH], row[0], row[2]))
        for row in rows
    ]


def last_seal(db: sqlite3.Connection, namespace: str) -> Seal | None:
    """Return the last seal of the chain; None if the chain is empty."""
    row = db.execute(LAST_SEAL, (namespace,)).fetchone()
    return None if row is None else Seal(*row)


def heads(db: sqlite3.Connection, after: str, limit: int) -> list[tuple[str, Seal]]:
    """Return the last seal of each chain, sorted by namespace, for namespaces after ``after``."""
    found: list[tuple[str, Seal]] = []
    while len(found) < limit:
        (namespace,) = db.execute(NEXT_SEALED, (found[-1][0] if found else after,)).fetchone()
        if namespace is None:
            break
        found.append((namespace, Seal(*db.execute(LAST_SEAL, (namespace,)).fetchone())))
    return found


def unsealed(db: sqlite3.Connection, limit: int, besides: Sequence[str]) -> list[AuditEvent | Unreadable]:
    """Return the oldest unsealed events of all namespaces except ``besides``."""
    rows, _ = read_page(db.execute(UNSEALED, (json.dumps(list(besides)), limit)), limit, LISTING.bytes_of)
    return read_each((row[:EVENT_WIDTH] for row in rows), to_event)


def seal(tx: Transaction, namespace: str, seals: Sequence[Seal]) -> bool:
    """Append seals to the chain. Returns False, with nothing written, if they do not follow its last seal."""
    last = last_seal(tx.db, namespace)
    length = 0 if last is None else last.seq + 1
    if [each.seq for each in seals] != list(range(length, length + len(seals))):
        return False
    tx.db.execute("SAVEPOINT seal")
    for each in seals:
        if tx.db.execute(TAKE_UNSEALED, (each.event_id, namespace)).rowcount == 0:
            tx.db.execute("ROLLBACK TO seal")
            tx.db.execute("RELEASE seal")
            return False
        if tx.db.execute(SEAL, (namespace, each.seq, each.event_id, each.hash)).rowcount == 0:
            raise row_unchanged()
    tx.db.execute("RELEASE seal")
    return True
