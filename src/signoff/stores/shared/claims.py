"""Claims runs in one statement, or one by one while some of them cannot be claimed, so that these block no others."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from signoff.stores.contract.leases import Claim
from signoff.stores.contract.store import Store
from signoff.stores.shared.failed_items import FailedItems, raise_outage
from signoff.stores.shared.failure_isolation import Failure

JOB: Final = "ready run"


@dataclass(frozen=True, slots=True)
class ClaimedEach:
    """The result of claiming runs one by one.

    Attributes:
        claims: The leased runs.
        failures: The runs that could not be leased. They were not changed.
        ready: Ids of the runs that had failed before and are still ready.
    """

    claims: Sequence[Claim]
    failures: Sequence[Failure]
    ready: Collection[str]


class Claims:
    """Claims runs for workers, and remembers runs that could not be claimed.

    Args:
        log: Logger for failures.
    """

    def __init__(self, log: logging.Logger | logging.LoggerAdapter[logging.Logger]) -> None:
        self._log = log
        self._aside = FailedItems(JOB, log)

    def failed(self, namespace: str) -> list[str]:
        """Return the ids of a namespace's runs that recently could not be claimed."""
        return [item.id for item in self._aside.items if item.namespace == namespace] if self._aside else []

    async def claim(
        self,
        store: Store,
        at_once: Callable[[], Awaitable[Sequence[Claim]]],
        each: Callable[[Sequence[str], Sequence[str]], Awaitable[ClaimedEach]],
    ) -> Sequence[Claim]:
        """Claim in one statement; one by one if that failed, or if runs of the namespace are set aside.

        Args:
            store: The runs' store.
            at_once: Claims in one statement.
            each: Claims one by one. Receives the ids of the runs to skip, and of all that have failed.

        Raises:
            StoreUnavailable: The store accepts no writes at all, so no run is at fault.
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
            self._log.warning("a claim failed, but none of its runs did: %s", failed)
        for id in set(known) - set(done.ready):
            self._aside.forget((store.namespace, id))
        for failure in done.failures:
            self._aside.note(store.location, failure.key, failure.error, now)
        return done.claims
