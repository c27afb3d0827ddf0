"""Checks whether an SQLite store accepts writes, by writing."""

from __future__ import annotations

from typing import Final

from signoff.stores.contract.store import PROBE
from signoff.stores.sqlite.transaction import Transaction

SIZE: Final = 8 * 1024
"""Size of the row in bytes: more than a page, to detect a full disk as well as a read-only file."""

INSERT: Final = """
INSERT INTO tokens (namespace, id, kind, hash, subject, created_at, label)
VALUES (?, ?, ?, ?, ?, 0, hex(zeroblob(?)))
"""

DELETE: Final = "DELETE FROM tokens WHERE namespace = ? AND id = ?"


def check(tx: Transaction, namespace: str) -> None:
    """Insert and delete a row."""
    tx.db.execute(INSERT, (namespace, PROBE, PROBE, PROBE, PROBE, SIZE // 2))
    tx.db.execute(DELETE, (namespace, PROBE))
