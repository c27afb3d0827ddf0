"""Releases runs whose code is missing here to other workers of the group that may have it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from signoff.errors import AccessDenied
from signoff.records import Run, WorkerInfo
from signoff.records.paging import WorkflowFilter
from signoff.stores.contract.store import Store

LEAVES_AT_MOST: Final = 3
"""How often a worker releases a run that it cannot run before the run fails retryably."""
LEAVES_WHILE_BUSY: Final = 100
"""The same while other workers hold runs, and may have no free slot yet: about five minutes."""
AVOIDS_SECONDS = 3.0
"""Seconds for which a worker claims no run of a workflow after releasing one."""
_CLOCKS_DIFFER: Final = 60.0
"""Maximum clock difference between hosts, in seconds."""
_REMEMBERED: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Left:
    """How often a run was released: while the other workers held runs, and while they held none."""

    to_busy: int = 0
    to_free: int = 0


class OtherWorkers:
    """Decides which runs a worker releases to others of its group.

    Args:
        store: An open store.
        me: The worker.
        claim_again: Called when workflows need no longer be avoided.
    """

    def __init__(self, store: Store, me: WorkerInfo, claim_again: Callable[[], None]) -> None:
        self._store = store
        self._me = me
        self._claim_again = claim_again
        self._left: dict[str, _Left] = {}
        self._avoided_until: dict[str, float] = {}  # by workflow

    def without_avoided(self, names: Sequence[str], now: float) -> Sequence[str]:
        """Return the workflows to claim, without those of runs released just now."""
        if not self._avoided_until:
            return names
        self._avoided_until = {name: until for name, until in self._avoided_until.items() if until > now}
        return [name for name in names if name not in self._avoided_until]

    async def take(self, run: Run) -> bool:
        """Return whether to release a run that cannot run here. This worker then avoids its workflow for a while."""
        return self._leave(run, await self._workers())

    async def take_version(self, run: Run, version: str) -> bool:
        """Return whether to release a run of a version that is not registered here, to a worker that announced it.

        The list of workflows has the time of a version's last announcement, not the worker. A worker that started after
        it has not announced it. If all workers started later, the version is gone.
        """
        workers = await self._workers()
        if not workers:
            return False
        announced_at = await self._announced_at(run.workflow, version)
        if announced_at is None:
            return False
        latest = announced_at + _CLOCKS_DIFFER
        return self._leave(run, [each for each in workers if each.process_started_at <= latest])

    async def _workers(self) -> Sequence[WorkerInfo]:
        try:
            workers = await self._store.list_workers()
        except AccessDenied:  # a worker restricted to some groups does not see others
            return ()
        return [each for each in workers if self._is_other(each)]

    def _is_other(self, worker: WorkerInfo) -> bool:
        me = self._me
        return (worker.namespace, worker.group) == (me.namespace, me.group) and worker.id != me.id

    async def _announced_at(self, workflow: str, version: str) -> float | None:
        which = WorkflowFilter(workflow, self._me.group)
        after: str | None = None
        while True:
            try:
                page = await self._store.list_workflows(which, after=after)
            except AccessDenied:
                return None
            for each in page.items:
                if each.version == version:
                    return each.seen_at
            after = page.next
            if after is None:
                return None

    def _leave(self, run: Run, workers: Sequence[WorkerInfo]) -> bool:
        left = self._left.pop(run.id, _Left())
        is_busy = any(each.held for each in workers)  # all their slots may be taken; they claim it later
        left = replace(left, to_busy=left.to_busy + 1) if is_busy else replace(left, to_free=left.to_free + 1)
        if not workers or left.to_busy > LEAVES_WHILE_BUSY or left.to_free > LEAVES_AT_MOST:
            return False
        if len(self._left) >= _REMEMBERED:  # these runs continued elsewhere
            self._left.clear()
        self._left[run.id] = left
        loop = asyncio.get_running_loop()
        self._avoided_until[run.workflow] = loop.time() + AVOIDS_SECONDS
        loop.call_later(AVOIDS_SECONDS + 0.01, self._claim_again)
        return True
