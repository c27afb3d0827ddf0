"""Checks that a Postgres store accepts writes, by a write, and by a test of free disk space.

On a full disk a row still fits into existing pages of a small table, while the rows of runs do not. So the check also
makes the database write half a megabyte to a temporary file, which is deleted at once.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final
from uuid import uuid4

import psycopg

from signoff.stores.contract.store import PROBE
from signoff.stores.postgres.reads import Connection

INSERT: Final = """
INSERT INTO signoff.tokens (namespace, id, kind, hash, subject, created_at)
VALUES (%(namespace)s, %(id)s, %(probe)s, %(id)s, %(probe)s, 0)
"""

DELETE: Final = "DELETE FROM signoff.tokens WHERE namespace = %(namespace)s AND id = %(id)s"


# The planner materializes the function's rows: beyond work_mem that uses a file.
LITTLE_MEMORY: Final = "SET LOCAL work_mem = '64kB'"
SPILL: Final = "SELECT count(*) FROM generate_series(1, 30000)"


def check(db: Connection, namespace: str) -> None:
    """Write a row and delete it in one transaction, and a temporary file in another."""
    values = {"namespace": namespace, "id": f"{PROBE} {uuid4().hex}", "probe": PROBE}
    with db.transaction():
        db.execute(INSERT, values)
        db.execute(DELETE, values)
    # A low ``temp_file_limit`` says nothing about the disk.
    with suppress(psycopg.errors.ConfigurationLimitExceeded), db.transaction():
        db.execute(LITTLE_MEMORY)
        db.execute(SPILL)
