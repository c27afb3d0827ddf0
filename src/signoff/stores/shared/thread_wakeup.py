"""A bell that wakes a thread."""

from __future__ import annotations

import contextlib
import threading


class WakeUp:
    """Far cheaper to wait on, again and again, than a ``threading.Event``."""

    __slots__ = ("_silent",)

    def __init__(self) -> None:
        self._silent = threading.Lock()
        self._silent.acquire()

    def ring(self) -> None:
        """Wake the thread, or have its next wait return at once."""
        with contextlib.suppress(RuntimeError):  # it rings already
            self._silent.release()

    def wait(self, seconds: float) -> None:
        """Wait until it rings, ``seconds`` at most."""
        self._silent.acquire(timeout=max(seconds, 0.0))
