"""What a test of durable code needs: time that the test owns, and crashes at the place it chooses."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar

from signoff.stores.base import Outcome, Store, Write

T = TypeVar("T")


class VirtualClock:
    """A clock that stands still until a test moves it. Safe to use from any thread.

    Args:
        start: The first time, in unix seconds.

    Example:
        clock = VirtualClock()
        store = SqliteStore("test.db", clock=clock)
        clock.advance(3600)  # a one-hour timeout fires now
    """

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now = start
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    def now(self) -> float:
        """Return the time in unix seconds."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move time on (or, with a negative number, back) and tell whoever asked."""
        with self._lock:
            self._now += seconds
        self._jumped()

    def set(self, to: float) -> None:
        """Make it ``to``, in unix seconds, and tell whoever asked."""
        with self._lock:
            self._now = to
        self._jumped()

    def on_jump(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called after each move, on the thread that made it."""
        self._callbacks.append(callback)

    def _jumped(self) -> None:
        for callback in tuple(self._callbacks):
            callback()


class DoomedStore:
    """A store whose process is killed with SIGKILL at one entry of one run's journal.

    Give it to a ``Signoff`` in a process of its own, and start another process to see what is left.

    Args:
        store: The store to use until then.
        run_id: The run.
        seq: The entry.
        when: ``before`` it is written, when its cause has happened but is not durable; or ``after``, when it is
            durable but nobody knows yet.

    Example:
        app = Signoff(DoomedStore(SqliteStore("test.db"), "refund-1", 3, when="before"))
    """

    def __init__(self, store: Store, run_id: str, seq: int, *, when: Literal["before", "after"]) -> None:
        self._store = store
        self._run_id = run_id
        self._seq = seq
        self._when = when

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, write: Write) -> None:
        await self._do(write, lambda: self._store.append(write))

    async def pause(self, write: Write, *, wakes: int, wake_at: float | None) -> bool:
        return await self._do(write, lambda: self._store.pause(write, wakes=wakes, wake_at=wake_at))

    async def complete(self, write: Write, outcome: Outcome) -> None:
        await self._do(write, lambda: self._store.complete(write, outcome))

    async def _do(self, write: Write, operation: Callable[[], Awaitable[T]]) -> T:
        is_the_one = write.run_id == self._run_id and any(entry.seq == self._seq for entry in write.entries)
        if is_the_one and self._when == "before":
            _die()
        result = await operation()
        if is_the_one:
            _die()
        return result


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
