"""Which ready runs a worker gets from SQLite, and in what order."""

from __future__ import annotations

import heapq
import json
import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

from signoff.records import Run
from signoff.stores import sqlite_groups as groups
from signoff.stores import sqlite_keys as keys
from signoff.stores import sqlite_states as states
from signoff.stores import suspects
from signoff.stores.sqlite_groups import Room
from signoff.stores.sqlite_keys import Slots
from signoff.stores.sqlite_rows import READ_RUN_COLUMNS, RUN_WIDTH, to_run
from signoff.stores.sqlite_transaction import Transaction

Kind = Literal[
    "new", "again", "suspect"
]  # never started; started before; a suspect, see ``stores/suspects.py``

IS_OF_KIND: dict[Kind, str] = {
    "new": "epoch = 0",
    "again": "epoch > 0 AND takeovers < 2",
    "suspect": "takeovers >= 2 AND min(takeovers, 4) = ?",
}

# One branch for each workflow: SQLite merges them, each in the order of its index.
CANDIDATES = """
SELECT number, priority, ready_at, workflow, concurrency_key, concurrency_limit
FROM runs INDEXED BY runs_ready_{kind}
WHERE namespace = ? AND group_name = ? AND workflow = ? AND state = 'ready' AND blocked = 0 AND {is_of_kind}
"""

FIRST = """
SELECT -priority, ready_at, number, {is_new}, workflow, concurrency_key, concurrency_limit FROM (
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
        WHERE namespace = :namespace AND group_name = :group_name AND state = 'ready' AND epoch = 0 AND blocked = 0
            AND workflow IN (SELECT value FROM json_each(:workflows))
    ) OR EXISTS (
        SELECT 1 FROM runs INDEXED BY runs_ready_again
        WHERE namespace = :namespace AND group_name = :group_name AND state = 'ready' AND epoch > 0 AND blocked = 0
            AND takeovers < 2 AND workflow IN (SELECT value FROM json_each(:workflows))
    ) OR EXISTS (
        SELECT 1 FROM runs INDEXED BY runs_ready_suspect
        WHERE namespace = :namespace AND group_name = :group_name AND state = 'ready' AND blocked = 0
            AND takeovers >= 2 AND workflow IN (SELECT value FROM json_each(:workflows))
    )
) AND NOT EXISTS (SELECT 1 FROM groups WHERE namespace = :namespace AND name = :group_name AND is_paused)
"""

# The highest level of the suspects that are ready.
HIGHEST_LEVEL = """
SELECT max((
    SELECT min(takeovers, 4) FROM runs INDEXED BY runs_ready_suspect
    WHERE namespace = ? AND group_name = ? AND workflow = value AND state = 'ready' AND takeovers >= 2 AND blocked = 0
    ORDER BY min(takeovers, 4) DESC LIMIT 1
))
FROM json_each(?)
"""

HELD_SUSPECTS = f"""
SELECT max(min(takeovers, 4)), count(*) FROM runs INDEXED BY runs_held_suspects
WHERE worker_id = ? AND state = 'running' AND takeovers >= 2 AND takeover_seq = {states.LENGTH}
"""

CLAIMED = f"""
SELECT {READ_RUN_COLUMNS}, -priority, ready_at, number FROM runs INDEXED BY runs_claims
WHERE claim_token = ? AND state = 'running' AND namespace = ? AND worker_id = ?
"""

ANY_CLAIMED = "SELECT 1 FROM runs INDEXED BY runs_claims WHERE claim_token = ? AND state = 'running'"

# In the order of claims: negative priority, when it became ready, number; then whether it never started, its workflow,
# its concurrency key and limit.
Place = tuple[int, float, int, int, str, str | None, int | None]


def may_claim(
    db: sqlite3.Connection, namespace: str, group: str, workflows: Sequence[str], token: str | None
) -> bool:
    """Whether ``claimed`` or ``claim`` may find a run."""
    values = {"namespace": namespace, "group_name": group, "workflows": json.dumps(workflows)}
    if db.execute(ANY_READY, values).fetchone() is not None:
        return True
    return token is not None and db.execute(ANY_CLAIMED, (token,)).fetchone() is not None


def claimed(tx: Transaction, namespace: str, worker_id: str, token: str) -> list[Run]:
    """Return the runs that a worker still holds under the leases of one call of ``claim``."""
    rows = tx.db.execute(CLAIMED, (token, namespace, worker_id)).fetchall()
    return [to_run(row) for row in sorted(rows, key=lambda row: row[RUN_WIDTH:])]


