"""Items of a periodic job that failed: set aside, logged, and tried again with back-off while the others go on."""

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
"""Items that are remembered. Of more, the oldest are tried again without a back-off, and a page of them each second."""

FULL_SECONDS: Final = 1.0
"""That pause."""

REPEATED: Final = 8
"""Log an unavailable store after this many failures (about four minutes), if it takes writes."""

Key = tuple[str, str]
"""The item's namespace and id."""


def pause_after(failures: int) -> float:
    """Return for how many seconds an item is left alone that has failed so often in a row."""
    return min(FIRST_SECONDS * 2 ** min(failures - 1, 20), LONGEST_SECONDS)


_lock = threading.Lock()
_at_work: WeakSet[SetAside] = WeakSet()
"""Those of this process, for its metrics."""


class SetAside:
    """Remembers which items of a job have failed, and when to try each again.

    Args:
        noun: What an item is, for the log.
        log: Where failures are logged: the first of an item, then each time their number has doubled. A store that is
            briefly unavailable is logged from the eighth failure on.

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
        """What an item is, such as ``schedule``."""
        return self._noun

    @property
    def failures(self) -> int:
        """How often an item has failed in all."""
        return self._failures

    def __len__(self) -> int:
        return len(self._items)

    @property
    def location(self) -> str:
        """The address of the store whose items have failed, as in its messages; empty if none has."""
        return self._location

    @property
    def items(self) -> Sequence[SetAsideItem]:
        """The items that wait to be tried again, the first to fail first."""
        return tuple(self._items.values())

    @property
    def is_full(self) -> bool:
        """Whether more items fail than are remembered: then a job makes a pause after each page of them."""
        return len(self._items) >= MOST

    def waiting(self, now: float) -> list[Key]:
        """Return the items that are not to be tried before a later time than ``now`` (unix seconds)."""
        return [key for key in tuple(self._items) if self._is_waiting(key, now)]

    def next_try(self, now: float, besides: Collection[Key] = ()) -> float | None:
        """Return when the next item but for some is tried again, in unix seconds; None without one."""
        return min(
            (
                min(each.next_at, now + LONGEST_SECONDS)
                for each in self.items
                if (each.namespace, each.id) not in besides
            ),
            default=None,
        )

    def note(self, location: str, key: Key, error: Exception, now: float) -> None:
        """Set an item aside, or once more.

        Args:
            location: The store's.
            key: The item's namespace and id.
            error: Why it failed.
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
        """Count and log a failure of an item that is remembered elsewhere."""
        self._failures += 1
        self._log_at_doubling((item.namespace, item.id), item.failures, item.error)

    def show(self, location: str, items: Sequence[SetAsideItem]) -> None:
        """List these items, which are remembered elsewhere, instead of those that were.

        Args:
            location: The store's.
            items: Items of this job.
        """
        self._location = location
        self._items = {(item.namespace, item.id): item for item in items}

    def _log_at_doubling(self, key: Key, failures: int, error: str) -> None:
        if failures & (failures - 1) == 0:
            self._log.error(
                "%s %s of namespace %s failed %d times, and is tried again in %d s: %s",
                self._noun,
                key[1],
                key[0],
                failures,
                pause_after(failures),
                error,
            )

    def forget(self, key: Key) -> None:
        """Take an item that has succeeded off the list."""
        self._items.pop(key, None)

    def keep_only(self, keys: Collection[Key]) -> None:
        """Take all other items off the list: they are due no more."""
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
        """Serve all items that are due, each by itself.

        Args:
            store: Where they are.
            list_due: Returns at most so many items that are due, the oldest first, and when the next one is.
            serve: Reads and serves one. Returns whether it is due at another time now, if at any.
            at_once: How many are served between two looks.

        Returns:
            When the next one is due, in unix seconds; None if there is none, or if some are left for later.

        Raises:
            StoreUnavailable: The store takes no writes at all: no item is at fault.
        """
        while True:
            # Those that failed are still due, and may be the oldest: they must not fill the page.
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
        # An item waits no longer than the longest back-off, also if the clock was set back.
        return known is not None and now < known.next_at <= now + LONGEST_SECONDS


def at_work() -> list[SetAside]:
    """Return what periodic jobs of this process remember of their items."""
    with _lock:
        return list(_at_work)


def items_of(location: str, namespace: str) -> list[SetAsideItem]:
    """Return the items of one namespace of a store that jobs of this process have set aside, by job and id.

    Args:
        location: The store's.
        namespace: The only one whose items are returned.
    """
    found: dict[Key, SetAsideItem] = {}
    for aside in at_work():
        for item in aside.items if aside.location == location else ():
            if item.namespace == namespace:
                key = item.job, item.id
                known = found.get(key)  # two timers of this process may have tried it
                if known is None or known.failures < item.failures:
                    found[key] = item
    return [found[key] for key in sorted(found)]


async def raise_outage(store: Store, error: Exception) -> None:
    """Raise an error again if the store is not available to anybody; return if one row or one job is at fault.

    Raises:
        StoreUnavailable: The store takes no writes.
    """
    if may_pass(error):
        await store.check_writable()


def may_pass(error: Exception) -> bool:
    """Whether an error may be gone by the next time: a connection was lost, and another one works."""
    return isinstance(error, StoreUnavailable) and not isinstance(error, MissingKey)
