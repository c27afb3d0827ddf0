"""Concurrency keys in SQLite: which ready runs wait for a slot of their key.

A key's runs are those of one namespace, group, workflow and key, so whoever may claim one may claim any of them.
A ready run is a candidate for claims unless it is ``blocked``. At any time those of a key that a claim would take are
among its candidates:

- a claim blocks what it passes over because the slots are taken;
- a run that becomes ready behind enough candidates to take all slots is blocked at once;
- when a slot is freed, or a candidate vanishes, the first blocked run is unblocked (of each limit, should a key's runs
  have several).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from signoff.stores.shared.one_by_one import AT_ONCE, LEFT_AS_IT_WAS, ItemFailed
from signoff.stores.sqlite.deferred_changes import make_or_defer
from signoff.stores.sqlite.transaction import Transaction

RUNNING = """
SELECT count(*) FROM (
    SELECT 1 FROM runs INDEXED BY runs_by_key
    WHERE namespace = :namespace AND group_name = :group AND workflow = :workflow AND concurrency_key = :key
        AND state = 'running' AND ended_at IS NULL
    LIMIT :limit
)
"""

# Candidates that claims come to before a run that has just become ready, and that may take its slot.
AHEAD = """
SELECT count(*) FROM (
    SELECT 1 FROM runs INDEXED BY runs_by_key
    WHERE namespace = :namespace AND group_name = :group AND workflow = :workflow AND concurrency_key = :key
        AND state = 'ready' AND blocked = 0 AND concurrency_limit >= :limit AND ended_at IS NULL
        AND (priority > :priority OR priority = :priority AND (ready_at, number) < (:ready_at, :number))
    LIMIT :limit
)
"""

BLOCK = "UPDATE runs SET blocked = 1 WHERE number IN (SELECT value FROM json_each(?))"

NEXT_LIMIT = """
SELECT min(concurrency_limit) FROM runs INDEXED BY runs_by_key
WHERE namespace = :namespace AND group_name = :group AND workflow = :workflow AND concurrency_key = :key
    AND state = 'ready' AND blocked = 1 AND concurrency_limit > :limit AND ended_at IS NULL
"""

FIRST_BLOCKED = """
SELECT number, id FROM runs INDEXED BY runs_by_key
WHERE namespace = :namespace AND group_name = :group AND workflow = :workflow AND concurrency_key = :key
    AND state = 'ready' AND blocked = 1 AND concurrency_limit = :limit AND ended_at IS NULL
ORDER BY priority DESC, ready_at, number LIMIT 1 OFFSET :refused
"""

UNBLOCK = "UPDATE runs SET blocked = 0 WHERE number = ?"

BLOCKED = """
SELECT number, group_name, workflow, concurrency_key, concurrency_limit FROM runs
WHERE namespace = ? AND id = ? AND state = 'ready' AND blocked = 1
"""


@dataclass(frozen=True, slots=True)
class Slots:
    """The slots that the runs of one key share."""

    namespace: str
    group: str
    workflow: str
    key: str

    def values(self, **more: object) -> dict[str, object]:
        """Return what the statements above take."""
        names = {"namespace": self.namespace, "group": self.group, "workflow": self.workflow, "key": self.key}
        return {**names, **more}


def taken(tx: Transaction, slots: Slots, limit: int) -> int:
    """Return how many slots are taken, counted up to ``limit``."""
    return tx.db.execute(RUNNING, slots.values(limit=limit)).fetchone()[0]


def line_up(tx: Transaction, slots: Slots, limit: int, priority: int, ready_at: float, number: int) -> bool:
    """Block a ready run if no claim would take it yet. Returns whether one may."""
    ahead = taken(tx, slots, limit)
    if ahead < limit:
        values = slots.values(limit=limit, priority=priority, ready_at=ready_at, number=number)
        ahead += tx.db.execute(AHEAD, values).fetchone()[0]
    if ahead < limit:
        return True
    block(tx, [number])
    return False


def block(tx: Transaction, numbers: Sequence[int]) -> bool:
    """Have claims pass over these ready runs until a slot of their key is freed. Returns whether they all do."""
    return tx.db.execute(BLOCK, (json.dumps(numbers),)).rowcount == len(numbers)


def slot_freed(tx: Transaction, slots: Slots) -> None:
    """Make the next run of a key a candidate, and tell workers."""
    unblock_next(tx, slots)
    tx.ready.add(slots.namespace)


def unblock_next(tx: Transaction, slots: Slots) -> None:
    """Make the next run of a key a candidate."""
    limit: int | None = 0
    while (limit := tx.db.execute(NEXT_LIMIT, slots.values(limit=limit)).fetchone()[0]) is not None:
        _unblock_first(tx, slots, limit)


def unblock(tx: Transaction, namespace: str, run_id: str) -> None:
    """Make a blocked run a candidate, if a slot of its key is free; else the run that frees one does so."""
    row = tx.db.execute(BLOCKED, (namespace, run_id)).fetchone()
    if row is None:
        return
    number, group, workflow, key, limit = row
    if taken(tx, Slots(namespace, group, workflow, key), limit) < limit:
        _unblock(tx, number)
        tx.ready.add(namespace)


def _unblock_first(tx: Transaction, slots: Slots, limit: int) -> None:
    """Make the first blocked run of a limit a candidate that the database lets change."""
    for refused in range(AT_ONCE):
        first = tx.db.execute(FIRST_BLOCKED, slots.values(limit=limit, refused=refused)).fetchone()
        if first is None:
            return
        number, run_id = first
        if make_or_defer(tx, "slot", slots.namespace, run_id, partial(_unblock, tx, number)):
            return


def _unblock(tx: Transaction, number: int) -> None:
    if tx.db.execute(UNBLOCK, (number,)).rowcount != 1:  # a trigger has said so
        raise ItemFailed(LEFT_AS_IT_WAS)
