"""The outbox of notifications in SQLite: each event becomes deliveries once, and each lane is sent in order."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import asdict

from signoff.errors import NotFound
from signoff.records.deliveries import Delivery, DeliveryState, NewDelivery, Report
from signoff.records.paging import LAST_NUMBER, DeliveryFilter, Page, page_number
from signoff.stores.shared.listed_payloads import Listing, read_page, size_in_sqlite
from signoff.stores.shared.rows import DELIVERY_COLUMNS, to_delivery
from signoff.stores.sqlite.schema import row_unchanged
from signoff.stores.sqlite.transaction import Transaction

LISTING = Listing(Delivery, DELIVERY_COLUMNS, size_in_sqlite)

READ_CURSOR = "SELECT seq FROM channels WHERE namespace = ? AND name = ?"

BEGIN = "INSERT INTO channels (namespace, name, seq) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"

MOVE_ON = "UPDATE channels SET seq = ? WHERE namespace = ? AND name = ? AND seq = ?"

LANE_IS_BUSY = """
EXISTS (
    SELECT 1 FROM deliveries AS other INDEXED BY deliveries_in_lane
    WHERE other.namespace = :namespace AND other.channel = :channel AND other.question_id = :question_id
        AND other.recipient = :recipient AND other.state = 'pending'
)
"""

CREATE = f"""
INSERT INTO deliveries (
    namespace, id, channel, recipient, event_id, seq, kind, question_id, run_id, state, created_at, due_at
) VALUES (
    :namespace, :id, :channel, :recipient, :event_id, :seq, :kind, :question_id, :run_id, 'pending', :now,
    CASE WHEN {LANE_IS_BUSY} THEN NULL ELSE :now END
)
ON CONFLICT (namespace, id) DO NOTHING
"""

NEXT_DUE = """
SELECT min(due_at) FROM deliveries INDEXED BY deliveries_due
WHERE namespace = ? AND channel = ? AND state = 'pending' AND due_at IS NOT NULL
"""

DUE = """
SELECT number FROM deliveries INDEXED BY deliveries_due
WHERE namespace = ? AND channel = ? AND state = 'pending' AND due_at <= ?
ORDER BY due_at, number LIMIT ?
"""

NEXT_DUE_OF_OTHERS = """
SELECT due_at FROM deliveries INDEXED BY deliveries_due
WHERE namespace = ? AND channel = ? AND state = 'pending' AND due_at IS NOT NULL
    AND number NOT IN (SELECT value FROM json_each(?))
ORDER BY due_at LIMIT 1
"""

TAKE = (
    f"UPDATE deliveries SET attempts = attempts + 1, due_at = ? WHERE number = ? RETURNING {DELIVERY_COLUMNS}"
)

TRY_AGAIN = """
UPDATE deliveries SET due_at = ?, error = ? WHERE namespace = ? AND id = ? AND state = 'pending' AND attempts = ?
"""

END = """
UPDATE deliveries SET state = ?, due_at = NULL, ended_at = ?, error = ?
WHERE namespace = ? AND id = ? AND state = 'pending' AND attempts = ?
RETURNING channel, question_id, recipient
"""

LET_NEXT_GO = """
UPDATE deliveries SET due_at = ? WHERE number = (
    SELECT number FROM deliveries INDEXED BY deliveries_in_lane
    WHERE namespace = ? AND channel = ? AND question_id = ? AND recipient = ? AND state = 'pending'
    ORDER BY number LIMIT 1
)
"""

GET = f"SELECT {DELIVERY_COLUMNS} FROM deliveries WHERE namespace = ? AND id = ?"

REDELIVER = f"""
UPDATE deliveries
SET number = (SELECT max(number) + 1 FROM deliveries), state = 'pending', created_at = :now, ended_at = NULL,
    error = NULL, due_at = CASE WHEN {LANE_IS_BUSY} THEN NULL ELSE :now END
WHERE namespace = :namespace AND id = :id
RETURNING {DELIVERY_COLUMNS}
"""

DELETE = """
DELETE FROM deliveries WHERE number IN (
    SELECT number FROM deliveries INDEXED BY deliveries_ended
    WHERE namespace = ? AND ended_at < ? ORDER BY ended_at, number LIMIT ?
)
"""

_INDEXES = {
    (False, False): "deliveries_by_namespace",
    (True, False): "deliveries_by_state",
    (False, True): "deliveries_by_channel",
    (True, True): "deliveries_by_channel_and_state",
}


def read_cursor(db: sqlite3.Connection, namespace: str, channel: str) -> int | None:
    """Return a channel's cursor; None if the channel has not started."""
    row = db.execute(READ_CURSOR, (namespace, channel)).fetchone()
    return None if row is None else row[0]


