"""Which ready runs a worker gets from SQLite, and in what order."""

from __future__ import annotations

import heapq
import json
import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from signoff.records import Run
from signoff.stores.sqlite_rows import RUN_COLUMNS, RUN_WIDTH, to_run
from signoff.stores.sqlite_transaction import Transaction

# One branch for each workflow: SQLite merges them, each in the order of its index.
CANDIDATES = """
SELECT number, priority, ready_at FROM runs INDEXED BY runs_ready
WHERE namespace = ? AND group_name = ? AND workflow = ? AND state = 'ready'
"""

FIRST = (
    "SELECT -priority, ready_at, number FROM ({branches} ORDER BY priority DESC, ready_at, number LIMIT ?)"
)

WORKFLOWS_AT_ONCE = 200  # SQLite merges up to 500 branches in one statement

ANY_READY = """
SELECT 1 FROM runs INDEXED BY runs_ready
WHERE namespace = ? AND group_name = ? AND state = 'ready'
    AND workflow IN (SELECT value FROM json_each(?))
LIMIT 1
"""

CLAIMED = f"""
SELECT {RUN_COLUMNS}, -priority, ready_at, number FROM runs INDEXED BY runs_claims
WHERE claim_token = ? AND state = 'running' AND namespace = ? AND worker_id = ?
"""

ANY_CLAIMED = "SELECT 1 FROM runs INDEXED BY runs_claims WHERE claim_token = ? AND state = 'running'"

Place = tuple[int, float, int]  # in the order of claims: negative priority, when it became ready, number


def may_claim(
    db: sqlite3.Connection, namespace: str, group: str, workflows: Sequence[str], token: str | None
) -> bool:
    """Whether ``claimed`` or ``choose`` would find a run."""
    if db.execute(ANY_READY, (namespace, group, json.dumps(workflows))).fetchone() is not None:
        return True
    return token is not None and db.execute(ANY_CLAIMED, (token,)).fetchone() is not None


def claimed(tx: Transaction, namespace: str, worker_id: str, token: str) -> list[Run]:
    """Return the runs that a worker still holds under the leases of one call of ``claim``."""
    rows = tx.db.execute(CLAIMED, (token, namespace, worker_id)).fetchall()
    return [to_run(row) for row in sorted(rows, key=lambda row: row[RUN_WIDTH:])]


def choose(
    tx: Transaction, namespace: str, group: str, workflows: Sequence[str], limit: int
) -> Sequence[int]:
    """Return the numbers of the ready runs that are to be claimed next, in the order of claims."""
    places: list[Place] = []
    for start in range(0, len(workflows), WORKFLOWS_AT_ONCE):
        some = workflows[start : start + WORKFLOWS_AT_ONCE]
        values: list[Any] = [value for workflow in some for value in (namespace, group, workflow)]
        places += tx.db.execute(first_statement(len(some)), [*values, limit])
    return [place[2] for place in heapq.nsmallest(limit, places)]


@lru_cache
def first_statement(workflows: int) -> str:
    """Return the statement that finds the ready runs of so many workflows that come first."""
    return FIRST.format(branches="UNION ALL".join([CANDIDATES] * workflows))
