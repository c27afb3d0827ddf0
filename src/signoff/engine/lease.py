"""Keeping a worker's leases, and its place on the register, from a thread of its own.

So a step that hogs the loop does not lose its run.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping

from signoff.engine import guard
from signoff.engine.loop import calling_line
from signoff.errors import StoreError
from signoff.records import WorkerInfo
from signoff.stores.base import ENLIST_SECONDS, Store

log = logging.getLogger("signoff.worker")

BEAT_SECONDS = 3.0
BUSY_SECONDS = 5.0
STALLED_SECONDS = 60.0


class LeaseKeeper:
    """Extends the leases of all runs that a worker holds, for as long as its loop turns.

    Args:
        store: Where the leases are.
        worker: Whose they are.
        held: Returns the runs held, run id -> epoch; called from the keeper's thread.
        lost: Told the ids of runs that were lost, on the worker's loop.
        beat_seconds: How often to extend.
        busy_seconds: After how long workflow code that waits for nothing is interrupted.
        stalled_seconds: After how long without a turn of the worker's loop its leases are let go.
    """

    def __init__(
        self,
        store: Store,
        worker: WorkerInfo,
        held: Callable[[], Mapping[str, int]],
        lost: Callable[[set[str]], None],
        *,
        beat_seconds: float = BEAT_SECONDS,
        busy_seconds: float = BUSY_SECONDS,
        stalled_seconds: float = STALLED_SECONDS,
    ) -> None:
        self._store = store
        self._worker = worker
        self._enlist_at = 0.0
        self._held = held
        self._lost = lost
        self._beat_seconds = beat_seconds
        self._busy_seconds = busy_seconds
        self._stalled_seconds = stalled_seconds
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._turned_at = time.monotonic()
        self._asked_to_turn = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"signoff leases {worker.id}", daemon=True)

    def start(self) -> None:
        """Begin keeping."""
        self._thread.start()

    def stop(self) -> None:
        """End keeping; returns when the thread has ended."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        next_beat = time.monotonic() + self._beat_seconds
        look_seconds = min(self._beat_seconds, self._busy_seconds / 2, self._stalled_seconds / 2)
        with asyncio.Runner() as runner:
            while not self._stopped.wait(look_seconds):
                guard.interrupt_busy(self._busy_seconds)
                self._ask_for_a_turn()
                if time.monotonic() >= next_beat:
                    next_beat = time.monotonic() + self._beat_seconds
                    if not self._stalled():
                        runner.run(self._beat())

    def _ask_for_a_turn(self) -> None:
        if not self._asked_to_turn and not self._loop.is_closed():
            self._asked_to_turn = True
            self._loop.call_soon_threadsafe(self._turn)

    def _turn(self) -> None:
        self._turned_at = time.monotonic()
        self._asked_to_turn = False

    def _stalled(self) -> bool:
        since = time.monotonic() - self._turned_at
        if since < self._stalled_seconds:
            return False
        frame = sys._current_frames().get(self._loop_thread)  # pyright: ignore[reportPrivateUsage]
        log.error(
            "the worker's loop has not turned for %.0f s, at %s; its leases are let go",
            since,
            calling_line(frame),
        )
        return True

    async def _beat(self) -> None:
        held = dict(self._held())
        lost: set[str] = set()
        try:
            if held:
                lost = await self._store.heartbeat(self._worker.id, held)
            if time.monotonic() >= self._enlist_at:
                await self._store.enlist(self._worker)
                self._enlist_at = time.monotonic() + ENLIST_SECONDS
        except StoreError as trouble:
            log.error("leases could not be extended: %s", trouble)
            return
        if lost and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._lost, lost)
