"""Limits the size of a run that a server saves: a snapshot needs several times its size in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from signoff.errors import SnapshotRefused
from signoff.records import Run
from signoff.records.paging import PromiseFilter, RunFilter
from signoff.server.http.request_bodies import SNAPSHOT_LIMIT
from signoff.stores.contract.store import Store
from signoff.stores.shared.listed_payloads import bytes_of

_AT_ONCE: Final = 64


async def check_saved_size(store: Store, run_id: str) -> None:
    """Check the size of a snapshot before it is created.

    Raises:
        NotFound: There is no such run.
        SnapshotRefused: It is larger than ``SNAPSHOT_LIMIT``.
    """
    await _look(store, await store.get_run(run_id), run_id, 0)


async def _look(store: Store, run: Run, saved_id: str, size: int) -> int:
    size = _checked(saved_id, size + bytes_of(run))
    seq = -1
    while entries := await store.read_journal(run.id, after=seq, limit=_AT_ONCE):
        size, seq = _checked(saved_id, size + bytes_of(entries)), entries[-1].seq
    size = _checked(saved_id, size + bytes_of([each for each, _ in await store.read_messages([run.id])]))
    after: str | None = None
    while True:
        promises = await store.list_promises(PromiseFilter(run_id=run.id), after=after, limit=_AT_ONCE)
        size = _checked(
            saved_id, size + sum(bytes_of(each) + _left_out(each.left_out) for each in promises.items)
        )
        if (after := promises.next) is None:
            break
    while True:
        children = await store.list_runs(RunFilter(parent_id=run.id), after=after, limit=_AT_ONCE)
        for child in children.items:
            if not child.state.is_final:
                size = await _look(store, child, saved_id, size + _left_out(child.left_out))
        if (after := children.next) is None:
            return size


def _left_out(sizes: Mapping[str, int] | None) -> int:
    return sum((sizes or {}).values())


def _checked(run_id: str, size: int) -> int:
    if size > SNAPSHOT_LIMIT:
        why = f"it is more than {SNAPSHOT_LIMIT // 1024 // 1024} MiB; save it with `signoff save --store`"
        raise SnapshotRefused(run_id, f"{why} on the machine with the database")
    return size
