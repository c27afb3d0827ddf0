"""Whether a server can work: known within a bounded time, also while its database answers nothing at all."""

from __future__ import annotations

import asyncio
from typing import Final

from signoff.engine.timers import TimerService
from signoff.errors import StoreUnavailable
from signoff.stores.base import Store

ANSWER_SECONDS: Final = 2.0
"""How long the store may take to answer."""


class Readiness:
    """Looks whether the store can be read and written, and whether deadlines fire.

    However many ask, one look is under way: a store that hangs is not asked again by each of them.

    Args:
        store: The open store.
        timers: What has deadlines fire; None: another process does.
        stopping: Set when the server stops.
        service: What ``timers`` runs, which knows how late it is.
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

    def drain(self) -> None:
        """Be ready no more: the server is about to stop."""
        self._is_draining = True

    async def check(self) -> None:
        """Raises StoreUnavailable, with the reason, if it is not ready."""
        location = self._store.location
        if self._is_draining or self._stopping.is_set():
            raise StoreUnavailable(location, "this server is stopping, ask another one")
        if self._timers is not None and self._timers.done():
            raise StoreUnavailable(location, "deadlines no longer fire, restart the server")
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
        """End a look that is under way."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _look(self) -> None:
        await self._store.list_workers()
        await self._store.check_writable()


def _note(looking: asyncio.Task[None]) -> None:
    """Take note of how a look ended that nobody waited for any more."""
    if not looking.cancelled():
        looking.exception()
