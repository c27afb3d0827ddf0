"""Which ready runs a worker gets from SQLite, and in what order."""

from __future__ import annotations

import heapq
import json
import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

from signoff.stores import sqlite_groups as groups
from signoff.stores.sqlite_groups import Room
from signoff.stores.sqlite_transaction import Transaction

Kind = Literal["new", "again"]  # never started, or started before

IS_OF_KIND: dict[Kind, str] = {"new": "epoch = 0", "again": "epoch > 0"}

# One branch for each workflow: SQLite merges them, each in the order of its index.
CANDIDATES = """
SELECT number, priority, ready_at FROM runs INDEXED BY runs_ready_{kind}
WHERE namespace = ? AND group_name = ? AND workflow = ? AND state = 'ready' AND {is_of_kind}
"""

FIRST = """
SELECT -priority, ready_at, number, {is_new} FROM (
    {branches}
    ORDER BY priority DESC, ready_at, number LIMIT ?
)
"""

WORKFLOWS_AT_ONCE = 200  # SQLite merges up to 500 branches in one statement

ANY_READY = """
SELECT 1
WHERE (
    EXISTS (
        SELECT 1 FROM runs INDEXED BY runs_ready_new
        WHERE namespace = :namespace AND group_name = :group_name AND state = 'ready' AND epoch = 0
            AND workflow IN (SELECT value FROM json_each(:workflows))
    ) OR EXISTS (
        SELECT 1 FROM runs INDEXED BY runs_ready_again
        WHERE namespace = :namespace AND group_name = :group_name AND state = 'ready' AND epoch > 0
            AND workflow IN (SELECT value FROM json_each(:workflows))
    )
) AND NOT EXISTS (SELECT 1 FROM groups WHERE namespace = :namespace AND name = :group_name AND is_paused)
"""

# In the order of claims: negative priority, when it became ready, number; and whether it never started.
Place = tuple[int, float, int, int]


def any_ready(db: sqlite3.Connection, namespace: str, group: str, workflows: Sequence[str]) -> bool:
    """Whether ``choose`` may find a run."""
    values = {"namespace": namespace, "group_name": group, "workflows": json.dumps(workflows)}
    return db.execute(ANY_READY, values).fetchone() is not None


def choose(
    tx: Transaction, namespace: str, group: str, workflows: Sequence[str], limit: int
) -> Sequence[int]:
    """Return the numbers of the ready runs that are to be claimed next, in the order of claims."""
    room = groups.room(tx, namespace, group, limit)
    if room.runs == 0:
        return []
    starts = room.runs if room.starts is None else min(room.starts, room.runs)
    new_ones = min(starts + 1, room.runs)  # one more than may start, to see whether one is passed over
    places = [
        *_first(tx, namespace, group, workflows, "new", new_ones),
        *_first(tx, namespace, group, workflows, "again", room.runs),
    ]
    return _take(tx, namespace, group, sorted(places), room)


def _take(tx: Transaction, namespace: str, group: str, places: Sequence[Place], room: Room) -> list[int]:
    """Take from ordered candidates what there is room for."""
    taken: list[int] = []
    started = 0
    for place in places:
        if len(taken) == room.runs:
            break
        _, _, number, is_new = place
        if is_new and started == room.starts:
            assert room.opens_at is not None
            groups.wait_to_open(tx, namespace, group, room.opens_at)
            continue
        taken.append(number)
        started += is_new
    if started and room.starts is not None:
        groups.note_starts(tx, namespace, group, started)
    return taken


def _first(
    tx: Transaction, namespace: str, group: str, workflows: Sequence[str], kind: Kind, limit: int
) -> list[Place]:
    places: list[Place] = []
    for start in range(0, len(workflows), WORKFLOWS_AT_ONCE):
        some = workflows[start : start + WORKFLOWS_AT_ONCE]
        values: list[Any] = [value for workflow in some for value in (namespace, group, workflow)]
        places += tx.db.execute(first_statement(len(some), kind), [*values, limit])
    return heapq.nsmallest(limit, places)


@lru_cache
def first_statement(workflows: int, kind: Kind) -> str:
    """Return the statement that finds the ready runs of so many workflows that come first."""
    branch = CANDIDATES.format(kind=kind, is_of_kind=IS_OF_KIND[kind])
    return FIRST.format(is_new=int(kind == "new"), branches="UNION ALL".join([branch] * workflows))
