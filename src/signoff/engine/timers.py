"""Having the store do what time has brought, at its time: deadlines, timers of paused runs, lost leases, schedules."""

from __future__ import annotations

import asyncio
import logging

from signoff.engine.schedules import fire_due
from signoff.errors import StoreUnavailable
from signoff.stores.base import Change, Store

log = logging.getLogger("signoff.timers")

LOOK_EVERY_SECONDS = 1.0  # what another process makes due sooner than we knew is found within this time


class TimerService:
    """Calls ``store.due`` and fires schedules whenever something may be due. Any number of processes may run one."""

    def __init__(self, store: Store, *, look_seconds: float = LOOK_EVERY_SECONDS) -> None:
        self._store = store
        self._look_seconds = look_seconds
        self._loop = asyncio.get_running_loop()
        self._look = asyncio.Event()
        self._stop_listening = store.listen(self._noticed)

    def _noticed(self, change: Change) -> None:
        if change.due:
            self._loop.call_soon_threadsafe(self._look.set)

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            while True:
                await self._serve_once()
        finally:
            self._stop_listening()

    async def _serve_once(self) -> None:
        self._look.clear()
        wait = self._look_seconds
        try:
            times = await self._store.due(), await fire_due(self._store)
            now = self._store.clock.now()
            wait = min([wait, *(max(0.0, time - now) for time in times if time is not None)])
        except StoreUnavailable as trouble:
            log.error("timers wait: %s", trouble)
        try:
            async with asyncio.timeout(wait):
                await self._look.wait()
        except TimeoutError:
            pass
