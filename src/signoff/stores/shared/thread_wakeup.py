"""Wakes a thread."""

from __future__ import annotations

import contextlib
import threading


class WakeUp:
    """Much cheaper than a ``threading.Event`` for repeated waits."""

    __slots__ = ("_silent",)

    def __init__(self) -> None:
        self._silent = threading.Lock()
        self._silent.acquire()

    def wake(self) -> None:
        """Wake the thread, or make its next wait return at once."""
        with contextlib.suppress(RuntimeError):  # the wake-up is already pending
            self._silent.release()

    def wait(self, seconds: float) -> None:
        """Wait for a wake-up, at most ``seconds``."""
        self._silent.acquire(timeout=max(seconds, 0.0))
