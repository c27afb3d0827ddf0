"""Deferred changes in SQLite: changes to a run, caused by another run, that SQLite refused. They are retried later."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, cast

from signoff.records.failed_items import SetAsideItem
from signoff.stores.shared.deferred_changes import JOB, Kind, Made, Times
from signoff.stores.shared.failed_items import LONGEST_SECONDS, pause_after
from signoff.stores.shared.failure_isolation import AT_ONCE
from signoff.stores.shared.failure_texts import text_of
from signoff.stores.sqlite.schema import row_unchanged
from signoff.stores.sqlite.transaction import Transaction

DEFER = "INSERT OR IGNORE INTO deferred (namespace, id, kind, n, details) VALUES (?, ?, ?, ?, ?)"

# Two subqueries, because SQLite would scan the whole index for both in one.
TIMES = """
SELECT (SELECT min(next_at) FROM deferred INDEXED BY deferred_next),
    (SELECT max(next_at) FROM deferred INDEXED BY deferred_next)
"""

# As bytes, because a damaged row with invalid Unicode would abort the query.
NEXT_DEFERRED = """
SELECT number, CAST(namespace AS BLOB), CAST(id AS BLOB), CAST(kind AS BLOB), n, CAST(details AS BLOB), failures,
    first_at
FROM deferred INDEXED BY deferred_next
WHERE next_at <= :now OR next_at > :now + :longest
ORDER BY next_at, number LIMIT :limit
"""

FAILED = """
UPDATE deferred SET failures = ?, first_at = ?, next_at = ?, error = ? WHERE number = ?
"""

LIST_FAILED = """
SELECT CAST(namespace AS BLOB), CAST(id AS BLOB), failures, error, first_at, next_at
FROM deferred INDEXED BY deferred_failed
WHERE failures > 0 AND next_at >= 0 ORDER BY next_at, number LIMIT ?
"""

MADE = "DELETE FROM deferred WHERE number = ?"

OF_NONE: Final = -1
"""Stands for the call number of changes without one."""

Make = Callable[[Transaction, str, str, int, dict[str, Any]], object]
"""Makes a change, given the namespace, the id of the run or session, the call number and details."""


def make_or_defer(
    tx: Transaction,
    kind: Kind,
    namespace: str,
    id: str,
    make: Callable[[], object],
    *,
    n: int = OF_NONE,
    details: Mapping[str, Any] | None = None,
) -> bool:
    """Apply a change to another run, or store it for later. Returns whether it was applied."""
    if tx.attempt(make) is None:
        return True
    tx.db.execute(DEFER, (namespace, id, kind, n, json.dumps(details or {})))
    tx.due = True
    return False


def times(db: sqlite3.Connection) -> Times | None:
    """Return when to try deferred changes; None if there are none."""
    first, last = db.execute(TIMES).fetchone()
    return None if first is None else Times(first, last)


def list_failed(db: sqlite3.Connection, limit: int) -> list[SetAsideItem]:
    """Return failed changes, of all namespaces."""
    rows = db.execute(LIST_FAILED, (limit,)).fetchall()
    return [SetAsideItem(JOB, _shown(namespace), _shown(id), *rest) for namespace, id, *rest in rows]


def make_some(tx: Transaction, kinds: dict[Kind, Make]) -> Made:
    """Apply due changes one by one, in all namespaces. A change that fails is rolled back."""
    values = {"now": tx.now, "longest": LONGEST_SECONDS, "limit": AT_ONCE + 1}
    rows = tx.db.execute(NEXT_DEFERRED, values).fetchall()
    failures: list[SetAsideItem] = []
    count = 0

    def make(number: int, namespace: bytes, id: bytes, kind: bytes, n: int, details: bytes) -> None:
        if tx.db.execute(MADE, (number,)).rowcount != 1:
            raise row_unchanged()
        kinds[cast("Kind", kind.decode())](tx, namespace.decode(), id.decode(), n, json.loads(details))

    for number, namespace, id, kind, n, details, failed, first_at in rows[:AT_ONCE]:
        error = tx.attempt(partial(make, number, namespace, id, kind, n, details))
        if error is None:
            count += 1
            continue
        failed += 1
        first_at = tx.now if first_at is None else first_at
        next_at = tx.now + pause_after(failed)
        text = text_of(error)
        tx.db.execute(FAILED, (failed, first_at, next_at, text, number))
        failures.append(SetAsideItem(JOB, _shown(namespace), _shown(id), failed, text, first_at, next_at))
    return Made(count, failures, is_all=len(rows) <= AT_ONCE)


def _shown(name: bytes) -> str:
    return name.decode(errors="replace")
