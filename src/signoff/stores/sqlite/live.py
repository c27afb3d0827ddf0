"""Live text in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from signoff.records import LiveText
from signoff.stores.contract.live import KEPT_CHARACTERS
from signoff.stores.sqlite.transaction import Transaction

COLUMNS = "run_id, epoch, seq, n, name, attempt, position, kind, text"

HOLDS = "SELECT 1 FROM runs WHERE namespace = ? AND id = ? AND epoch = ? AND state = 'running'"

ADD = f"INSERT OR IGNORE INTO live (namespace, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

DELETE_OLDER = "DELETE FROM live WHERE namespace = ? AND run_id = ? AND epoch < ?"

DELETE_FARTHER = """
DELETE FROM live WHERE namespace = ? AND run_id = ? AND epoch = ? AND n = ? AND attempt = ? AND position < ?
"""

DELETE_OF_CALL = "DELETE FROM live WHERE namespace = ? AND run_id = ? AND n = ?"

DELETE = "DELETE FROM live WHERE namespace = ? AND run_id = ?"

READ = f"""
SELECT {COLUMNS} FROM live
WHERE namespace = :namespace AND run_id = :run_id
    AND epoch = (SELECT epoch FROM runs WHERE namespace = :namespace AND id = :run_id AND state = 'running')
    AND (epoch <> :epoch OR seq > :after)
ORDER BY seq
"""


def publish(tx: Transaction, namespace: str, pieces: Sequence[LiveText]) -> None:
    """Store live text that was published under valid leases."""
    leases = {(piece.run_id, piece.epoch) for piece in pieces}
    holding = {lease for lease in leases if tx.db.execute(HOLDS, (namespace, *lease)).fetchone()}
    for run_id, epoch in holding:
        tx.db.execute(DELETE_OLDER, (namespace, run_id, epoch))
        tx.touch(namespace, run_id)
    newest: dict[tuple[str, int, int, int], int] = {}
    for piece in pieces:
        if (piece.run_id, piece.epoch) not in holding:
            continue
        values = (piece.seq, piece.n, piece.name, piece.attempt, piece.position, piece.kind, piece.text)
        tx.db.execute(ADD, (namespace, piece.run_id, piece.epoch, *values))
        call = (piece.run_id, piece.epoch, piece.n, piece.attempt)
        newest[call] = max(newest.get(call, 0), piece.position)
    for call, position in newest.items():
        if (first := position - KEPT_CHARACTERS) > 0:
            tx.db.execute(DELETE_FARTHER, (namespace, *call, first))


def delete_of_call(tx: Transaction, namespace: str, run_id: str, n: int) -> None:
    """Delete the live text of a call."""
    tx.db.execute(DELETE_OF_CALL, (namespace, run_id, n))


def delete(tx: Transaction, namespace: str, run_id: str) -> None:
    """Delete the live text of a run."""
    tx.db.execute(DELETE, (namespace, run_id))


def read(db: sqlite3.Connection, namespace: str, run_id: str, epoch: int, after: int) -> list[LiveText]:
    """Return a run's live text after the piece ``after`` of epoch ``epoch``."""
    values = {"namespace": namespace, "run_id": run_id, "epoch": epoch, "after": after}
    return [LiveText(*row) for row in db.execute(READ, values)]
