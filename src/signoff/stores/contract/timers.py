"""The operation that fires due timers and deadlines."""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from signoff.stores.contract.operations import writes


class TimerStore:
    """The part of ``signoff.stores.contract.store.Store`` that depends on time."""

    @writes()
    async def due(self, limit: int = 1000) -> float | None:
        """Do what time has brought: promises time out, timers wake runs, deadlines pass, lost leases are freed.

        A run that was never begun ends when its deadline passes, as ``failed`` with ``RunTimeout``: nobody knows
        whether a worker will ever come for it. Any other is left a message. A run whose lease was lost counts a
        takeover; the count starts from one when its journal has grown since the last.

        All of it is one transaction. Where that fails, each item is done by itself: one that fails is set aside, and
        tried again with back-off (``stores/shared/set_aside_items.py``).

        Workers that were silent for too long are forgotten.

        Time in which this process could not write does not count against leases: after an outage of a second or more it
        frees none for ``lease_seconds``, in which their holders extend them (``stores/shared/outages.py``). Where one
        outage follows another, the time between them is counted in the store, and leases that had run out before are
        freed once it adds up to ``lease_seconds``.

        Where a rate held a claim back and lets the next start through now, listeners are told (``Change.ready``).

        Returns:
            When the next thing is due in unix seconds of ``clock`` (a lease that runs out in three seconds by the
            lease clock is due in three seconds; now or earlier if ``limit`` cut this call short), or None.
        """