def claim(
    tx: Transaction,
    namespace: str,
    worker_id: str,
    group: str,
    workflows: Sequence[str],
    limit: int,
    lease_until: float,
    token: str | None,
) -> list[Run]:
    """Lease the ready runs that come first to a worker, as far as limits allow: suspects, or others."""
    level, room_for_suspects = _suspects(tx, namespace, worker_id, group, workflows)
    if level is not None:
        most = min(limit, room_for_suspects)
        leased = _lease(tx, namespace, worker_id, group, workflows, most, lease_until, token, level)
        if leased:
            return leased
    return _lease(tx, namespace, worker_id, group, workflows, limit, lease_until, token, None)


def _suspects(
    tx: Transaction, namespace: str, worker_id: str, group: str, workflows: Sequence[str]
) -> tuple[int | None, int]:
    """Return the level of the suspects to claim, None for none, and how many of them the worker has room for."""
    [level] = tx.db.execute(HIGHEST_LEVEL, (namespace, group, json.dumps(workflows))).fetchone()
    if level is None:
        return None, 0
    held_level, held = tx.db.execute(HELD_SUSPECTS, (worker_id,)).fetchone()
    level = held_level or level
    room = suspects.room_of(level) - held
    return (level, room) if room > 0 else (None, 0)


def _lease(
    tx: Transaction,
    namespace: str,
    worker_id: str,
    group: str,
    workflows: Sequence[str],
    limit: int,
    lease_until: float,
    token: str | None,
    level: int | None,
) -> list[Run]:
    """Lease suspects of a level, or runs that are not suspects."""
    leased: list[Run] = []
    while len(leased) < limit:
        room = groups.room(tx, namespace, group, limit - len(leased))
        if room.runs == 0:
            break
        chosen, full = _choose(tx, namespace, group, workflows, room, level)
        leased += states.claim(tx, worker_id, lease_until, chosen, token)
        if not full:
            break
        keys.block(tx, full)
    return leased


def _choose(
    tx: Transaction, namespace: str, group: str, workflows: Sequence[str], room: Room, level: int | None
) -> tuple[list[int], list[int]]:
    """Return the numbers of the runs to claim, in order, and of those passed over because their key's slots are taken.

    If some were passed over there may be more to claim behind them.
    """
    starts = room.runs if room.starts is None else min(room.starts, room.runs)
    new_ones = min(starts + 1, room.runs)  # one more than may start, to see whether one is passed over
    if level is None:
        new = _first(tx, namespace, group, workflows, "new", new_ones)
        again = _first(tx, namespace, group, workflows, "again", room.runs)
    else:
        new = []
        again = _first(tx, namespace, group, workflows, "suspect", room.runs, level)
    ends = [found[-1] for found, most in ((new, new_ones), (again, room.runs)) if len(found) == most]
    chosen: list[int] = []
    full: list[int] = []
    started = 0
    taken: dict[Slots, int] = {}
    for place in heapq.merge(new, again):
        if len(chosen) == room.runs or (full and place > min(ends, default=place)):
            break  # what was passed over may have hidden another that comes before this one
        _, _, number, is_new, workflow, key, limit = place
        slots = None
        if key is not None and limit is not None:
            slots = Slots(namespace, group, workflow, key)
            if slots not in taken:
                taken[slots] = keys.taken(tx, slots, limit)
            if taken[slots] >= limit:
                full.append(number)
                continue
        if is_new and started == room.starts:
            assert room.opens_at is not None
            groups.wait_to_open(tx, namespace, group, room.opens_at)
            continue
        chosen.append(number)
        started += is_new
        if slots is not None:
            taken[slots] += 1
    if started and room.starts is not None:
        groups.note_starts(tx, namespace, group, started)
    return chosen, full


def _first(
    tx: Transaction,
    namespace: str,
    group: str,
    workflows: Sequence[str],
    kind: Kind,
    limit: int,
    level: int | None = None,
) -> list[Place]:
    levels = () if level is None else (level,)
    places: list[Place] = []
    for start in range(0, len(workflows), WORKFLOWS_AT_ONCE):
        some = workflows[start : start + WORKFLOWS_AT_ONCE]
        values: list[Any] = [value for workflow in some for value in (namespace, group, workflow, *levels)]
        places += tx.db.execute(first_statement(len(some), kind), [*values, limit])
    return heapq.nsmallest(limit, places)


@lru_cache
def first_statement(workflows: int, kind: Kind) -> str:
    """Return the statement that finds the ready runs of so many workflows that come first."""
    branch = CANDIDATES.format(kind=kind, is_of_kind=IS_OF_KIND[kind])
    return FIRST.format(is_new=int(kind == "new"), branches="UNION ALL".join([branch] * workflows))
