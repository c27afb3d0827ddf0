"""Whether an SQLite store takes writes: found out by one."""

from __future__ import annotations

from typing import Final

from signoff.stores.contract.store import PROBE
from signoff.stores.sqlite.transaction import Transaction

SIZE: Final = 8 * 1024
"""Bytes: more than a page, so that a full disk is noticed, and not only a store that is read-only."""

INSERT: Final = """
INSERT INTO tokens (namespace, id, kind, hash, subject, created_at, label)
VALUES (?, ?, ?, ?, ?, 0, hex(zeroblob(?)))
"""

DELETE: Final = "DELETE FROM tokens WHERE namespace = ? AND id = ?"


def check(tx: Transaction, namespace: str) -> None:
    """Write a row and delete it."""
    tx.db.execute(INSERT, (namespace, PROBE, PROBE, PROBE, PROBE, SIZE // 2))
    tx.db.execute(DELETE, (namespace, PROBE))
