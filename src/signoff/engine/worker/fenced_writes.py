"""Fenced writes under a run's lease: a long one goes in parts, and each is retried until the store is available."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, ParamSpec, TypeVar

from signoff.engine.worker.journal_write import PendingWrite, parts
from signoff.engine.worker.memory_load import RunLoad
from signoff.engine.worker.run_events import RunEvents
from signoff.errors import (
    StoreUnavailable,
)
from signoff.records import Run
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.leases import Write
from signoff.stores.contract.store import Store

log = own_logger("signoff.worker")

FIRST_WAIT: Final = 0.05  # seconds before an operation is repeated while the store is unavailable
LONGEST_WAIT: Final = 5.0

P = ParamSpec("P")
T = TypeVar("T")


class FencedWrites:
    """The writes of one run under one lease.

    Args:
        run_id: The run.
        store: The store.
        pending: The entries to write.
        report: Announces what was written.
        load: The run's share of the worker's memory, given back while it waits.

    Attributes:
        have_grown: Whether a write has made the journal longer.
        is_giving_up_lease: Whether a write that gives the lease back is in progress.
    """

    def __init__(
        self,
        run_id: str,
        store: Store,
        pending: PendingWrite,
        report: RunEvents,
        load: RunLoad,
    ) -> None:
        self._run_id = run_id
        self._store = store
        self._pending = pending
        self._report = report
        self._load = load
        self.have_grown = False
        self.is_giving_up_lease = False

    async def write_last(self, run: Run, operation: Callable[[Write], Awaitable[T]]) -> T:
        """Write the pending entries and give the lease back."""
        self.is_giving_up_lease = True
        try:
            return await self.write(run, operation)
        finally:
            self.is_giving_up_lease = False

    async def write(
        self, run: Run, operation: Callable[[Write], Awaitable[T]], *, first_seq: int | None = None
    ) -> T:
        """Write the pending entries.

        A long write goes in parts, the last one with ``operation``. A repeated write has no further effect.

        Raises:
            LeaseLost: Another worker holds the run.
        """
        write, cuts = self._pending.take(run, first_seq)
        last = write
        if cuts:
            *ahead, last = parts(write, cuts)
            await self._write_ahead(ahead, last)
        try:
            try:
                done = await operation(last)  # nearly always, and quicker than ``retry``
            except StoreUnavailable as trouble:
                await self._wait_for_store(trouble, FIRST_WAIT)
                done = await self.retry(operation, last)
        except Exception:
            self._pending.put_back(last)
            raise
        self._pending.written(last)
        self._report.written(write)
        if write.entries:
            self.have_grown = True
        return done

    async def _write_ahead(self, ahead: Sequence[Write], last: Write) -> None:
        """Append all parts of a long write but the last."""
        for number, part in enumerate(ahead):
            try:
                await self.retry(self._store.append, part)
            except Exception:
                for unwritten in reversed([*ahead[number:], last]):
                    self._pending.put_back(unwritten)
                raise
            self._pending.written(part)

    async def retry(self, operation: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call an operation of the store, again and again while the store is unavailable."""
        wait = FIRST_WAIT
        while True:
            try:
                return await operation(*args, **kwargs)
            except StoreUnavailable as trouble:
                await self._wait_for_store(trouble, wait)
            wait = min(wait * 2, LONGEST_WAIT)

    async def _wait_for_store(self, trouble: StoreUnavailable, seconds: float) -> None:
        log.error("run %s waits for its store: %s", self._run_id, trouble)
        with self._load:
            await asyncio.sleep(seconds)
