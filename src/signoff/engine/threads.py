"""The threads in which a worker runs plain functions of steps, and what it says when all of them are taken."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

log = logging.getLogger("signoff.worker")

WARN_EVERY_SECONDS = 60.0
SHOWN = 5

P = ParamSpec("P")
T = TypeVar("T")


class StepThreads(ThreadPoolExecutor):
    """A pool of threads that knows what runs in it, for how long, and how much waits for a thread.

    Args:
        count: How many threads there are.

    Attributes:
        count: How many threads there are.
    """

    def __init__(self, count: int) -> None:
        super().__init__(count, thread_name_prefix="signoff step")
        self.count = count
        self._counting = threading.Lock()
        self._running: dict[int, tuple[str, float]] = {}  # by thread: what it does, and since when
        self._waiting = 0
        self._warned_at = float("-inf")

    @property
    def busy(self) -> int:
        """How many threads are taken."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """How many steps wait for a thread."""
        return self._waiting

    def run_step(self, what: str, function: Callable[[], T], begun: Callable[[], object] | None) -> Future[T]:
        """Run a function in a thread.

        Args:
            what: Names it, for people, such as ``step 'scan' of run r``.
            function: The function.
            begun: Called in the thread when the function is about to begin.
        """
        with self._counting:
            self._waiting += 1
            self._warn()

        def work() -> T:
            self._begin(what)
            try:
                if begun is not None:
                    begun()
                return function()
            finally:
                self._end()

        future = self.submit(work)
        future.add_done_callback(self._note_cancelled)
        return future

    def _begin(self, what: str) -> None:
        with self._counting:
            self._waiting -= 1
            self._running[threading.get_ident()] = (what, time.monotonic())

    def _end(self) -> None:
        with self._counting:
            del self._running[threading.get_ident()]

    def _note_cancelled(self, future: Future[Any]) -> None:
        if future.cancelled():  # it never began
            with self._counting:
                self._waiting -= 1

    def _warn(self) -> None:
        """Say that steps wait, once in a while, and for what."""
        now = time.monotonic()
        if len(self._running) < self.count or now - self._warned_at < WARN_EVERY_SECONDS:
            return
        self._warned_at = now
        oldest = sorted(self._running.values(), key=lambda each: each[1])[:SHOWN]
        shown = "; ".join(f"{what} for {now - since:.0f} s" for what, since in oldest)
        log.warning(
            "all %d threads for plain steps are taken, and %d steps wait for one. Longest running: %s. "
            "Make steps that wait async, or give the worker more threads",
            self.count,
            self._waiting,
            shown,
        )
