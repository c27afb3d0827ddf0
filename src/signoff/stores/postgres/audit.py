"""The audit trail in Postgres: immutable events and the hash chain that seals them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString, cast

from pydantic_core import to_json

from signoff.records import AuditEvent, NewAuditEvent, Seal
from signoff.records.failed_items import Unreadable
from signoff.records.paging import AuditFilter, Page, page_number
from signoff.stores.postgres.reads import Connection, checked
from signoff.stores.postgres.rows import from_event
from signoff.stores.postgres.write_requests import JsonRequest, Reply, Request
from signoff.stores.shared.listed_payloads import Listing, cut, size_in_postgres, within_page
from signoff.stores.shared.readable_rows import read_each
from signoff.stores.shared.rows import EVENT_COLUMNS, EVENT_WIDTH, to_event
from signoff.stores.shared.touched_runs import TouchedRuns

LISTING = Listing(AuditEvent, EVENT_COLUMNS, size_in_postgres)

LISTED = f"""
SELECT {LISTING.columns}, seal.seq, seal.hash, number
FROM signoff.recorded(%s, %s, %s, %s, %s) AS event
LEFT JOIN LATERAL (
    SELECT seq, hash FROM signoff.seals
    WHERE shard = event.shard AND namespace = event.namespace AND event_id = event.id OFFSET 0
) AS seal ON true
"""

LIST = within_page(LISTED, "number")

CHAIN = f"""
SELECT seal.seq, seal.event_id, seal.hash, event.* FROM (
    SELECT * FROM signoff.seals WHERE namespace = %s AND seq > %s ORDER BY seq LIMIT %s
) AS seal
LEFT JOIN LATERAL (
    SELECT {LISTING.columns} FROM signoff.audit
    WHERE shard = seal.shard AND namespace = seal.namespace AND id = seal.event_id OFFSET 0
) AS event ON true
"""

READ_CHAIN = within_page(CHAIN, "seq")

LAST_SEAL = "SELECT seq, event_id, hash FROM signoff.seals WHERE namespace = %s ORDER BY seq DESC LIMIT 1"

HEADS = """
WITH RECURSIVE heads AS (
    (
        SELECT namespace, seq, event_id, hash, 1 AS place FROM signoff.seals
        WHERE namespace = (SELECT min(namespace) FROM signoff.seals WHERE namespace > %s COLLATE "C")
        ORDER BY seq DESC LIMIT 1
    )
    UNION ALL
    SELECT next.*, heads.place + 1 FROM heads CROSS JOIN LATERAL (
        SELECT namespace, seq, event_id, hash FROM signoff.seals
        WHERE namespace = (SELECT min(namespace) FROM signoff.seals WHERE namespace > heads.namespace)
        ORDER BY seq DESC LIMIT 1
    ) AS next
    WHERE heads.place < %s
)
SELECT namespace, seq, event_id, hash FROM heads ORDER BY place
"""

WAITING = f"SELECT {LISTING.columns}, number FROM signoff.waiting_for_seals(%s::text[], %s)"

UNSEALED = within_page(WAITING, "number")

SEAL = "SELECT signoff.seal(%s, %s, %s)"


def record(namespace: str, events: Sequence[NewAuditEvent]) -> Request[None]:
    """Record events. Events that are already recorded are skipped."""

    def read(reply: Reply, touched: TouchedRuns) -> None:
        return None

    return JsonRequest(namespace, {"op": "record", "events": [from_event(event) for event in events]}, read)


def list_audit(
    db: Connection, namespace: str, which: AuditFilter, after: str | None, limit: int
) -> Page[AuditEvent]:
    """Return a page of events in recording order."""
    begin = page_number(after, 0)
    values = (namespace, which.question_id, which.run_id, begin, checked(limit) + 1)
    rows, more = cut(db.execute(cast("LiteralString", LIST), values).fetchall(), limit)
    events = tuple(to_event(row[:EVENT_WIDTH], *row[LISTING.width : -1]) for row in rows)
    return Page(events, str(rows[-1][-1]) if more and rows else None)


def read_chain(
    db: Connection, namespace: str, after: int, limit: int
) -> list[tuple[Seal, AuditEvent | None]]:
    """Return the seals after ``after``, each with its event if it still exists."""
    rows = db.execute(cast("LiteralString", READ_CHAIN), (namespace, after, checked(limit))).fetchall()
    return [
        (Seal(*row[:3]), None if row[3] is None else to_event(row[3 : 3 + EVENT_WIDTH], row[0], row[2]))
        for row in rows
    ]


def last_seal(db: Connection, namespace: str) -> Seal | None:
    """Return the last seal of the chain; None if the chain is empty."""
    row = db.execute(LAST_SEAL, (namespace,)).fetchone()
    return None if row is None else Seal(*row)


def heads(db: Connection, after: str, limit: int) -> list[tuple[str, Seal]]:
    """Return the last seal of each chain, sorted by namespace, for namespaces after ``after``."""
    rows = db.execute(HEADS, (after, checked(limit))).fetchall()
    return [(row[0], Seal(*row[1:])) for row in rows]


def unsealed(db: Connection, limit: int, besides: Sequence[str]) -> list[AuditEvent | Unreadable]:
    """Return the oldest unsealed events of all namespaces except ``besides``."""
    rows = db.execute(cast("LiteralString", UNSEALED), (list(besides), checked(limit))).fetchall()
    return read_each((row[:EVENT_WIDTH] for row in rows), to_event)


def seal(db: Connection, namespace: str, seals: Sequence[Seal]) -> bool:
    """Append seals to the chain. Returns False, with nothing written, if they do not follow its last seal."""
    if not seals:
        return True
    first = seals[0].seq
    if [each.seq for each in seals] != list(range(first, first + len(seals))):
        return False
    made = to_json([{"event_id": each.event_id, "hash": each.hash} for each in seals]).decode()
    row = db.execute(SEAL, (namespace, first, made)).fetchone()
    return row is not None and row[0]
