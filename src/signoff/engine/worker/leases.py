"""A worker's leases and its heartbeat: extends them, and knows until when they surely hold.

A thread extends them, so that a step that blocks the event loop does not lose its run.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from signoff.engine.run import blocking_guard
from signoff.engine.run.user_code_lines import calling_line
from signoff.errors import StoreError
from signoff.records import WorkerInfo
from signoff.runtime import private_names
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Store
from signoff.stores.contract.workers import ENLIST_SECONDS

log = own_logger("signoff.worker")

BEAT_SECONDS = 3.0
BUSY_SECONDS = 5.0
STALLED_SECONDS = 60.0
ASK_SECONDS = 1.0


class Held(Protocol):
    """A run that a worker holds."""

    @property
    def epoch(self) -> int: ...

    sure_until: float  # the time of the worker's event loop until which the lease surely holds


class Leases:
    """The leases of one worker.

    Args:
        store: The store.
        describe: Returns the worker's description for the list of workers; called from any thread.
        held: Returns the runs held, by id; called from any thread.
        lost: Called on the worker's event loop with the runs that were lost, and their epochs.
    """

    def __init__(
        self,
        store: Store,
        describe: Callable[[], WorkerInfo],
        held: Callable[[], Mapping[str, Held]],
        lost: Callable[[Mapping[str, int]], None],
    ) -> None:
        self._said = describe()
        self.worker_id = self._said.id
        self.loop = asyncio.get_running_loop()
        self._store = store
        self._describe = describe
        self._held = held
        self._lost = lost
        self._enlist_at = 0.0  # in time of the worker's event loop
        self._kept_at = self.loop.time()

    @property
    def are_kept(self) -> bool:
        """Whether they were extended recently: they hold, and the store answers."""
        return self.loop.time() - self._kept_at < self._store.lease_seconds

    async def extend(self) -> None:
        """Extend all leases in one statement, and renew the worker's entry in the list of workers now and then.

        Call it from any thread that runs an event loop.
        """
        try:
            extended = await self._extend()
            if await self._stay_enlisted() or extended:
                self._kept_at = self.loop.time()
        except StoreError as trouble:
            log.error("leases could not be extended: %s", trouble)

    async def _extend(self) -> bool:
        held = dict(self._held())
        if not held:
            return False
        epochs = {run_id: run.epoch for run_id, run in held.items()}
        began = self.loop.time()
        lost = await self._store.heartbeat(self.worker_id, epochs)
        for run_id, run in held.items():
            if run_id not in lost:
                run.sure_until = began + self._store.lease_seconds
        if lost and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._lost, {run_id: epochs[run_id] for run_id in lost})
        return True

    async def _stay_enlisted(self) -> bool:
        now = self._describe()
        is_news = (now.threads_waiting > 0) != (self._said.threads_waiting > 0)
        if is_news or self.loop.time() >= self._enlist_at:
            try:
                async with asyncio.timeout(BEAT_SECONDS):
                    await self._store.enlist(now)
            except TimeoutError:  # leases come first; the next beat tries again
                return False
            self._said = now
            self._enlist_at = self.loop.time() + ENLIST_SECONDS
        return True


class Keeper(Protocol):
    """Extends leases repeatedly."""

    def start(self) -> None:
        """Start extending."""
        ...

    async def stop(self) -> None:
        """Stop extending. No extension is in progress when it returns."""
        ...


class LeaseKeeper:
    """Extends a worker's leases from a thread while the worker's event loop turns.

    Args:
        leases: The leases.
        beat_seconds: Seconds between two extensions.
        busy_seconds: Seconds of computing without a wait after which workflow code is interrupted.
        stalled_seconds: Seconds without a turn of the event loop after which the leases are no longer extended.
    """

    def __init__(
        self,
        leases: Leases,
        *,
        beat_seconds: float = BEAT_SECONDS,
        busy_seconds: float = BUSY_SECONDS,
        stalled_seconds: float = STALLED_SECONDS,
    ) -> None:
        self._leases = leases
        self._beat_seconds = beat_seconds
        self._busy_seconds = busy_seconds
        self._stalled_seconds = stalled_seconds
        self._loop = leases.loop
        self._loop_thread = threading.get_ident()
        self._turned_at = time.monotonic()
        self._asked_at = -math.inf
        self._stopped = threading.Event()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"signoff leases {leases.worker_id}", daemon=True
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    async def stop(self) -> None:
        """End the thread and wait for its end."""
        self._stopped.set()
        await self._ended.wait()  # not in an executor: the loop's may have been shut down
        self._thread.join()

    def _run(self) -> None:
        try:
            self._keep()
        finally:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._ended.set)

    def _keep(self) -> None:
        next_beat = time.monotonic() + self._beat_seconds
        look_seconds = min(self._beat_seconds, self._busy_seconds / 2, self._stalled_seconds / 2)
        with asyncio.Runner() as runner:
            while not self._wait(look_seconds):
                blocking_guard.interrupt_busy(self._busy_seconds)
                self._ask_for_a_turn()
                if time.monotonic() >= next_beat:
                    next_beat = time.monotonic() + self._beat_seconds
                    if not self._stalled():
                        runner.run(self._leases.extend())

    def _wait(self, seconds: float) -> bool:
        """Wait before the next check. Returns whether to end."""
        began = time.monotonic()
        is_stopped = blocking_guard.wait(self._stopped, seconds)
        now = time.monotonic()
        self._turned_at = min(now, self._turned_at + max(0.0, now - began - seconds))  # nor did the loop
        return is_stopped

    def _ask_for_a_turn(self) -> None:
        now = time.monotonic()
        # Ask again after a while: a signal handler that raises in the callback ends it.
        if now - self._asked_at > ASK_SECONDS and not self._loop.is_closed():
            self._asked_at = now
            self._loop.call_soon_threadsafe(self._turn)

    def _turn(self) -> None:
        self._asked_at, self._turned_at = -math.inf, time.monotonic()

    def _stalled(self) -> bool:
        since = time.monotonic() - self._turned_at
        if since < self._stalled_seconds:
            return False
        frame = private_names.frame_of(self._loop_thread)
        log.error(
            "the worker's event loop has been blocked for %.0f s, at %s; its leases are no longer extended",
            since,
            calling_line(frame),
        )
        return True
