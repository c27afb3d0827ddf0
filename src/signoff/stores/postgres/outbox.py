"""The outbox of notifications in Postgres, on reader connections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import LiteralString, cast

from pydantic_core import to_json

from signoff.errors import NotFound
from signoff.records.deliveries import Delivery, NewDelivery, Report
from signoff.records.paging import LAST_NUMBER, DeliveryFilter, Page, page_number
from signoff.stores.postgres.reads import Connection, checked
from signoff.stores.shared.listed_payloads import Listing, cut, size_in_postgres, within_page
from signoff.stores.shared.rows import DELIVERY_COLUMNS, to_delivery
from signoff.stores.shared.touched_runs import TouchedRuns

READ_CURSOR = "SELECT seq FROM signoff.channels WHERE namespace = %s AND name = %s"

EXPAND = "SELECT signoff.expand(%s, %s, %s, %s, %s, %s)"

CLAIM = f"SELECT number, {DELIVERY_COLUMNS} FROM signoff.claim_deliveries(%s, %s, %s, %s, %s) ORDER BY number"

NEXT_DUE = "SELECT signoff.next_delivery(%s, %s, %s)"

FINISH = "SELECT signoff.finish_delivery(%s, %s, %s, %s, %s, %s, %s)"

LISTING = Listing(Delivery, DELIVERY_COLUMNS, size_in_postgres)

LIST = within_page(
    f"SELECT {LISTING.columns}, number FROM signoff.list_deliveries(%s, %s, %s, %s, %s, %s)", "number DESC"
)

REDELIVER = f"SELECT {DELIVERY_COLUMNS} FROM signoff.redeliver(%s, %s, %s)"

DELETE = "SELECT signoff.delete_deliveries(%s, %s, %s)"


def read_cursor(db: Connection, namespace: str, channel: str) -> int | None:
    """Return a channel's cursor; None if the channel has not started."""
    row = db.execute(READ_CURSOR, (namespace, channel)).fetchone()
    return None if row is None else row[0]


def expand(
    db: Connection,
    namespace: str,
    channel: str,
    expected: int | None,
    seq: int,
    deliveries: Sequence[NewDelivery],
    now: float | None,
) -> bool:
    """Advance a channel's cursor and create deliveries; False if the cursor is not at ``expected``."""
    made = to_json([asdict(new) for new in deliveries]).decode()
    row = db.execute(EXPAND, (namespace, channel, expected, seq, made, now)).fetchone()
    return row is not None and row[0]


def claim(
    db: Connection, namespace: str, channel: str, limit: int, lease_seconds: float, now: float | None
) -> tuple[list[Delivery], float | None]:
    """Lease due deliveries. Returns them and when the next other delivery is due."""
    rows = db.execute(CLAIM, (namespace, channel, checked(limit), lease_seconds, now)).fetchall()
    taken = [to_delivery(row[1:]) for row in rows]
    row = db.execute(NEXT_DUE, (namespace, channel, [each.id for each in taken])).fetchone()
    return taken, None if row is None else row[0]


def finish(
    db: Connection, namespace: str, delivery_id: str, attempt: int, report: Report, now: float | None
) -> None:
    """Record the result of an attempt, unless another process has leased the delivery since."""
    values = (namespace, delivery_id, attempt, report.state.value, report.due_at, report.error, now)
    db.execute(FINISH, values)


def list_deliveries(
    db: Connection, namespace: str, which: DeliveryFilter, after: str | None, limit: int
) -> Page[Delivery]:
    """Return a page of deliveries, newest first."""
    before = page_number(after, LAST_NUMBER)
    state = None if which.state is None else which.state.value
    values = (namespace, state, which.channel, which.question_id, before, checked(limit) + 1)
    rows, more = cut(db.execute(cast("LiteralString", LIST), values).fetchall(), limit)
    return LISTING.page(rows, more, to_delivery)


def redeliver(
    db: Connection, namespace: str, delivery_id: str, now: float | None
) -> tuple[Delivery, TouchedRuns]:
    """Queue an ended delivery again, at the end of its lane. Raises NotFound."""
    row = db.execute(REDELIVER, (namespace, delivery_id, now)).fetchone()
    if row is None:
        raise NotFound("delivery", delivery_id)
    touched = TouchedRuns()
    touched.due = True
    return to_delivery(row), touched


def delete(db: Connection, namespace: str, before: float, limit: int) -> int:
    """Delete up to ``limit`` deliveries that ended before ``before``. Returns how many."""
    row = db.execute(DELETE, (namespace, before, checked(limit))).fetchone()
    return 0 if row is None else row[0]
