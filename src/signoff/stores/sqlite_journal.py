"""The journal in SQLite: appending behind the fence of an epoch, and reading."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from signoff.errors import InvalidValue, LeaseLost
from signoff.records import Entry
from signoff.stores.sqlite_rows import ENTRY_COLUMNS, from_entry, to_entry
from signoff.stores.sqlite_writer import Transaction

# The fence and the check for holes are part of the first entry's insert: one statement for the usual append.
APPEND_FIRST = f"""
INSERT INTO journal (namespace, run_id, {ENTRY_COLUMNS})
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11
FROM runs
WHERE namespace = ?1 AND id = ?2 AND epoch = ?12 AND state = 'running'
    AND ?3 = (SELECT coalesce(max(seq), -1) + 1 FROM journal WHERE namespace = ?1 AND run_id = ?2)
"""

ADD = f"INSERT INTO journal (namespace, run_id, {ENTRY_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

NEXT_SEQ = "SELECT coalesce(max(seq), -1) + 1 FROM journal WHERE namespace = ? AND run_id = ?"

FENCE = "SELECT 1 FROM runs WHERE namespace = ? AND id = ? AND epoch = ? AND state = 'running'"

BEGIN_GENERATION = "UPDATE runs SET first_seq = ? WHERE namespace = ? AND id = ?"

READ = f"""
SELECT {ENTRY_COLUMNS} FROM journal
WHERE namespace = ? AND run_id = ? AND seq > ?
ORDER BY seq LIMIT ?
"""


def append(tx: Transaction, namespace: str, run_id: str, epoch: int, entries: Sequence[Entry]) -> None:
    """Append entries for the holder of the lease. With none, only check that the lease holds.

    Raises:
        LeaseLost: It does not.
        InvalidValue: The entries do not go on where the journal ends.
    """
    if not entries:
        check_lease(tx, namespace, run_id, epoch)
        return
    first = entries[0]
    for place, entry in enumerate(entries):
        if entry.seq != first.seq + place:
            raise InvalidValue(
                f"entries[{place}].seq", f"{entry.seq} does not follow {entries[place - 1].seq}"
            )
    values = (namespace, run_id, *from_entry(first), epoch)
    if tx.db.execute(APPEND_FIRST, values).rowcount == 0:
        check_lease(tx, namespace, run_id, epoch)
        expected = next_seq(tx, namespace, run_id)
        raise InvalidValue("entries[0].seq", f"{first.seq}, but run {run_id!r} goes on at {expected}")
    if len(entries) > 1:
        add(tx, namespace, run_id, entries[1:])
    tx.touch(namespace, run_id)


def add(tx: Transaction, namespace: str, run_id: str, entries: Sequence[Entry]) -> None:
    """Append entries without a fence."""
    tx.db.executemany(ADD, [(namespace, run_id, *from_entry(entry)) for entry in entries])
    tx.touch(namespace, run_id)


def check_lease(tx: Transaction, namespace: str, run_id: str, epoch: int) -> None:
    """Raise LeaseLost if the run is not running in this epoch."""
    if tx.db.execute(FENCE, (namespace, run_id, epoch)).fetchone() is None:
        raise LeaseLost(run_id, epoch)


def next_seq(tx: Transaction, namespace: str, run_id: str) -> int:
    """Return where the journal goes on."""
    return tx.db.execute(NEXT_SEQ, (namespace, run_id)).fetchone()[0]


def begin_generation(tx: Transaction, namespace: str, run_id: str, first_seq: int) -> None:
    """Note where the journal of a new generation begins."""
    tx.db.execute(BEGIN_GENERATION, (first_seq, namespace, run_id))


def read_journal(
    db: sqlite3.Connection, namespace: str, run_id: str, after: int, limit: int | None
) -> list[Entry]:
    """Return the entries after seq ``after``, in order."""
    rows = db.execute(READ, (namespace, run_id, after, -1 if limit is None else limit)).fetchall()
    return [to_entry(row) for row in rows]
