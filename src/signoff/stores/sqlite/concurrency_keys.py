"""Concurrency keys in SQLite: the ready runs that wait for a slot of their key.

A key's runs share one namespace, group, workflow and key, so a worker that may claim one may claim any of them. A ready
run is a candidate for claims unless it is ``blocked``. The runs of a key that a claim would take are always candidates:

- a claim blocks the runs that it skips because all slots are taken;
- a run that becomes ready behind enough candidates to take all slots is blocked at once;
- when a slot is freed or a candidate disappears, the first blocked run is unblocked (one for each limit, if a key's
  runs have several).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from signoff.stores.shared.failure_isolation import AT_ONCE, ROW_UNCHANGED, ItemFailed
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

# Candidates that claims reach before a run that has just become ready, and that may take its slot.
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
    """The slots shared by the runs of one key."""

    namespace: str
    group: str
    workflow: str
    key: str

    def values(self, **more: object) -> dict[str, object]:
        """Return the parameters of the statements above."""
        names = {"namespace": self.namespace, "group": self.group, "workflow": self.workflow, "key": self.key}
        return {**names, **more}


def taken(tx: Transaction, slots: Slots, limit: int) -> int:
    """Return the number of taken slots, counted up to ``limit``."""
    return tx.db.execute(RUNNING, slots.values(limit=limit)).fetchone()[0]


def line_up(tx: Transaction, slots: Slots, limit: int, priority: int, ready_at: float, number: int) -> bool:
    """Block a ready run if no claim would take it yet. Returns whether it may be claimed."""
    ahead = taken(tx, slots, limit)
    if ahead < limit:
        values = slots.values(limit=limit, priority=priority, ready_at=ready_at, number=number)
        ahead += tx.db.execute(AHEAD, values).fetchone()[0]
    if ahead < limit:
        return True
    block(tx, [number])
    return False


def block(tx: Transaction, numbers: Sequence[int]) -> bool:
    """Block these ready runs until a slot of their key is freed. Returns whether all are blocked."""
    return tx.db.execute(BLOCK, (json.dumps(numbers),)).rowcount == len(numbers)


def slot_freed(tx: Transaction, slots: Slots) -> None:
    """Unblock the next run of a key, and notify workers."""
    unblock_next(tx, slots)
    tx.ready.add(slots.namespace)


def unblock_next(tx: Transaction, slots: Slots) -> None:
    """Unblock the next run of a key."""
    limit: int | None = 0
    while (limit := tx.db.execute(NEXT_LIMIT, slots.values(limit=limit)).fetchone()[0]) is not None:
        _unblock_first(tx, slots, limit)


def unblock(tx: Transaction, namespace: str, run_id: str) -> None:
    """Unblock a run if a slot of its key is free. Otherwise it is unblocked when a slot is freed."""
    row = tx.db.execute(BLOCKED, (namespace, run_id)).fetchone()
    if row is None:
        return
    number, group, workflow, key, limit = row
    if taken(tx, Slots(namespace, group, workflow, key), limit) < limit:
        _unblock(tx, number)
        tx.ready.add(namespace)


def _unblock_first(tx: Transaction, slots: Slots, limit: int) -> None:
    """Unblock the first blocked run of a limit whose row can be changed."""
    for refused in range(AT_ONCE):
        first = tx.db.execute(FIRST_BLOCKED, slots.values(limit=limit, refused=refused)).fetchone()
        if first is None:
            return
        number, run_id = first
        if make_or_defer(tx, "slot", slots.namespace, run_id, partial(_unblock, tx, number)):
            return


def _unblock(tx: Transaction, number: int) -> None:
    if tx.db.execute(UNBLOCK, (number,)).rowcount != 1:  # a trigger has prevented it
        raise ItemFailed(ROW_UNCHANGED)
