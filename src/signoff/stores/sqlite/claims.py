"""Selects the ready runs that a worker gets from SQLite, in order."""

from __future__ import annotations

import heapq
import json
import sqlite3
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, Literal, TypeVar

from signoff.records import Run
from signoff.stores.contract.leases import Claim
from signoff.stores.shared import suspect_runs
from signoff.stores.shared.claims import JOB
from signoff.stores.shared.failure_isolation import AT_ONCE, ROW_UNCHANGED, Failure, ItemFailed
from signoff.stores.shared.listed_payloads import PAGE_BYTES, bytes_of
from signoff.stores.shared.rows import RUN_WIDTH
from signoff.stores.sqlite import concurrency_keys as keys
from signoff.stores.sqlite import groups
from signoff.stores.sqlite import transitions as states
from signoff.stores.sqlite.concurrency_keys import Slots
from signoff.stores.sqlite.groups import Room
from signoff.stores.sqlite.rows import READ_RUN_COLUMNS, to_run
from signoff.stores.sqlite.schema import is_fault_of_one, own_error
from signoff.stores.sqlite.transaction import Transaction

T = TypeVar("T")

Kind = Literal[
    "new", "again", "suspect"
]  # never started; started before; a suspect, see ``stores/shared/suspect_runs.py``

IS_OF_KIND: dict[Kind, str] = {
    "new": "epoch = 0",
    "again": "epoch > 0 AND takeovers < 2",
    "suspect": "takeovers >= 2 AND min(takeovers, 4) = ?",
}

# One branch for each workflow: SQLite merges them, each in the order of its index.
CANDIDATES = """
SELECT number, priority, ready_at, workflow, {key} AS concurrency_key, concurrency_limit
FROM runs INDEXED BY runs_ready_{kind}
WHERE namespace = ? AND group_name = ? AND workflow = ? AND state = 'ready' AND blocked = 0 AND {is_of_kind} {beside}
"""

BESIDE = "AND id NOT IN (SELECT value FROM json_each(?))"

# As bytes, because a damaged row with invalid Unicode would abort the query.
AS_BYTES = "CAST(concurrency_key AS BLOB)"

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

ANY_SUSPECT = """
SELECT 1 FROM runs INDEXED BY runs_ready_suspect
WHERE namespace = ? AND group_name = ? AND state = 'ready' AND takeovers >= 2 AND blocked = 0 LIMIT 1
"""

# The highest level of the ready suspects.
HIGHEST_LEVEL = """
SELECT max((
    SELECT min(takeovers, 4) FROM runs INDEXED BY runs_ready_suspect
    WHERE namespace = :namespace AND group_name = :group_name AND workflow = value AND state = 'ready'
        AND takeovers >= 2 AND blocked = 0 {beside}
    ORDER BY min(takeovers, 4) DESC LIMIT 1
))
FROM json_each(:workflows)
"""

LEVEL = HIGHEST_LEVEL.format(beside="")

LEVEL_BESIDE = HIGHEST_LEVEL.format(beside="AND id NOT IN (SELECT value FROM json_each(:beside))")

HELD_SUSPECTS = f"""
SELECT max(min(takeovers, 4)), count(*) FROM runs INDEXED BY runs_held_suspects
WHERE worker_id = ? AND state = 'running' AND takeovers >= 2 AND takeover_seq = {states.LENGTH}
"""

CLAIMED = f"""
SELECT {READ_RUN_COLUMNS}, -priority, ready_at, number FROM runs INDEXED BY runs_claims
WHERE claim_token = ? AND state = 'running' AND namespace = ? AND worker_id = ?
"""

STILL_READY = """
SELECT id FROM runs INDEXED BY runs_by_id
WHERE namespace = ? AND id IN (SELECT value FROM json_each(?)) AND state = 'ready' AND blocked = 0
"""

ID_OF = "SELECT CAST(id AS BLOB) FROM runs WHERE number = ?"

KEYS_OF = """
SELECT workflow, CAST(concurrency_key AS BLOB), max(concurrency_limit) FROM runs INDEXED BY runs_by_id
WHERE namespace = ? AND id IN (SELECT value FROM json_each(?)) AND group_name = ? AND state = 'ready'
    AND concurrency_key IS NOT NULL
GROUP BY 1, 2
"""

ANY_CLAIMED = "SELECT 1 FROM runs INDEXED BY runs_claims WHERE claim_token = ? AND state = 'running'"

