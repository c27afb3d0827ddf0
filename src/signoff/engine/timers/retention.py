"""Deleting runs, tokens and deliveries that ended long ago, and workflows that nobody runs, in the background."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Final

from signoff.errors import InvalidValue, StoreUnavailable
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Store
from signoff.stores.shared.set_aside_items import SetAside, raise_outage

log = own_logger("signoff.retention")

LOOK_EVERY_SECONDS = 600.0
AT_ONCE = 50  # in one transaction
REST = 4  # times as long as the last transaction took: others come first
DAY_SECONDS = 86_400.0
MOST_DAYS: Final = 36_500
"""The longest time for which something is kept. What is longer is a slip: a unit, or an exponent."""

UNANNOUNCED_DAYS = 7.0


def unannounced_seconds(seconds: float) -> float:
    """Return how long a workflow stays on the register after a worker last announced it.

    Args:
        seconds: How long other things are kept after their end.
    """
    return max(seconds, UNANNOUNCED_DAYS * DAY_SECONDS)


class Retention:
    """Deletes what ended in a store's namespace, some days after its end. Any number of processes may do so.

    Args:
        store: An open store.
        days: How long ended runs and deliveries, and expired or revoked tokens, are kept. Workflows are for as long
            after a worker last announced them, and for ``UNANNOUNCED_DAYS`` at least.

    Raises:
        InvalidValue: That is no number of days above 0, or more than ``MOST_DAYS``.
    """

    def __init__(self, store: Store, days: float) -> None:
        if not 0 < days < math.inf:
            raise InvalidValue("retention_days", f"{days} is no number of days above 0")
        if days > MOST_DAYS:
            raise InvalidValue(
                "retention_days", f"{days:g} is more than {MOST_DAYS:,} days; leave it out to keep everything"
            )
        self._store = store
        self._seconds = days * DAY_SECONDS
        self._aside = SetAside("retention", log)

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while True:
            try:
                deleted = await self.delete()
                if deleted:
                    log.info(
                        "%d runs deleted that ended over %g days ago", deleted, self._seconds / DAY_SECONDS
                    )
            except StoreUnavailable as trouble:
                log.error("retention waits: %s", trouble)
            except Exception:  # or nothing would ever be deleted again
                log.exception("retention failed, and is tried again in %d s", LOOK_EVERY_SECONDS)
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def delete(self) -> int:
        """Delete all that is due, in small batches. Returns how many runs."""
        await self._try(self._store.delete_tokens, self._seconds)
        await self._try(self._store.delete_deliveries, self._seconds)
        await self._try(self._store.delete_workflows, unannounced_seconds(self._seconds))
        return await self._try(self._store.delete_ended, self._seconds)

    async def _try(self, some: Callable[[float, int], Awaitable[int]], seconds: float) -> int:
        """Delete of one kind. If that fails, the other kinds are deleted, and this one is tried again at the next look.

        Raises:
            StoreUnavailable: The store takes no writes.
        """
        key = self._store.namespace, some.__name__
        try:
            deleted = await self._delete(some, seconds)
        except Exception as error:
            await raise_outage(self._store, error)
            self._aside.note(self._store.location, key, error, self._store.clock.now())
            return 0
        self._aside.forget(key)
        return deleted

    async def _delete(self, some: Callable[[float, int], Awaitable[int]], age: float) -> int:
        loop = asyncio.get_running_loop()
        total = 0
        while True:
            began = loop.time()
            deleted = await some(self._store.clock.now() - age, AT_ONCE)
            total += deleted
            if deleted < AT_ONCE:
                return total
            await asyncio.sleep((loop.time() - began) * REST)
