"""Where time comes from. A store stamps and compares times by one clock, so that tests can own it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """A source of unix time, real or virtual."""

    def now(self) -> float:
        """Return the time in unix seconds."""
        ...

    def on_jump(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called, from any thread, whenever time moves otherwise than by passing."""
        ...


class SystemClock:
    """The machine's clock. It never jumps as far as anybody is told."""

    def now(self) -> float:
        return time.time()

    def on_jump(self, callback: Callable[[], None]) -> None:
        pass
