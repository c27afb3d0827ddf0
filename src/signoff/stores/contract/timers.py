"""The operation that fires due timers and deadlines."""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from typing import Final

from signoff.stores.contract.operations import writes

GRACE_SECONDS: Final = 300.0
"""Seconds for which a begun run past its deadline waits for a worker to run its clean-up code."""


class TimerStore:
    """The part of ``signoff.stores.contract.store.Store`` that depends on time."""

    @writes()
    async def due(self, limit: int = 1000) -> float | None:
        """Fire due deadlines and timers, and free expired leases.

        A run that never started ends at its deadline, as ``failed`` with ``RunTimeout``: it may never be claimed. Any
        other gets a message, for its code to clean up. If no worker claims it then, it ends the same way: once it has
        been ready for ``GRACE_SECONDS`` since its deadline. These count anew if its lease expires or it pauses
        meanwhile, and if more than half of them had passed before a process noticed the deadline.

        A run whose lease expired counts a takeover; the count starts from one if its journal has grown since the last.

        All of it is one transaction. If that fails, each item is processed by itself: an item that fails is set aside
        and retried with back-off (``stores/shared/failed_items.py``).

        Workers without a recent heartbeat are removed from the register.

        Time in which this process could not write does not count against leases: after an outage of at least a second
        it frees none for ``lease_seconds``, in which their holders extend them (``stores/shared/outages.py``). If
        outages follow one another, the store counts the time between them, and frees leases that had expired before
        once it adds up to ``lease_seconds``.

        If a rate held a claim back and now allows the next start, listeners are notified (``Change.ready``).

        Returns:
            When the next item is due, in unix seconds of ``clock``; None if nothing is. A lease that expires in three
            seconds of the lease clock is due in three seconds. If ``limit`` cut this call short, the time is now or
            earlier.
        """
