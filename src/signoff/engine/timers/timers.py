"""Fires due deadlines and timers, frees expired leases, starts scheduled runs, and runs periodic jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from signoff.engine.timers.schedules import fire_due, new_set_aside
from signoff.errors import StoreUnavailable
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Change, Store
from signoff.stores.shared.outages import is_absence
from signoff.stores.shared.set_aside_items import may_pass, raise_outage

log = own_logger("signoff.timers")

LOOK_EVERY_SECONDS = 1.0  # the longest time until a due time set by another process is noticed

REPEATED = 30
"""Consecutive failures after which an unavailable store is logged although it takes writes: no passing outage."""

LATE_SECONDS = 10.0
"""Seconds without firing deadlines after which a process reports that it is not ready."""


Duty = Callable[[Store], Awaitable[float | None]]
"""A periodic job on a store. Returns when to run it again, in Unix seconds; None: at the next check."""


class TimerService:
    """Calls ``store.due``, starts scheduled runs and runs periodic jobs whenever something may be due.

    Any number of processes may run one.

    Args:
        store: An open store.
        look_seconds: The longest wait between two checks.
        duties: Periodic jobs to run at each check.
        lease_seconds: The shortest lease of the workers that reach the store through this process; None: the store's.
            If the process was suspended for half of it, it has not received their heartbeats, and holds their leases.
    """

    def __init__(
        self,
        store: Store,
        *,
        look_seconds: float = LOOK_EVERY_SECONDS,
        duties: Sequence[Duty] = (),
        lease_seconds: float | None = None,
    ) -> None:
        self._store = store
        self._lease_seconds = store.lease_seconds if lease_seconds is None else lease_seconds
        self._schedules_aside = new_set_aside()
        self._duties = (self._fire_schedules, *duties)
        self._failing: dict[Duty, int] = {}  # consecutive failures
        self._look_seconds = look_seconds
        self._loop = asyncio.get_running_loop()
        self._look = asyncio.Event()
        self._served_at = self._loop.time()
        self._trouble: str | None = None
        self._turned_at = self._loop.time()
        self._next_turn: asyncio.TimerHandle | None = None
        self._stop_listening = store.listen(self._noticed)

    def _noticed(self, change: Change) -> None:
        if change.due:
            self._loop.call_soon_threadsafe(self._look.set)

    @property
    def lateness(self) -> float:
        """For how many seconds due items have not been processed."""
        return max(0.0, self._loop.time() - self._served_at - self._look_seconds)

    @property
    def trouble(self) -> str | None:
        """Why deadlines do not fire now; None if they do."""
        if self.lateness <= LATE_SECONDS:
            return None
        reason = "" if self._trouble is None else f": {self._trouble}"
        return f"deadlines have not fired for {self.lateness:.0f} s{reason}"

    async def run(self) -> None:
        """Run until cancelled."""
        self._turn()
        try:
            while True:
                await self._serve_once()
        finally:
            if self._next_turn is not None:
                self._next_turn.cancel()
            self._stop_listening()

    def _turn(self) -> None:
        """Detect that the process was suspended: heartbeats wait in its sockets while leases expire."""
        self._note_absence()
        pause = min(LOOK_EVERY_SECONDS, self._lease_seconds / 8) or LOOK_EVERY_SECONDS
        self._next_turn = self._loop.call_later(pause, self._turn)

    def _note_absence(self) -> None:
        now = self._loop.time()
        if is_absence(now - self._turned_at, self._lease_seconds):
            self._store.hold_leases()
        self._turned_at = now

    async def _serve_once(self) -> None:
        self._look.clear()
        wait = self._look_seconds
        try:
            times = [await self._do(duty) for duty in (self._serve_timers, *self._duties)]
            now = self._store.clock.now()
            wait = min([wait, *(max(0.0, time - now) for time in times if time is not None)])
            if self._failing.keys().isdisjoint((self._serve_timers, self._fire_schedules)):
                self._served_at, self._trouble = self._loop.time(), None
        except StoreUnavailable as trouble:
            log.error("timers wait for the store: %s", trouble)
            self._trouble = trouble.reason
        try:
            async with asyncio.timeout(wait):
                await self._look.wait()
        except TimeoutError:
            pass

    async def _serve_timers(self, store: Store) -> float | None:
        self._note_absence()  # the turn may come later
        return await store.due()

    async def _fire_schedules(self, store: Store) -> float | None:
        return await fire_due(store, self._schedules_aside)

    async def _do(self, duty: Duty) -> float | None:
        """Run a periodic job. A failing job does not stop the others; it is retried, and logged once.

        Raises:
            StoreUnavailable: The store takes no writes, so no job can run.
        """
        try:
            next_at = await duty(self._store)
        except Exception as error:
            await raise_outage(self._store, error)
            failures = self._failing[duty] = self._failing.get(duty, 0) + 1
            if failures == (REPEATED if may_pass(error) else 1):
                log.exception("%s failed and will be retried", getattr(duty, "__name__", duty))
            if duty in (self._serve_timers, self._fire_schedules):
                self._trouble = str(error)
            return None
        self._failing.pop(duty, None)
        return next_at
