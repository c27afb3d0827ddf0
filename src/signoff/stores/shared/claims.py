"""Claims in one statement; run by run while some runs cannot be claimed, so that these keep no other from workers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from signoff.stores.contract.leases import Claim
from signoff.stores.contract.store import Store
from signoff.stores.shared.one_by_one import Failure
from signoff.stores.shared.set_aside_items import SetAside, raise_outage

JOB: Final = "ready run"


@dataclass(frozen=True, slots=True)
class ClaimedEach:
    """What came of a claim that was done run by run.

    Attributes:
        claims: The runs that were leased.
        failures: The runs that could not be leased. Nothing of them was written.
        ready: Of the runs that had failed before, the ids of those that are still ready.
    """

    claims: Sequence[Claim]
    failures: Sequence[Failure]
    ready: Collection[str]


class Claims:
    """Claims runs for workers, and remembers which runs could not be claimed.

    Args:
        log: Where failures are logged.
    """

    def __init__(self, log: logging.Logger | logging.LoggerAdapter[logging.Logger]) -> None:
        self._log = log
        self._aside = SetAside(JOB, log)

    def failed(self, namespace: str) -> list[str]:
        """Return the ids of a namespace's runs that could not be claimed of late."""
        return [item.id for item in self._aside.items if item.namespace == namespace] if self._aside else []

    async def claim(
        self,
        store: Store,
        at_once: Callable[[], Awaitable[Sequence[Claim]]],
        each: Callable[[Sequence[str], Sequence[str]], Awaitable[ClaimedEach]],
    ) -> Sequence[Claim]:
        """Claim at once; run by run if that failed, or if runs of the namespace are set aside.

        Args:
            store: Where the runs are.
            at_once: Claims in one statement.
            each: Claims run by run. It is given the ids of the runs to pass over, and of all that have failed.

        Raises:
            StoreUnavailable: The store takes no writes at all: no run is at fault.
        """
        failed: Exception | None = None
        known = self.failed(store.namespace)
        if not known:
            try:
                return await at_once()
            except Exception as error:
                await raise_outage(store, error)
                failed = error
        now = store.clock.now()
        waiting = [id for namespace, id in self._aside.waiting(now) if namespace == store.namespace]
        done = await each(waiting, known)
        if failed is not None and not done.failures:
            self._log.warning("a claim failed, but of none of its runs: %s", failed)
        for id in set(known) - set(done.ready):
            self._aside.forget((store.namespace, id))
        for failure in done.failures:
            self._aside.note(store.location, failure.key, failure.error, now)
        return done.claims
