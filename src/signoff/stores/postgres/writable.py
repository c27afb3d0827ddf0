"""Checks whether a Postgres store accepts writes and its disk has space, by writing.

On a full disk the probe's row may still fit into an existing page of its table, while rows of runs do not. So the probe
also makes the database write half a megabyte to a temporary file, which the database removes at once.
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


# The executor materializes the function's rows: beyond work_mem it writes them to a temporary file.
LITTLE_MEMORY: Final = "SET LOCAL work_mem = '64kB'"
SPILL: Final = "SELECT count(*) FROM generate_series(1, 30000)"


def check(db: Connection, namespace: str) -> None:
    """Insert and delete a row in one transaction, and write a temporary file in another."""
    values = {"namespace": namespace, "id": f"{PROBE} {uuid4().hex}", "probe": PROBE}
    with db.transaction():
        db.execute(INSERT, values)
        db.execute(DELETE, values)
    # Exceeding a low ``temp_file_limit`` does not mean that the disk is full.
    with suppress(psycopg.errors.ConfigurationLimitExceeded), db.transaction():
        db.execute(LITTLE_MEMORY)
        db.execute(SPILL)
