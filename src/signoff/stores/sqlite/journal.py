"""The journal in SQLite: appends fenced by the lease's epoch, and reads."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from signoff.errors import InvalidValue, LeaseLost
from signoff.records import Entry
from signoff.stores.shared.listed_payloads import first_of
from signoff.stores.shared.rows import ENTRY_COLUMNS, to_entry
from signoff.stores.sqlite import large_values as large
from signoff.stores.sqlite.rows import from_entry
from signoff.stores.sqlite.transaction import Transaction

# Limits of a read that may run on an event loop.
FEW_ENTRIES = 64
FEW_CHARACTERS = 65_536

# The next seq of the journal, and whether the lease still holds. No row if the caller never had the lease, or another
# lease was granted since.
FENCE = """
SELECT
    (SELECT coalesce(max(seq), -1) + 1 FROM journal WHERE namespace = ? AND run_id = ?),
    state = 'running'
FROM runs
WHERE namespace = ? AND id = ? AND epoch = ?
"""

# The most frequent append, fenced in one statement: one entry that continues the journal under a lease that holds.
# Otherwise its seq is NULL, and nothing is inserted.
ADD_NEXT = f"""
INSERT OR IGNORE INTO journal (namespace, run_id, {ENTRY_COLUMNS}) VALUES (
    ?, ?,
    (
        SELECT ? FROM runs
        WHERE namespace = ? AND id = ? AND epoch = ? AND state = 'running'
            AND ? = (SELECT coalesce(max(seq), -1) + 1 FROM journal WHERE namespace = ? AND run_id = ?)
    ),
    ?, ?, ?, ?, ?, ?, ?, ?
)
"""

NEXT_SEQ = "SELECT coalesce(max(seq), -1) + 1 FROM journal WHERE namespace = ? AND run_id = ?"

ADD = f"INSERT INTO journal (namespace, run_id, {ENTRY_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

BEGIN_GENERATION = "UPDATE runs SET first_seq = ? WHERE namespace = ? AND id = ?"

READ = f"""
SELECT {ENTRY_COLUMNS.replace("value", large.of_entry("value"))} FROM journal
WHERE namespace = ? AND run_id = ? AND seq > ?
ORDER BY seq LIMIT ?
"""


def append(tx: Transaction, namespace: str, run_id: str, epoch: int, entries: Sequence[Entry]) -> bool:
    """Append entries for the holder of the lease. Without entries, only check that the lease holds.

    Returns:
        Whether they were appended now; False if the same lease appended them before.

    Raises:
        LeaseLost: The lease does not hold.
        InvalidValue: The entries do not continue the journal.
    """
    if len(entries) == 1:
        seq, *rest = from_entry(entries[0])
        own = (namespace, run_id)
        if tx.db.execute(ADD_NEXT, (*own, seq, *own, epoch, seq, *own, *rest)).rowcount == 1:
            _added(tx, namespace, run_id, entries)
            return True
    found = tx.db.execute(FENCE, (namespace, run_id, namespace, run_id, epoch)).fetchone()
    if found is None:
        raise LeaseLost(run_id, epoch)
    next_seq, is_held = found
    if not is_held or (entries and entries[0].seq < next_seq):
        if _holds(tx, namespace, run_id, entries):
            return False
        if not is_held:
            raise LeaseLost(run_id, epoch)
    if not entries:
        return True
    seq = next_seq
    for entry in entries:
        if entry.seq != seq:
            raise InvalidValue(
                "entries", f"seq {entry.seq} where the journal of {run_id!r} continues at {seq}"
            )
        seq += 1
    add(tx, namespace, run_id, entries)
    return True


def _holds(tx: Transaction, namespace: str, run_id: str, entries: Sequence[Entry]) -> bool:
    """Whether the journal has exactly these entries."""
    if not entries:
        return False
    after = entries[0].seq - 1
    rows = tx.db.execute(READ, (namespace, run_id, after, len(entries))).fetchall()
    return [_entry(row, run_id) for row in rows] == list(entries)


def _entry(row: Sequence[Any], run_id: str) -> Entry:
    if type(row[6]) is bytes:
        return to_entry((*row[:6], large.unpacked(row[6], "journal of run", run_id), *row[7:]))
    return to_entry(row)


def add(tx: Transaction, namespace: str, run_id: str, entries: Sequence[Entry]) -> None:
    """Append entries without checking the lease."""
    if len(entries) == 1:
        tx.db.execute(ADD, (namespace, run_id, *from_entry(entries[0])))
    else:
        tx.db.executemany(ADD, [(namespace, run_id, *from_entry(entry)) for entry in entries])
    _added(tx, namespace, run_id, entries)


def _added(tx: Transaction, namespace: str, run_id: str, entries: Sequence[Entry]) -> None:
    """Add the large values of new entries, and note the change."""
    for entry in entries:
        if large.is_large(entry.value):
            large.put(tx, namespace, run_id, [(entry.seq, entry.value or "")])
    tx.touch(namespace, run_id)


def next_seq(tx: Transaction, namespace: str, run_id: str) -> int:
    """Return the journal's next seq."""
    return tx.db.execute(NEXT_SEQ, (namespace, run_id)).fetchone()[0]


def begin_generation(tx: Transaction, namespace: str, run_id: str, first_seq: int) -> None:
    """Store where the journal of a new generation begins."""
    tx.db.execute(BEGIN_GENERATION, (first_seq, namespace, run_id))


def read_few(
    db: sqlite3.Connection, namespace: str, run_id: str, after: int, limit: int | None
) -> tuple[list[Entry], bool]:
    """Return the first entries after seq ``after``, at least one if any exist, and whether these are all."""
    most = FEW_ENTRIES if limit is None else min(limit, FEW_ENTRIES)
    entries: list[Entry] = []
    size = 0
    for row in db.execute(READ, (namespace, run_id, after, most + 1)):
        if len(entries) == most or size > FEW_CHARACTERS:
            return entries, len(entries) == limit
        entry = _entry(row, run_id)
        entries.append(entry)
        size += len(entry.value or "") + len(entry.error or "") + len(row[8] or "")
    return entries, True


def read_journal(
    db: sqlite3.Connection, namespace: str, run_id: str, after: int, limit: int | None, size: int = 0
) -> list[Entry]:
    """Return the entries after seq ``after``; with a limit, those that fit on a page that has ``size`` bytes."""
    cursor = db.execute(READ, (namespace, run_id, after, -1 if limit is None else limit))
    if limit is None:
        return [_entry(row, run_id) for row in cursor.fetchall()]
    return first_of((_entry(row, run_id) for row in cursor), limit, size)[0]
