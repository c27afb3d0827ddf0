"""Paused runs kept in memory, so that they continue without a replay."""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from signoff.engine.run.execution import Execution
from signoff.records import Run

GARBAGE_BYTES = 64 * 1024 * 1024
"""Collect garbage once the evicted runs' large values took so many bytes."""


@dataclass(frozen=True, slots=True)
class PausedRun:
    """A paused run in memory.

    Attributes:
        execution: Its code.
        epoch: The epoch in which it paused.
        seq: The last journal entry that the code has received.
        weight: Its size, in multiples of a plain run.
    """

    execution: Execution
    epoch: int
    seq: int
    weight: int


class PausedRuns:
    """A cache of paused runs that evicts the least recently kept.

    Args:
        limit: The total weight to keep.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._runs: OrderedDict[str, PausedRun] = OrderedDict()  # by run id, the least recently kept first
        self._weight = 0
        self._garbage_bytes = 0  # large values of evicted runs

    def __iter__(self) -> Iterator[str]:
        return iter(self._runs)

    def keep(self, run_id: str, execution: Execution, epoch: int, seq: int) -> None:
        """Keep a run that has paused, in place of an older state of it."""
        if run_id in self._runs:
            self._evict(run_id)
        # Capped, because replaying a run with many open calls at each answer costs more than its memory.
        weight = min(execution.weight, max(1, self._limit // 10))
        self._runs[run_id] = PausedRun(execution, epoch, seq, weight)
        self._weight += weight
        while self._weight > self._limit:
            self._evict(next(iter(self._runs)))

    def take(self, run: Run, has_its_code: Callable[[Execution], bool]) -> PausedRun | None:
        """Return a run and stop keeping it; None if it is not here, another worker ran it, or its code has changed.

        Args:
            run: The run, as it was claimed.
            has_its_code: Whether a replay would use the same code.
        """
        paused = self._runs.get(run.id)
        if paused is None:
            return None
        if paused.epoch != run.epoch - 1 or not has_its_code(paused.execution):
            self._evict(run.id)
            return None
        return self._remove(run.id)

    def clear(self) -> None:
        """Evict all runs."""
        while self._runs:
            self._evict(next(iter(self._runs)))

    def _remove(self, run_id: str) -> PausedRun:
        paused = self._runs.pop(run_id)
        self._weight -= paused.weight
        return paused

    def _evict(self, run_id: str) -> None:
        """Drop a run, and collect garbage if due.

        A run consists of reference cycles: each task with the objects that it waits for. The collector runs after so
        many allocations, and a few large values are few allocations.
        """
        paused = self._remove(run_id)
        paused.execution.discard()
        self._garbage_bytes += paused.execution.large_bytes
        if self._garbage_bytes >= GARBAGE_BYTES and gc.isenabled():
            self._garbage_bytes = 0
            del paused
            gc.collect()
