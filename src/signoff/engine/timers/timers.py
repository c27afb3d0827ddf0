"""Fires due deadlines and timers, frees expired leases, starts scheduled runs, and runs periodic jobs."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from signoff.engine.timers.schedules import fire_due, new_failed_items
from signoff.errors import StoreUnavailable
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Change, Store
from signoff.stores.shared.failed_items import may_pass, raise_outage
from signoff.stores.shared.outages import is_absence

log = own_logger("signoff.timers")

LOOK_EVERY_SECONDS = 1.0  # the longest time until a due time set by another process is noticed

REPEATED = 30
"""Consecutive failures after which an unavailable store is logged although it takes writes: no passing outage."""

LATE_SECONDS = 10.0
"""Seconds without firing deadlines after which a process reports that it is not ready."""


PeriodicJob = Callable[[Store], Awaitable[float | None]]
"""A periodic job on a store. Returns when to run it again, in Unix seconds; None: at the next check."""


PATIENCE_SECONDS = 1.0
"""How long the other jobs wait for one. A longer call continues beside them."""

HUNG_SECONDS = 300.0
"""A call that takes longer is cancelled, and the job is called again."""


@dataclass(slots=True)
class _Call:
    """A call of a periodic job that is under way."""

    task: asyncio.Task[float | None]
    began_at: float
    is_logged: bool = False
    is_cancelled: bool = False


_at_work: weakref.WeakSet[TimerService] = weakref.WeakSet()


def running_seconds() -> Mapping[str, float]:
    """Return how long the current call of each periodic job in this process has taken, by the job's name."""
    longest: dict[str, float] = {}
    for service in list(_at_work):
        if not service.is_running:
            continue
        for name, seconds in service.running_seconds.items():
            longest[name] = max(seconds, longest.get(name, 0.0))
    return longest


def _name(job: PeriodicJob) -> str:
    return getattr(job, "__qualname__", str(job)).replace("._", ".")


class TimerService:
    """Calls ``store.due``, starts scheduled runs and runs periodic jobs whenever something may be due.

    Any number of processes may run one.

    Args:
        store: An open store.
        look_seconds: The longest wait between two checks.
        periodic_jobs: Periodic jobs to run at each check.
        lease_seconds: The shortest lease of the workers that reach the store through this process; None: the store's.
            If the process was suspended for half of it, it has not received their heartbeats, and holds their leases.
    """

    def __init__(
        self,
        store: Store,
        *,
        look_seconds: float = LOOK_EVERY_SECONDS,
        periodic_jobs: Sequence[PeriodicJob] = (),
        lease_seconds: float | None = None,
    ) -> None:
        self._store = store
        self._lease_seconds = store.lease_seconds if lease_seconds is None else lease_seconds
        self._schedules_aside = new_failed_items()
        self._periodic_jobs = (self._serve_timers, self._fire_schedules, *periodic_jobs)
        self._deadlines = frozenset({self._serve_timers, self._fire_schedules})
        self._calls: dict[PeriodicJob, _Call] = {}
        self._failing: dict[PeriodicJob, int] = {}  # consecutive failures
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

    @property
    def is_running(self) -> bool:
        """Whether its event loop runs. A loop that was abandoned leaves its calls as they are."""
        return self._loop.is_running()

    @property
    def running_seconds(self) -> Mapping[str, float]:
        """How long the current call of each periodic job has taken, by the job's name; 0 between calls."""
        now = self._loop.time()
        return {
            _name(job): now - self._calls[job].began_at if job in self._calls else 0.0
            for job in self._periodic_jobs
        }

    async def run(self) -> None:
        """Run until cancelled."""
        self._turn()
        _at_work.add(self)
        try:
            while True:
                await self._serve_once()
        finally:
            _at_work.discard(self)
            if self._next_turn is not None:
                self._next_turn.cancel()
            self._stop_listening()
            await self._cancel_calls()

    async def _cancel_calls(self) -> None:
        tasks = [call.task for call in self._calls.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=PATIENCE_SECONDS)

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
            times = [await self._serve(job) for job in self._periodic_jobs]
            now = self._store.clock.now()
            wait = min([wait, *(max(0.0, time - now) for time in times if time is not None)])
            if self._deadlines.isdisjoint(self._failing) and self._deadlines.isdisjoint(self._calls):
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

    async def _serve(self, job: PeriodicJob) -> float | None:
        """Call a periodic job, unless its last call has not returned. A long call continues beside the other jobs.

        Raises:
            StoreUnavailable: The store takes no writes, so no job can run.
        """
        call = self._calls.get(job)
        if call is None or call.task.done():
            if call is not None:
                self._result(job, call)
            call = self._calls[job] = _Call(asyncio.create_task(self._do(job)), self._loop.time())
            await asyncio.wait({call.task}, timeout=PATIENCE_SECONDS)
            if not call.task.done():
                call.task.add_done_callback(lambda _: self._look.set())
        if call.task.done():
            return self._result(job, call)
        self._note_long_call(job, call)
        return None

    def _result(self, job: PeriodicJob, call: _Call) -> float | None:
        del self._calls[job]
        if call.task.cancelled():  # by ``_note_long_call``
            return None
        return call.task.result()

    def _note_long_call(self, job: PeriodicJob, call: _Call) -> None:
        seconds = self._loop.time() - call.began_at
        if job in self._deadlines:
            self._trouble = f"{_name(job)} has not returned"
        if seconds > LATE_SECONDS and not call.is_logged:
            call.is_logged = True
            log.error("%s has not returned for %.0f s; the other jobs continue", _name(job), seconds)
        if seconds > HUNG_SECONDS and not call.is_cancelled:
            call.is_cancelled = True
            log.error("%s is cancelled after %.0f s, and will be called again", _name(job), seconds)
            call.task.cancel()

    async def _do(self, job: PeriodicJob) -> float | None:
        """Run a periodic job. A failing job does not stop the others; it is retried, and logged once.

        Raises:
            StoreUnavailable: The store takes no writes, so no job can run.
        """
        try:
            next_at = await job(self._store)
        except Exception as error:
            await raise_outage(self._store, error)
            failures = self._failing[job] = self._failing.get(job, 0) + 1
            if failures == (REPEATED if may_pass(error) else 1):
                log.exception("%s failed and will be retried", _name(job))
            if job in self._deadlines:
                self._trouble = str(error)
            return None
        self._failing.pop(job, None)
        return next_at
