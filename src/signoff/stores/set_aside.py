"""Items of a periodic job that failed: set aside, logged, and tried again with back-off while the others go on."""

from __future__ import annotations

import logging
from typing import Final

from signoff.errors import MissingKey, StoreUnavailable
from signoff.stores.base import Store

FIRST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 300.0
MOST: Final = 10_000
"""Items that are remembered. Of more, the oldest are tried again at once."""

REPEATED: Final = 8
"""From so many failures on (some four minutes) it is no chance that a store which takes writes was not available."""

Key = tuple[str, str]
"""The item's namespace and id."""


class SetAside:
    """Remembers which items of a job have failed, and when to try each again.

    Args:
        noun: What an item is, for the log.
        log: Where a failure is logged: the first of an item, and then each time that the count has doubled. That a
            store was not available for a moment is logged from the eighth time on.

    Example::

        try:
            await fire(item)
        except Exception as error:
            await aside.note(store, key, error)
        else:
            aside.forget(key)
    """

    def __init__(self, noun: str, log: logging.Logger | logging.LoggerAdapter[logging.Logger]) -> None:
        self._noun = noun
        self._log = log
        self._items: dict[Key, tuple[int, float]] = {}  # failures so far, and when to try again

    def __len__(self) -> int:
        return len(self._items)

    def is_waiting(self, key: Key, now: float) -> bool:
        """Whether an item has failed and it is too soon to try it again."""
        known = self._items.get(key)
        # An item waits no longer than the longest back-off, also if the clock was set back.
        return known is not None and now < known[1] <= now + LONGEST_SECONDS

    def forget(self, key: Key) -> None:
        """An item has succeeded, or is gone."""
        self._items.pop(key, None)

    def forget_others(self, keys: set[Key]) -> None:
        """Keep only items that are still due."""
        for key in self._items.keys() - keys:
            del self._items[key]

    async def note(self, store: Store, key: Key, error: Exception) -> None:
        """Set an item aside.

        Raises:
            StoreUnavailable: The store takes no writes at all: no item is at fault.
        """
        await raise_outage(store, error)
        failures = self._items.pop(key, (0, 0.0))[0] + 1
        pause = min(FIRST_SECONDS * 2 ** min(failures - 1, 20), LONGEST_SECONDS)
        self._items[key] = (failures, store.clock.now() + pause)
        if len(self._items) > MOST:
            del self._items[next(iter(self._items))]
        if failures & (failures - 1) == 0 and (failures >= REPEATED or not may_pass(error)):
            self._log.error(
                "%s %s of namespace %s failed %d times, and is tried again in %d s: %s",
                self._noun,
                key[1],
                key[0],
                failures,
                pause,
                error,
            )


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
