"""Failed items of a periodic job: set aside, logged, and retried with back-off while the others go on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final
from weakref import WeakSet

from signoff.errors import MissingKey, StoreUnavailable
from signoff.records import Due
from signoff.records.failed_items import SetAsideItem
from signoff.stores.contract.store import Store
from signoff.stores.shared.failure_texts import text_of

FIRST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 300.0
MOST: Final = 10_000
"""Maximum number of remembered items. Beyond it, the oldest are retried without back-off, one page per second."""

FULL_SECONDS: Final = 1.0
"""The pause between these pages."""

REPEATED: Final = 8
"""Number of failures (about four minutes) after which an unavailable store is logged although it accepts writes."""

Key = tuple[str, str]
"""The item's namespace and id."""


def pause_after(failures: int) -> float:
    """Return the back-off in seconds after this many consecutive failures."""
    return min(FIRST_SECONDS * 2 ** min(failures - 1, 20), LONGEST_SECONDS)


_lock = threading.Lock()
_at_work: WeakSet[FailedItems] = WeakSet()
"""The instances of this process, for its metrics."""


class FailedItems:
    """Remembers the failed items of a job, and when to retry each.

    Args:
        noun: The kind of item, for the log.
        log: Logger for failures: an item's first, then each time their number has doubled. A briefly unavailable store
            is logged from the eighth failure on.

    Example::

        await aside.serve_due(store, store.due_schedules, fire, at_once=100)
    """

    def __init__(self, noun: str, log: logging.Logger | logging.LoggerAdapter[logging.Logger]) -> None:
        self._noun = noun
        self._log = log
        self._items: dict[Key, SetAsideItem] = {}
        self._location = ""
        self._failures = 0
        with _lock:
            _at_work.add(self)

    @property
    def noun(self) -> str:
        """The kind of item, such as ``schedule``."""
        return self._noun

    @property
    def failures(self) -> int:
        """Total number of failures."""
        return self._failures

    def __len__(self) -> int:
        return len(self._items)

    @property
    def location(self) -> str:
        """The address of the store with the failed items, as used in messages; empty if none has failed."""
        return self._location

    @property
    def items(self) -> Sequence[SetAsideItem]:
        """The items waiting for a retry, the first to fail first."""
        return tuple(self._items.values())

    @property
    def is_full(self) -> bool:
        """Whether more items fail than can be remembered. The job then pauses after each page of them."""
        return len(self._items) >= MOST

    def waiting(self, now: float) -> list[Key]:
        """Return the items that must not be retried at ``now`` (unix seconds)."""
        return [key for key in tuple(self._items) if self._is_waiting(key, now)]

    def next_try(self, now: float, besides: Collection[Key] = ()) -> float | None:
        """Return when the next item is retried, apart from ``besides``, in unix seconds; None without one."""
        return min(
            (
                min(each.next_at, now + LONGEST_SECONDS)
                for each in self.items
                if (each.namespace, each.id) not in besides
            ),
            default=None,
        )

    def note(self, location: str, key: Key, error: Exception, now: float) -> None:
        """Set an item aside, or extend its back-off.

        Args:
            location: The store's address.
            key: The item's namespace and id.
            error: The failure.
            now: Unix seconds of the store's clock.
        """
        self._location = location
        self._failures += 1
        before = self._items.pop(key, None)
        failures = 1 if before is None else before.failures + 1
        pause = pause_after(failures)
        first_at = now if before is None else before.first_at
        self._items[key] = SetAsideItem(self._noun, *key, failures, text_of(error), first_at, now + pause)
        if len(self._items) > MOST:
            del self._items[next(iter(self._items))]
        if failures >= REPEATED or not may_pass(error):
            self._log_at_doubling(key, failures, str(error))

    def log_failure(self, item: SetAsideItem) -> None:
        """Count and log the failure of an item that is stored elsewhere."""
        self._failures += 1
        self._log_at_doubling((item.namespace, item.id), item.failures, item.error)

    def show(self, location: str, items: Sequence[SetAsideItem]) -> None:
        """Replace the list by these items, which are stored elsewhere.

        Args:
            location: The store's address.
            items: Items of this job.
        """
        self._location = location
        self._items = {(item.namespace, item.id): item for item in items}

    def _log_at_doubling(self, key: Key, failures: int, error: str) -> None:
        if failures & (failures - 1) == 0:
            self._log.error(
                "%s %s of namespace %s failed %d times, and is retried in %d s: %s",
                self._noun,
                key[1],
                key[0],
                failures,
                pause_after(failures),
                error,
            )

    def forget(self, key: Key) -> None:
        """Remove an item that has succeeded."""
        self._items.pop(key, None)

    def keep_only(self, keys: Collection[Key]) -> None:
        """Remove all other items: they are no longer due."""
        for key in self._items.keys() - set(keys):
            self.forget(key)

    async def serve_due(
        self,
        store: Store,
        list_due: Callable[[int], Awaitable[tuple[Sequence[Due], float | None]]],
        serve: Callable[[Due], Awaitable[bool]],
        *,
        at_once: int,
    ) -> float | None:
        """Serve all due items, each separately.

        Args:
            store: The items' store.
            list_due: Returns due items up to a limit, the oldest first, and when the next one is due.
            serve: Reads and serves one item. Returns whether its due time has changed.
            at_once: Number of items per page.

        Returns:
            When the next one is due, in unix seconds; None if there is none, or if some are left for later.

        Raises:
            StoreUnavailable: The store accepts no writes at all, so no item is at fault.
        """
        while True:
            # Failed items are still due, and may be the oldest: they must not fill the page.
            due, next_at = await list_due(at_once + len(self))
            if len(due) < at_once:
                self.keep_only([(item.namespace, item.id) for item in due])
            now = store.clock.now()
            ready = [item for item in due if not self._is_waiting((item.namespace, item.id), now)]
            if not ready:
                return None if due else next_at
            served = [await self._serve(store, serve, item) for item in ready]
            if not any(served) or self.is_full:
                return None

    async def _serve(self, store: Store, serve: Callable[[Due], Awaitable[bool]], item: Due) -> bool:
        key = item.namespace, item.id
        try:
            served = await serve(item)
        except Exception as error:
            await raise_outage(store, error)
            self.note(store.location, key, error, store.clock.now())
            return True
        self.forget(key)
        return served

    def _is_waiting(self, key: Key, now: float) -> bool:
        known = self._items.get(key)
        # An item waits no longer than the longest back-off, even if the clock was set back.
        return known is not None and now < known.next_at <= now + LONGEST_SECONDS


def running_jobs() -> list[FailedItems]:
    """Return the instances of this process's periodic jobs."""
    with _lock:
        return list(_at_work)


def items_of(location: str, namespace: str) -> list[SetAsideItem]:
    """Return the items of a store's namespace set aside by jobs of this process, by job and id.

    Args:
        location: The store's address.
        namespace: The namespace.
    """
    found: dict[Key, SetAsideItem] = {}
    for aside in running_jobs():
        for item in aside.items if aside.location == location else ():
            if item.namespace == namespace:
                key = item.job, item.id
                known = found.get(key)  # two timers of this process may have set it aside
                if known is None or known.failures < item.failures:
                    found[key] = item
    return [found[key] for key in sorted(found)]


async def raise_outage(store: Store, error: Exception) -> None:
    """Re-raise an error if the whole store is unavailable; return if a single row or job is at fault.

    Raises:
        StoreUnavailable: The store accepts no writes.
    """
    if may_pass(error):
        await store.check_writable()


def may_pass(error: Exception) -> bool:
    """Whether an error may be transient, such as a lost connection."""
    return isinstance(error, StoreUnavailable) and not isinstance(error, MissingKey)
