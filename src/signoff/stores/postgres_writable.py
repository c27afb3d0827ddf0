"""Whether a Postgres store takes writes: found out by one."""

from __future__ import annotations

from typing import Final
from uuid import uuid4

from signoff.stores.base import PROBE
from signoff.stores.postgres_reads import Connection

INSERT: Final = """
INSERT INTO signoff.tokens (namespace, id, kind, hash, subject, created_at)
VALUES (%(namespace)s, %(id)s, %(probe)s, %(id)s, %(probe)s, 0)
"""

DELETE: Final = "DELETE FROM signoff.tokens WHERE namespace = %(namespace)s AND id = %(id)s"


def check(db: Connection, namespace: str) -> None:
    """Write a row and delete it, in one transaction."""
    values = {"namespace": namespace, "id": f"{PROBE} {uuid4().hex}", "probe": PROBE}
    with db.transaction():
        db.execute(INSERT, values)
        db.execute(DELETE, values)
