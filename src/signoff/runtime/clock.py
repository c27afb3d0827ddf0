"""Clocks. A store uses one clock for all times, which tests can replace."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Protocol

JUMP_SECONDS: Final = 1.0
"""Smaller changes of a machine's clock are normal: its time service makes them all the time."""

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_TIME_NAMESPACE: Final = "/proc/self/ns/time"


class Clock(Protocol):
    """A source of unix time, real or virtual."""

    def now(self) -> float:
        """Return the time in unix seconds."""
        ...

    def on_jump(self, callback: Callable[[], None]) -> None:
        """Call ``callback``, from any thread, whenever the time jumps."""
        ...


class SystemClock:
    """The machine's clock at construction, plus the time since then. Later changes of the clock have no effect."""

    def __init__(self) -> None:
        self._ahead = wall() - since_boot()

    def now(self) -> float:
        return self._ahead + since_boot()

    def on_jump(self, callback: Callable[[], None]) -> None:
        """Do nothing: this clock never jumps."""


def wall() -> float:
    """Return the machine's clock in unix seconds. It can be set forward and back."""
    return time.time()


if sys.platform == "linux":
    # A partial, because each write calls it and a function of ours would be slower.
    since_boot = partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    """Return the seconds since the machine booted, including suspensions. This clock cannot be set."""

elif sys.platform == "darwin":

    def since_boot() -> float:
        """Return the seconds since the machine booted, including suspensions. This clock cannot be set."""
        return time.clock_gettime(time.CLOCK_MONOTONIC_RAW)

else:

    def since_boot() -> float:
        """Return the seconds since the machine booted, including suspensions. This clock cannot be set."""
        return time.monotonic()


def awake() -> float:
    """Return the seconds since the machine booted, without suspensions."""
    return time.monotonic()


def boot() -> str | None:
    """Return an id of the boot that ``since_boot`` counts from; None if the system has none (only Linux does)."""
    with contextlib.suppress(OSError):
        namespace = ""
        with contextlib.suppress(OSError):  # kernels before 5.6 have no time namespaces
            namespace = os.readlink(_TIME_NAMESPACE)
        return f"{_BOOT_ID.read_text().strip()}/{namespace}"
    return None


@dataclass(frozen=True, slots=True)
class Jump:
    """A change of a machine's clock.

    Attributes:
        seconds: How far it was set forward, negative if back.
        slept: How long the machine was suspended.
    """

    seconds: float = 0.0
    slept: float = 0.0


class Jumps:
    """Detects jumps of the machine's clock by comparison with a clock that only advances.

    Args:
        now: The clock that only advances, in unix seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._off = wall() - now()
        self._slept = since_boot() - awake()

    def look(self) -> tuple[float, Jump | None]:
        """Return how far the machine's clock is ahead, and its jump since the last call, if any."""
        off, slept = wall() - self._now(), since_boot() - awake()
        jump = Jump(
            off - self._off if abs(off - self._off) > JUMP_SECONDS else 0.0,
            slept - self._slept if slept - self._slept > JUMP_SECONDS else 0.0,
        )
        self._off, self._slept = off, slept
        return off, jump if jump.seconds or jump.slept else None
