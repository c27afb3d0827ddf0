"""Deletes runs, tokens and deliveries some time after their end, and workflows that no worker announces."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Final

from signoff.errors import InvalidValue, StoreUnavailable
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Store
from signoff.stores.shared.failed_items import FailedItems, raise_outage

log = own_logger("signoff.retention")

LOOK_EVERY_SECONDS = 600.0
AT_ONCE = 50  # in one transaction
REST = 4  # pause, in multiples of the last transaction's duration, so that other writes come first
DAY_SECONDS = 86_400.0
MOST_DAYS: Final = 36_500
"""The longest retention. A longer one is a mistake in the unit or exponent."""

UNANNOUNCED_DAYS = 7.0


def unannounced_seconds(seconds: float) -> float:
    """Return how long a workflow stays listed after its last announcement.

    Args:
        seconds: How long other things are kept after their end.
    """
    return max(seconds, UNANNOUNCED_DAYS * DAY_SECONDS)


async def delete_settled(store: Store, before: float, limit: int) -> int:
    """Delete up to ``limit`` settled promises without a run, or a few more. Returns how many.

    Args:
        store: An open store, bound to a namespace.
        before: When they were settled at the latest, in unix seconds.
        limit: When to stop.
    """
    deleted, after = await store.delete_settled(before, AT_ONCE)
    while after is not None and deleted < limit:
        some, after = await store.delete_settled(before, AT_ONCE, after=after)
        deleted += some
    return deleted


class Retention:
    """Deletes ended items of a store's namespace after some days. Any number of processes may run it.

    Args:
        store: An open store.
        days: How long ended runs, settled promises without a run, ended deliveries and expired or revoked tokens are
            kept. Workflows are kept as long after their last announcement, and at least ``UNANNOUNCED_DAYS``.

    Raises:
        InvalidValue: The number of days is not above 0, or above ``MOST_DAYS``.
    """

    def __init__(self, store: Store, days: float) -> None:
        if not 0 < days < math.inf:
            raise InvalidValue("retention_days", f"{days} is not a number of days above 0")
        if days > MOST_DAYS:
            raise InvalidValue(
                "retention_days", f"{days:g} is more than {MOST_DAYS:,} days; leave it out to keep everything"
            )
        self._store = store
        self._seconds = days * DAY_SECONDS
        self._aside = FailedItems("retention", log)

    async def run(self) -> None:
        """Check periodically until cancelled."""
        while True:
            try:
                deleted = await self.delete()
                if deleted:
                    log.info(
                        "deleted %d runs that ended more than %g days ago",
                        deleted,
                        self._seconds / DAY_SECONDS,
                    )
            except StoreUnavailable as trouble:
                log.error("retention waits for the store: %s", trouble)
            except Exception:  # otherwise nothing would ever be deleted again
                log.exception("retention failed; next attempt in %d s", LOOK_EVERY_SECONDS)
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def delete(self) -> int:
        """Delete everything due, in small batches. Returns the number of runs deleted."""
        await self._try(self._store.delete_tokens, self._seconds)
        await self._try(self._store.delete_deliveries, self._seconds)
        await self._try(self._store.delete_workflows, unannounced_seconds(self._seconds))
        deleted = await self._try(self._store.delete_ended, self._seconds)
        await self._try(self._delete_settled, self._seconds)  # some are kept while a run is there
        return deleted

    async def _delete_settled(self, before: float, _: int) -> int:
        """Delete settled promises without a run. Returns 0: all were examined."""
        loop = asyncio.get_running_loop()
        after: str | None = None
        while True:
            began = loop.time()
            _, after = await self._store.delete_settled(before, AT_ONCE, after=after)
            if after is None:
                return 0
            await asyncio.sleep((loop.time() - began) * REST)

    async def _try(self, some: Callable[[float, int], Awaitable[int]], seconds: float) -> int:
        """Delete items of one kind. A failure does not affect the other kinds; it is retried at the next check.

        Raises:
            StoreUnavailable: The store takes no writes.
        """
        key = self._store.namespace, some.__name__.removeprefix("_")
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
