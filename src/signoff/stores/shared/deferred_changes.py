"""Changes that follow from changes of other runs, and that the database refused to make: they are made later."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from signoff.records.failed_items import SetAsideItem
from signoff.stores.contract.store import Store
from signoff.stores.shared.set_aside_items import LONGEST_SECONDS, SetAside

JOB: Final = "deferred change"

LISTED: Final = 1_000
"""Changes that have failed, and that a process lists."""

LIST_EVERY_SECONDS: Final = 10.0
"""How often a process reads those that have failed, also if others have tried them."""

PAUSE_SECONDS: Final = 1.0
"""After a page of changes that have all failed before: so the work of a process is bounded, however many fail."""

Kind = Literal["turn", "slot", "cancel", "message"]


@dataclass(frozen=True, slots=True)
class Times:
    """When deferred changes are tried, in unix seconds: the first and the last of them."""

    first: float
    last: float

    def next_at(self, now: float) -> float:
        """Return when to make some; now, if the clock was set back since."""
        return now if self.last > now + LONGEST_SECONDS else self.first


@dataclass(frozen=True, slots=True)
class Made:
    """What came of some deferred changes.

    Attributes:
        count: How many were made.
        failures: Those that failed, as they are now.
        is_all: Whether all were tried whose time had come; else there are more.
    """

    count: int
    failures: Sequence[SetAsideItem]
    is_all: bool


class DeferredChanges:
    """Makes deferred changes at their times, which their rows keep, and lists those that have failed.

    Args:
        log: Where failures are logged.
    """

    def __init__(self, log: logging.Logger | logging.LoggerAdapter[logging.Logger]) -> None:
        self._aside = SetAside(JOB, log)
        self._list_at = 0.0  # on the monotonic clock

    def none_left(self, location: str) -> None:
        """List no failed change: there are no deferred ones."""
        self._aside.show(location, ())

    async def make(
        self,
        store: Store,
        times: Callable[[], Awaitable[Times | None]],
        make_some: Callable[[], Awaitable[Made]],
        list_failed: Callable[[int], Awaitable[Sequence[SetAsideItem]]],
    ) -> float | None:
        """Make those whose time has come. Returns when to make others, in unix seconds; None if none is left.

        Args:
            store: Where the runs are.
            times: Returns when changes are to be tried; None: there are none.
            make_some: Makes some whose time has come, one by one.
            list_failed: Returns at most so many that have failed.
        """
        found = await times()
        if found is None:
            return self.none_left(store.location)
        now = store.clock.now()
        if (next_at := found.next_at(now)) > now:
            await self._list(store, list_failed)
            return next_at
        made = await make_some()
        for item in made.failures:
            self._aside.log_failure(item)
        self._list_at = 0.0
        if not made.is_all and (made.count or any(item.failures == 1 for item in made.failures)):
            return now
        found = await times()
        if found is None:
            return self.none_left(store.location)
        await self._list(store, list_failed)
        return max(found.next_at(now), now + PAUSE_SECONDS)

    async def _list(
        self, store: Store, list_failed: Callable[[int], Awaitable[Sequence[SetAsideItem]]]
    ) -> None:
        if self._list_at <= time.monotonic():
            self._list_at = time.monotonic() + LIST_EVERY_SECONDS
            self._aside.show(store.location, await list_failed(LISTED))
