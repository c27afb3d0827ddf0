"""Times in which this process could not write, which do not count against the holders of leases.

During such a time no worker can extend its leases. Without a rule the first process that writes again would find them
run out, and take runs from workers that still compute them: their steps would run twice.
"""

from __future__ import annotations

import time
from typing import Final

OUTAGE_SECONDS: Final = 1.0
"""From so many seconds on, a wait is an outage, and no commit of another process."""


class Outages:
    """Remembers the last outage of a store, as this process has seen it. For any thread."""

    def __init__(self) -> None:
        self._since: float | None = None  # on the monotonic clock, as the other times
        self._ended_at: float | None = None

    def waiting(self, since: float | None = None) -> None:
        """Note that a write waits or has failed, because the store cannot be reached.

        Args:
            since: When it began, on the monotonic clock; None: now.
        """
        if self._since is None:
            self._since = time.monotonic() if since is None else since

    def reached(self) -> None:
        """Note that the store can be written."""
        since, self._since = self._since, None
        if since is not None and (now := time.monotonic()) - since >= OUTAGE_SECONDS:
            self._ended_at = now

    def hold(self) -> None:
        """Count the time until now as an outage, that this process has not seen."""
        self._ended_at = time.monotonic()

    def held_for(self, lease_seconds: float) -> float:
        """Return for how many seconds no lease may be freed: each holder has a lease's time to extend it."""
        ended_at = self._ended_at
        return 0.0 if ended_at is None else max(0.0, ended_at + lease_seconds - time.monotonic())