def expand(
    tx: Transaction,
    namespace: str,
    channel: str,
    expected: int | None,
    seq: int,
    deliveries: Sequence[NewDelivery],
) -> bool:
    """Advance a channel's cursor and create deliveries; False if the cursor is not at ``expected``."""
    if expected is None:
        moved = tx.db.execute(BEGIN, (namespace, channel, seq)).rowcount
    else:
        moved = tx.db.execute(MOVE_ON, (seq, namespace, channel, expected)).rowcount
    if not moved:
        if read_cursor(tx.db, namespace, channel) == expected:
            raise row_unchanged()
        return False
    for new in deliveries:
        values = {**asdict(new), "kind": new.kind.value, "namespace": namespace, "channel": channel}
        tx.db.execute(CREATE, {**values, "now": tx.now})
    return True


def next_due(db: sqlite3.Connection, namespace: str, channel: str) -> float | None:
    """Return when the next delivery of a channel is due, if there is one."""
    return db.execute(NEXT_DUE, (namespace, channel)).fetchone()[0]


def claim(
    tx: Transaction, namespace: str, channel: str, limit: int, lease_seconds: float
) -> tuple[list[Delivery], float | None]:
    """Lease due deliveries. Returns them and when the next other delivery is due."""
    numbers = sorted(row[0] for row in tx.db.execute(DUE, (namespace, channel, tx.now, limit)).fetchall())
    until = tx.now + lease_seconds
    taken = [_take(tx, number, until) for number in numbers]
    listed = f"[{','.join(map(str, numbers))}]"
    row = tx.db.execute(NEXT_DUE_OF_OTHERS, (namespace, channel, listed)).fetchone()
    return taken, None if row is None else row[0]


def _take(tx: Transaction, number: int, until: float) -> Delivery:
    row = tx.db.execute(TAKE, (until, number)).fetchone()
    if row is None:
        raise row_unchanged()
    return to_delivery(row)


def finish(tx: Transaction, namespace: str, delivery_id: str, attempt: int, report: Report) -> None:
    """Record the result of an attempt, unless another process has leased the delivery since."""
    if report.state is DeliveryState.PENDING:
        tx.db.execute(TRY_AGAIN, (report.due_at, report.error, namespace, delivery_id, attempt))
        return
    values = (report.state.value, tx.now, report.error, namespace, delivery_id, attempt)
    lane = tx.db.execute(END, values).fetchone()
    if lane is not None:
        tx.db.execute(LET_NEXT_GO, (tx.now, namespace, *lane))


def list_deliveries(
    db: sqlite3.Connection, namespace: str, which: DeliveryFilter, after: str | None, limit: int
) -> Page[Delivery]:
    """Return a page of deliveries, newest first."""
    index = _INDEXES[which.state is not None, which.channel is not None]
    if which.question_id is not None:
        index = "deliveries_by_question"
    asked = {"state": which.state, "channel": which.channel, "question_id": which.question_id}
    given = {name: str(value) for name, value in asked.items() if value is not None}
    conditions = "".join(f" AND {name} = :{name}" for name in given)
    cursor = db.execute(
        f"SELECT {LISTING.columns}, number FROM deliveries INDEXED BY {index} "
        f"WHERE namespace = :namespace{conditions} AND number < :before ORDER BY number DESC LIMIT :limit",
        {**given, "namespace": namespace, "before": page_number(after, LAST_NUMBER), "limit": limit + 1},
    )
    rows, more = read_page(cursor, limit, LISTING.bytes_of)
    return LISTING.page(rows, more, to_delivery)


def redeliver(tx: Transaction, namespace: str, delivery_id: str) -> Delivery:
    """Queue an ended delivery again, at the end of its lane. Raises NotFound."""
    row = tx.db.execute(GET, (namespace, delivery_id)).fetchone()
    if row is None:
        raise NotFound("delivery", delivery_id)
    found = to_delivery(row)
    if found.state is DeliveryState.PENDING:
        return found
    tx.due = True
    values = {
        "namespace": namespace,
        "id": delivery_id,
        "channel": found.channel,
        "question_id": found.question_id,
        "recipient": found.recipient,
        "now": tx.now,
    }
    return to_delivery(tx.db.execute(REDELIVER, values).fetchone())


def delete(tx: Transaction, namespace: str, before: float, limit: int) -> int:
    """Delete up to ``limit`` deliveries that ended before ``before``. Returns how many."""
    return tx.db.execute(DELETE, (namespace, before, limit)).rowcount
