"""A clock for tests."""

from __future__ import annotations

import threading
from collections.abc import Callable


class VirtualClock:
    """A clock that stands still until a test moves it. Thread-safe.

    Args:
        start: The first time, in Unix seconds.

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
        """Return the time in Unix seconds."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move time forward (or back, with a negative number) and notify listeners."""
        with self._lock:
            self._now += seconds
        self._jumped()

    def set(self, to: float) -> None:
        """Set the time, in Unix seconds, and notify listeners."""
        with self._lock:
            self._now = to
        self._jumped()

    def on_jump(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` after each move, on the thread that moved the clock."""
        self._callbacks.append(callback)

    def _jumped(self) -> None:
        for callback in tuple(self._callbacks):
            callback()
