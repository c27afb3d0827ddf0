"""The thread pool for steps with plain functions, and its warnings when all threads are busy."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from signoff.runtime.loggers import own_logger

log = own_logger("signoff.worker")

WARN_AFTER_SECONDS = 1.0
"""Seconds that a step waits for a thread before a warning. Short steps that start together wait less."""
WARN_EVERY_SECONDS = 60.0
SHOWN = 5
START_AGAIN_SECONDS = 1.0
NO_THREAD = "can't start new thread"
"""CPython's message when the system has no thread left. The executor has already queued the work then."""

T = TypeVar("T")

_at_work: weakref.WeakSet[StepThreads] = weakref.WeakSet()


def at_work() -> Sequence[StepThreads]:
    """Return the pools of this process's workers."""
    return list(_at_work)


@dataclass(slots=True, eq=False)
class _Place:
    """A step in the queue for a thread.

    Attributes:
        asked_at: When it was queued, in time of the worker's event loop.
        future: The step's future.
        work: The callable for the executor, for a new submission. It refers to this object until it is called.
        outcome: Receives the outcome if the executor queued the work but returned no future.
    """

    asked_at: float
    future: asyncio.Future[Any] | None = None
    work: Callable[[], Any] | None = None
    outcome: Future[Any] | None = None

    @property
    def is_given_up(self) -> bool:
        """Whether the step was cancelled before it had a thread."""
        return self.future is not None and self.future.done()


