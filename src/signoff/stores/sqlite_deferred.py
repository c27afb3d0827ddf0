"""Changes of runs that SQLite refused to make when those of other runs called for them: kept, and made later."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from signoff.stores.deferred import JOB, Kind
from signoff.stores.one_by_one import AT_ONCE, Done, Failure
from signoff.stores.set_aside import Key
from signoff.stores.sqlite_schema import left_as_it_was
from signoff.stores.sqlite_transaction import Transaction

DEFER = "INSERT OR IGNORE INTO deferred (namespace, id, kind, n, details) VALUES (?, ?, ?, ?, ?)"

# A queue: its beginning is read, in the order of its key.
ANY_DEFERRED = "SELECT 1 FROM deferred LIMIT 1"

NEXT_DEFERRED = """
SELECT number, namespace, id, kind, n, details FROM deferred
WHERE (namespace, id) NOT IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:skipped)
)
ORDER BY number LIMIT :limit
"""

MADE = "DELETE FROM deferred WHERE number = ?"

OF_NONE: Final = -1
"""In place of the number of a call."""

Make = Callable[[Transaction, str, str, int, dict[str, Any]], object]
"""Makes a change: of the run or session in a namespace, and its call."""


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
    """Make a change of another run than the one in hand, or note that it is to be made. Returns whether it is made."""
    if tx.attempt(make) is None:
        return True
    tx.db.execute(DEFER, (namespace, id, kind, n, json.dumps(details or {})))
    tx.due = True
    return False


def any_left(db: sqlite3.Connection) -> bool:
    """Whether there are changes to make."""
    return db.execute(ANY_DEFERRED).fetchone() is not None


def make_each(tx: Transaction, kinds: dict[Kind, Make], skipped: Sequence[Key]) -> Done[None]:
    """Make changes one by one, in every namespace, but for those to pass over. What fails leaves nothing behind."""
    rows = tx.db.execute(NEXT_DEFERRED, {"skipped": json.dumps(skipped), "limit": AT_ONCE + 1}).fetchall()
    failures: list[Failure] = []

    def make(number: int, namespace: str, id: str, kind: Kind, n: int, details: str) -> None:
        if tx.db.execute(MADE, (number,)).rowcount != 1:
            raise left_as_it_was()
        kinds[kind](tx, namespace, id, n, json.loads(details))

    for row in rows[:AT_ONCE]:
        _, namespace, id, *_ = row
        error = tx.attempt(partial(make, *row))
        if error is not None:
            failures.append(Failure(JOB, (namespace, id), error))
    return Done(None, failures, is_all=len(rows) <= AT_ONCE)
