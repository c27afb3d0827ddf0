"""Groups: where runs are routed to, and the limits of each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate limit: ``Rate(10, 60)`` allows ten a minute."""

    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Group:
    """A group that workers poll and runs are routed to, with its limits and its number of runs by state."""

    name: str
    is_paused: bool = False  # workers claim none of its runs
    max_running: int | None = None  # how many may run at once; None: no limit
    starts_per: Rate | None = None  # how often a run may start for the first time; None: no limit
    ready: int = 0
    running: int = 0
    paused: int = 0
    suspended: int = 0  # how many of the paused runs wait for an operator
    set_aside: int = 0  # how many of the suspended runs Signoff suspended, after takeovers without progress