class StepThreads:
    """A thread pool that knows its running work, since when it runs, and how much work waits.

    Args:
        count: The number of threads.

    Attributes:
        count: The number of threads.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool = self._new_pool()
        self._starting: asyncio.TimerHandle | None = None
        self._counting = threading.RLock()  # the executor of a simulated loop runs work where it is submitted
        self._running: dict[int, tuple[str, float]] = {}  # by thread: its work, and since when
        self._queue: dict[_Place, None] = {}
        self._looking: asyncio.TimerHandle | None = None
        self._warned_at = float("-inf")
        _at_work.add(self)

    def close(self) -> None:
        """Start nothing more and cancel queued work. Running functions continue."""
        _at_work.discard(self)
        if self._looking is not None:
            self._looking.cancel()
        with self._counting:
            for place in self._starved():
                if place.outcome is not None:
                    place.outcome.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _new_pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.count, thread_name_prefix="signoff step")

    @property
    def busy(self) -> int:
        """The number of busy threads."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """The number of steps that wait for a thread while all are busy."""
        queued = sum(not place.is_given_up for place in list(self._queue))
        return max(0, len(self._running) + queued - self.count)

    def run_step(
        self,
        what: str,
        function: Callable[[], T],
        begun: Callable[[], object] | None,
        waited: Callable[[float], object],
    ) -> asyncio.Future[T]:
        """Run a function in a thread, like an executor of the running loop.

        If the system cannot start a thread, the function waits for one of the pool's threads.

        Args:
            what: A name for logs, such as ``step 'scan' of run r``.
            function: The function.
            begun: Called in the thread just before the function.
            waited: Called before ``begun`` with the seconds of waiting, if all threads were busy.
        """
        loop = asyncio.get_running_loop()
        place = _Place(loop.time())
        has_to_wait = False

        def run() -> T:
            try:
                if has_to_wait:
                    waited(loop.time() - place.asked_at)
                if begun is not None:
                    begun()
                return function()
            finally:
                with self._counting:
                    del self._running[threading.get_ident()]

        def work() -> T | None:
            with self._counting:
                place.work = None
                if place not in self._queue:
                    return None  # it was withdrawn, or has begun in another pool's thread
                del self._queue[place]
                if place.outcome is not None and not place.outcome.set_running_or_notify_cancel():
                    return None
                self._running[threading.get_ident()] = (what, time.monotonic())
            if place.outcome is None:
                return run()
            try:
                place.outcome.set_result(run())
            except BaseException as error:
                place.outcome.set_exception(error)
            return None

        with self._counting:  # so that no work begins before its place is complete
            self._queue[place] = None
            has_to_wait = self._is_full()
            if has_to_wait:
                self._look_later(loop)
            try:
                place.future = loop.run_in_executor(self._pool, work)
            except (RuntimeError, MemoryError) as error:
                has_to_wait = True
                place.future = self._wait_for_thread(loop, place, work, error)
        return place.future

    def _wait_for_thread(
        self, loop: asyncio.AbstractEventLoop, place: _Place, work: Callable[[], Any], error: Exception
    ) -> asyncio.Future[Any]:
        """Return the future of work that is queued although no thread could be started.

        Raises:
            RuntimeError: The pool is closed. The work is withdrawn.
        """
        if not _is_shortage(error):
            del self._queue[place]
            raise error
        place.work, place.outcome = work, Future()
        self._warn("the system has no thread left")
        self._start_later(loop)
        return asyncio.wrap_future(place.outcome, loop=loop)

    def _starved(self) -> list[_Place]:
        """Return the queued work for which no thread could be started."""
        return [each for each in self._queue if each.outcome is not None and not each.is_given_up]

    def _start_later(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._starting is None:
            self._starting = loop.call_later(START_AGAIN_SECONDS, self._start, loop)

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Resume starved steps if the system has threads again."""
        with self._counting:
            self._starting = None
            starved = self._starved()
            if not starved or self not in _at_work:
                return
            try:
                threading.Thread(target=_nothing, name="signoff step probe").start()
                # CPython 3.11's executor permanently counts work without a new thread as an idle thread.
                self._pool.shutdown(wait=False)  # its threads end after the queued work
                self._pool = self._new_pool()
                for place in starved:
                    if place.work is not None:
                        self._pool.submit(place.work)
            except (RuntimeError, MemoryError) as error:
                if _is_shortage(error):
                    self._start_later(loop)

    def _is_full(self) -> bool:
        """Whether a step waits for a thread. Also drops cancelled steps, since callbacks would be slower.

        It inspects no more of the queue than necessary: each of very many steps calls it.
        """
        free = self.count - len(self._running)
        if len(self._queue) <= free:
            return False
        given_up: list[_Place] = []
        for place in self._queue:
            if place.is_given_up:
                given_up.append(place)
            elif free > 0:
                free -= 1
            else:
                break
        else:
            place = None
        for each in given_up:
            del self._queue[each]
        return place is not None

    def _look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._looking is None and self in _at_work:
            self._looking = loop.call_later(WARN_AFTER_SECONDS, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Warn if a step has waited for long; check again while any waits."""
        with self._counting:
            self._looking = None
            if not self._is_full():
                return
            longest = next(place for place in self._queue if not place.is_given_up)
            if loop.time() - longest.asked_at >= WARN_AFTER_SECONDS:
                self._warn()
            self._look_later(loop)

    def _warn(self, cause: str = "") -> None:
        """Warn, at most once a minute, that steps wait for a thread, and list the longest running steps."""
        now = time.monotonic()
        if now - self._warned_at < WARN_EVERY_SECONDS:
            return
        self._warned_at = now
        oldest = sorted(self._running.values(), key=lambda each: each[1])[:SHOWN]
        shown = "; ".join(f"{what} for {now - since:.0f} s" for what, since in oldest)
        shown = shown or "none has begun"
        if cause:
            waiting = sum(not place.is_given_up for place in self._queue)
            log.warning("%s: %d plain steps wait for a thread. Longest running: %s", cause, waiting, shown)
            return
        log.warning(
            "all %d threads for plain steps are taken, and %d steps wait for one. Longest running: %s. "
            "Make steps that wait async, or give the worker more threads",
            self.count,
            self.waiting,
            shown,
        )


def _is_shortage(error: Exception) -> bool:
    """Whether a thread could not be started for lack of resources."""
    return isinstance(error, MemoryError) or str(error) == NO_THREAD


def _nothing() -> None: ...
