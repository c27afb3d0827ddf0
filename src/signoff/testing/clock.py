"""Time that a test owns."""

from __future__ import annotations

import threading
from collections.abc import Callable


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
