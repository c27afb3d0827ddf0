"""Readiness check of a server. It returns within a bounded time, even if the database does not respond."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from signoff.engine.timers.timers import TimerService
from signoff.errors import StoreUnavailable
from signoff.runtime.process_limits import check_handles, check_threads
from signoff.stores.contract.store import Store

ANSWER_SECONDS: Final = 2.0
"""How long the store may take to answer."""

READ_SECONDS: Final = 0.5
"""Time without a response after which the store is also asked to write, since its error then names the cause."""


class Readiness:
    """Checks whether the store can be read and written, and whether deadlines fire.

    Concurrent callers share one check, so that they do not pile up on a store that hangs.

    Args:
        store: The open store.
        timers: The task that fires deadlines; None: another process does.
        stopping: Set when the server stops.
        service: The service that ``timers`` runs, which knows how late it is.
    """

    def __init__(
        self,
        store: Store,
        timers: asyncio.Task[None] | None,
        stopping: asyncio.Event,
        service: TimerService | None = None,
    ) -> None:
        self._store = store
        self._timers = timers
        self._stopping = stopping
        self._service = service
        self._is_draining = False
        self._looking: asyncio.Task[None] | None = None
        self._reading: asyncio.Future[Any] | None = None

    def drain(self) -> None:
        """Report not ready from now on: the server is about to stop."""
        self._is_draining = True

    async def check(self) -> None:
        """Raise StoreUnavailable, with the reason, if the server is not ready."""
        location = self._store.location
        if self._is_draining or self._stopping.is_set():
            raise StoreUnavailable(location, "this server is stopping, use another one")
        if self._timers is not None and self._timers.done():
            raise StoreUnavailable(location, "deadlines no longer fire, restart the server")
        check_handles(location)
        check_threads(location)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="signoff readiness")
            self._looking.add_done_callback(_note)
        await asyncio.wait({self._looking}, timeout=ANSWER_SECONDS)
        if not self._looking.done():
            raise StoreUnavailable(location, f"it has not answered for {ANSWER_SECONDS:g} s")
        self._looking.result()
        if self._service is not None and (trouble := self._service.trouble) is not None:
            raise StoreUnavailable(location, trouble)

    async def close(self) -> None:
        """Cancel a check in progress."""
        under_way = [each for each in (self._looking, self._reading) if each is not None]
        for each in under_way:
            each.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    async def _look(self) -> None:
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self._store.list_workers())
            self._reading.add_done_callback(_note)
        # Reading detects lost files, which writing may not. Only the write check names the reason of a hang.
        await asyncio.wait({self._reading}, timeout=READ_SECONDS)
        await self._store.check_writable()
        await self._reading


def _note(looking: asyncio.Future[Any]) -> None:
    """Retrieve the exception of a check that no caller waits for any more, so that asyncio does not log it."""
    if not looking.cancelled():
        looking.exception()
