"""Where time comes from. A store stamps and compares times by one clock, so that tests can own it."""

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
"""Machines' clocks are set by less than this all the time, by their time service."""

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_TIME_NAMESPACE: Final = "/proc/self/ns/time"


class Clock(Protocol):
    """A source of unix time, real or virtual."""

    def now(self) -> float:
        """Return the time in unix seconds."""
        ...

    def on_jump(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called, from any thread, whenever time moves otherwise than by passing."""
        ...


class SystemClock:
    """The machine's clock as it was when this was made, plus the time since then. Setting it has no effect."""

    def __init__(self) -> None:
        self._ahead = wall() - since_boot()

    def now(self) -> float:
        return self._ahead + since_boot()

    def on_jump(self, callback: Callable[[], None]) -> None:
        """Do nothing: it never jumps."""


def wall() -> float:
    """Return what the machine's clock says, in unix seconds. It can be set forward and back."""
    return time.time()


if sys.platform == "linux":
    since_boot = partial(
        time.clock_gettime, time.CLOCK_BOOTTIME
    )  # each write asks: a function would take longer
    """Return for how many seconds the machine has been up, suspensions included. Nobody can set this clock."""

elif sys.platform == "darwin":

    def since_boot() -> float:
        """Return for how many seconds the machine has been up, suspensions included. Nobody can set this clock."""
        return time.clock_gettime(time.CLOCK_MONOTONIC_RAW)

else:

    def since_boot() -> float:
        """Return for how many seconds the machine has been up, suspensions included. Nobody can set this clock."""
        return time.monotonic()


def awake() -> float:
    """Return the same without suspensions."""
    return time.monotonic()


def boot() -> str | None:
    """Name what ``since_boot`` counts from; None if the system does not tell, as only Linux does."""
    with contextlib.suppress(OSError):
        namespace = ""
        with contextlib.suppress(OSError):  # kernels before 5.6 have none
            namespace = os.readlink(_TIME_NAMESPACE)
        return f"{_BOOT_ID.read_text().strip()}/{namespace}"
    return None


@dataclass(frozen=True, slots=True)
class Jump:
    """What a machine's clock did.

    Attributes:
        seconds: By how much it was set forward; below 0: back.
        slept: For how long the machine was suspended.
    """

    seconds: float = 0.0
    slept: float = 0.0


class Jumps:
    """Compares the machine's clock with the time that passes.

    Args:
        now: Returns the time that has passed, in unix seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._off = wall() - now()
        self._slept = since_boot() - awake()

    def look(self) -> tuple[float, Jump | None]:
        """Return by how much the machine's clock is ahead of the time, and what it did since the last look."""
        off, slept = wall() - self._now(), since_boot() - awake()
        jump = Jump(
            off - self._off if abs(off - self._off) > JUMP_SECONDS else 0.0,
            slept - self._slept if slept - self._slept > JUMP_SECONDS else 0.0,
        )
        self._off, self._slept = off, slept
        return off, jump if jump.seconds or jump.slept else None
