"""Retries changes of runs that follow from changes of other runs, and that the database refused."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from signoff.records.failed_items import SetAsideItem
from signoff.stores.contract.store import Store
from signoff.stores.shared.failed_items import LONGEST_SECONDS, FailedItems

JOB: Final = "deferred change"

LISTED: Final = 1_000
"""Maximum number of failed changes that a process lists."""

LIST_EVERY_SECONDS: Final = 10.0
"""How often a process reads the failed changes, including those that others have retried."""

PAUSE_SECONDS: Final = 1.0
"""Pause after a page of changes that have all failed before. It limits a process's work, however many fail."""

Kind = Literal["turn", "slot", "cancel", "message"]


@dataclass(frozen=True, slots=True)
class Times:
    """First and last retry time of the deferred changes, in unix seconds."""

    first: float
    last: float

    def next_at(self, now: float) -> float:
        """Return the time of the next retry; now, if the clock was set back since."""
        return now if self.last > now + LONGEST_SECONDS else self.first


@dataclass(frozen=True, slots=True)
class Made:
    """The result of retrying deferred changes.

    Attributes:
        count: Number of changes made.
        failures: Changes that failed again, with their new state.
        is_all: Whether all due changes were tried; else there are more.
    """

    count: int
    failures: Sequence[SetAsideItem]
    is_all: bool


class DeferredChanges:
    """Makes deferred changes when they are due, as stored in their rows, and lists those that have failed.

    Args:
        log: Logger for failures.
    """

    def __init__(self, log: logging.Logger | logging.LoggerAdapter[logging.Logger]) -> None:
        self._aside = FailedItems(JOB, log)
        self._list_at = 0.0  # on the monotonic clock

    def none_left(self, location: str) -> None:
        """Clear the list of failed changes: there are no deferred ones."""
        self._aside.show(location, ())

    async def make(
        self,
        store: Store,
        times: Callable[[], Awaitable[Times | None]],
        make_some: Callable[[], Awaitable[Made]],
        list_failed: Callable[[int], Awaitable[Sequence[SetAsideItem]]],
    ) -> float | None:
        """Make the due changes. Returns the time of the next ones, in unix seconds; None if there are none.

        Args:
            store: The runs' store.
            times: Returns the retry times; None: there are no deferred changes.
            make_some: Makes some due changes, one by one.
            list_failed: Returns failed changes, up to a limit.
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