# In claim order: negative priority, time of becoming ready, number; then whether it never started, its workflow,
# concurrency key and limit.
Place = tuple[int, float, int, int, str, str | bytes | None, int | None]


class CannotClaim(Exception):
    """A ready run cannot be leased or blocked because its row is damaged or protected. ``__cause__`` is the error.

    Attributes:
        number: The run's number.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def may_claim(
    db: sqlite3.Connection, namespace: str, group: str, workflows: Sequence[str], token: str | None
) -> bool:
    """Whether ``claimed`` or ``claim`` may find a run."""
    values = {"namespace": namespace, "group_name": group, "workflows": json.dumps(workflows)}
    if db.execute(ANY_READY, values).fetchone() is not None:
        return True
    return token is not None and db.execute(ANY_CLAIMED, (token,)).fetchone() is not None


def claimed(tx: Transaction, namespace: str, worker_id: str, token: str) -> list[Run]:
    """Return the runs that a worker claimed with ``token`` and still holds."""
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
    """Lease the first ready runs to a worker, within all limits: suspects, or others."""
    level, room_for_suspects = _suspects(tx, namespace, worker_id, group, workflows)
    if level is not None:
        most = min(limit, room_for_suspects)
        leased = _lease(tx, namespace, worker_id, group, workflows, most, lease_until, token, level)
        if leased:
            return leased
    return _lease(tx, namespace, worker_id, group, workflows, limit, lease_until, token, None)


def claim_each(
    tx: Transaction,
    namespace: str,
    worker_id: str,
    group: str,
    workflows: Sequence[str],
    limit: int,
    lease_until: float,
    token: str | None,
    skipped: Sequence[str],
    read: Callable[[Run], Claim],
) -> tuple[list[Claim], list[Failure]]:
    """Like ``claim``, but one run at a time, except for ``skipped`` runs. A claim that fails is rolled back.

    Args:
        tx: The transaction.
        namespace: The tenant.
        worker_id: The worker.
        group: Its group.
        workflows: Its workflows.
        limit: Maximum number of runs; fewer if they fill a page.
        lease_until: End of the leases, on the lease clock.
        token: The call's token.
        skipped: Ids of the runs to skip.
        read: Reads the rest of a claim.
    """
    beside = list(skipped)
    claims: list[Claim] = []
    failures: list[Failure] = []
    size = 0
    may_be_more = True
    _pass_over(tx, namespace, group, beside)

    def lease_next(found: list[Claim]) -> None:
        """Lease the next run, and record whether there may be more."""
        nonlocal may_be_more
        may_be_more = False
        room = groups.room(tx, namespace, group, 1)
        if room.runs == 0:
            return
        level, _ = _suspects(tx, namespace, worker_id, group, workflows, beside)
        for which in (None,) if level is None else (level, None):
            chosen, full = _choose(tx, namespace, group, workflows, room, which, beside)
            for number in full:
                _of_run(number, partial(_block, tx, [number]))
            for number in chosen:
                leased = _of_run(number, partial(states.claim, tx, worker_id, lease_until, [number], token))
                found += [_of_run(number, partial(read, run)) for run in leased]
            if chosen or full:
                may_be_more = True
                return

    while len(claims) < limit and len(failures) < AT_ONCE and size < PAGE_BYTES:
        found: list[Claim] = []
        error = tx.attempt(partial(lease_next, found))
        if error is None:
            claims += found
            size += bytes_of([part for claim in found for part in (claim.run, *claim.messages)])
            is_suspect = any(claim.run.takeovers >= suspect_runs.SUSPECT_TAKEOVERS for claim in found)
            if is_suspect or not may_be_more:
                break  # a suspect starts alone
        elif isinstance(error, CannotClaim) and isinstance(error.__cause__, Exception):
            id = tx.db.execute(ID_OF, (error.number,)).fetchone()[0].decode(errors="replace")
            failures.append(Failure(JOB, (namespace, id), own_error(error.__cause__)))
            beside.append(id)
            _pass_over(tx, namespace, group, [id])
        else:
            raise error
    return claims, failures


def still_ready(tx: Transaction, namespace: str, run_ids: Sequence[str]) -> set[str]:
    """Return the given runs that can be claimed."""
    return {id for (id,) in tx.db.execute(STILL_READY, (namespace, json.dumps(run_ids))).fetchall()}


def _pass_over(tx: Transaction, namespace: str, group: str, run_ids: Sequence[str]) -> None:
    """Unblock the next run of each key whose ready run cannot be claimed."""
    if not run_ids:
        return
    for workflow, key, limit in tx.db.execute(KEYS_OF, (namespace, json.dumps(run_ids), group)).fetchall():
        slots = Slots(namespace, group, workflow, key.decode(errors="replace"))
        if keys.taken(tx, slots, limit) < limit:
            tx.attempt(partial(keys.unblock_next, tx, slots))


def _of_run(number: int, do: Callable[[], T]) -> T:
    try:
        return do()
    except Exception as error:
        if isinstance(error, sqlite3.Error) and not is_fault_of_one(error):
            raise
        raise CannotClaim(number) from error


def _suspects(
    tx: Transaction,
    namespace: str,
    worker_id: str,
    group: str,
    workflows: Sequence[str],
    beside: Sequence[str] | None = None,
) -> tuple[int | None, int]:
    """Return the level of the suspects to claim, None for no suspects, and how many the worker has room for."""
    if tx.db.execute(ANY_SUSPECT, (namespace, group)).fetchone() is None:  # a third of the time of ``LEVEL``
        return None, 0
    values = {"namespace": namespace, "group_name": group, "workflows": json.dumps(workflows)}
    if beside:
        [level] = tx.db.execute(LEVEL_BESIDE, {**values, "beside": json.dumps(beside)}).fetchone()
    else:
        [level] = tx.db.execute(LEVEL, values).fetchone()
    if level is None:
        return None, 0
    held_level, held = tx.db.execute(HELD_SUSPECTS, (worker_id,)).fetchone()
    level = held_level or level
    room = suspect_runs.room_of(level) - held
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
        _block(tx, full)
    return leased


def _block(tx: Transaction, numbers: Sequence[int]) -> None:
    """Exclude ready runs from claims. Raises ItemFailed if a trigger prevents it: a claim would not terminate."""
    if not keys.block(tx, numbers):
        raise ItemFailed(ROW_UNCHANGED)


def _choose(
    tx: Transaction,
    namespace: str,
    group: str,
    workflows: Sequence[str],
    room: Room,
    level: int | None,
    beside: Sequence[str] | None = None,
) -> tuple[list[int], list[int]]:
    """Return the numbers of the runs to claim, in order, and of those skipped because their key's slots are taken.

    If some were skipped, there may be more to claim behind them.
    """
    starts = room.runs if room.starts is None else min(room.starts, room.runs)
    new_ones = min(starts + 1, room.runs)  # one more than may start, to detect that one is skipped
    if level is None:
        new = _first(tx, namespace, group, workflows, "new", new_ones, beside=beside)
        again = _first(tx, namespace, group, workflows, "again", room.runs, beside=beside)
    else:
        new = []
        again = _first(tx, namespace, group, workflows, "suspect", room.runs, level, beside)
    ends = [found[-1] for found, most in ((new, new_ones), (again, room.runs)) if len(found) == most]
    chosen: list[int] = []
    full: list[int] = []
    started = 0
    taken: dict[Slots, int] = {}
    for place in heapq.merge(new, again):
        if len(chosen) == room.runs or (full and place > min(ends, default=place)):
            break  # skipped runs may have hidden one that comes before this
        _, _, number, is_new, workflow, key, limit = place
        slots = None
        if key is not None and limit is not None:
            if isinstance(key, bytes):
                key = _of_run(number, key.decode)
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
    beside: Sequence[str] | None = None,
) -> list[Place]:
    levels: tuple[Any, ...] = () if level is None else (level,)
    if beside is not None:
        levels += (json.dumps(beside),)
    places: list[Place] = []
    for start in range(0, len(workflows), WORKFLOWS_AT_ONCE):
        some = workflows[start : start + WORKFLOWS_AT_ONCE]
        values: list[Any] = [value for workflow in some for value in (namespace, group, workflow, *levels)]
        places += tx.db.execute(first_statement(len(some), kind, beside=beside is not None), [*values, limit])
    return heapq.nsmallest(limit, places)


@lru_cache
def first_statement(workflows: int, kind: Kind, *, beside: bool = False) -> str:
    """Return the statement that finds the first ready runs of ``workflows`` workflows."""
    branch = CANDIDATES.format(
        kind=kind,
        is_of_kind=IS_OF_KIND[kind],
        key=AS_BYTES if beside else "concurrency_key",
        beside=BESIDE if beside else "",
    )
    return FIRST.format(is_new=int(kind == "new"), branches="UNION ALL".join([branch] * workflows))
