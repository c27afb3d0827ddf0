"""Outages: times in which this process could not write. They do not count against the holders of leases.

During an outage no worker can extend its leases. Without this rule, the first process that can write again would find
them expired and take runs from workers that still execute them; their steps would run twice.
"""

from __future__ import annotations

import time
from typing import Final

OUTAGE_SECONDS: Final = 1.0
"""From this duration on, a wait is an outage rather than another process's commit."""

_MOST_SERVED: Final = 2.0
"""Maximum seconds that one check counts as served. Checks come every second; time before an outage must not count."""


def is_absence(seconds: float, lease_seconds: float) -> bool:
    """Whether a process that checks this late has missed heartbeats. Half a lease is longer than their interval."""
    return seconds >= lease_seconds / 2


class Outages:
    """Remembers the last outage of a store, as seen by this process. Thread-safe."""

    def __init__(self) -> None:
        self._since: float | None = None  # on the monotonic clock, like the other times
        self._ended_at: float | None = None
        self._reached_at: float | None = None  # start of the time in which the store could be written
        self._served = 0.0

    def waiting(self, since: float | None = None) -> None:
        """Note that a write is waiting or has failed because the store cannot be reached.

        Args:
            since: Its start, on the monotonic clock; None: now.
        """
        if self._since is not None:
            return
        self._since = time.monotonic() if since is None else since
        reached_at, self._reached_at = self._reached_at, None
        if reached_at is not None:
            self._served += max(0.0, self._since - reached_at)

    def reached(self) -> None:
        """Note that the store can be written."""
        since, self._since = self._since, None
        if since is not None and (now := time.monotonic()) - since >= OUTAGE_SECONDS:
            self._ended_at = now
        if self._reached_at is None:
            self._reached_at = time.monotonic()

    def hold(self) -> None:
        """Count the time until now as an outage that this process has not noticed."""
        self._ended_at = time.monotonic()
        if self._reached_at is not None:
            self._reached_at = self._ended_at

    def now(self) -> float:
        """Return the monotonic time that outages are measured by, in seconds."""
        return time.monotonic()

    def hold_if_late(self, asked_at: float, lease_seconds: float) -> None:
        """Hold leases if a request of ``asked_at`` is only processed now: the process was stopped meanwhile."""
        if is_absence(time.monotonic() - asked_at, lease_seconds):
            self.hold()

    def held_for(self, lease_seconds: float) -> float:
        """Return for how many seconds no lease may be freed. Each holder gets the time of a lease to extend it."""
        ended_at = self._ended_at
        return 0.0 if ended_at is None else max(0.0, ended_at + lease_seconds - time.monotonic())

    def take_served(self) -> float:
        """Return for how many seconds the store could be written since the last call, and reset the count."""
        if self._reached_at is not None:
            now = time.monotonic()
            self._served += now - self._reached_at
            self._reached_at = now
        served, self._served = self._served, 0.0
        return min(served, _MOST_SERVED)
