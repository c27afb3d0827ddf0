"""Changes that follow from changes of other runs, and that the database refused to make: they are made later."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal

from signoff.stores.base import Store
from signoff.stores.one_by_one import Done
from signoff.stores.set_aside import Key, SetAside

JOB: Final = "deferred change"

Kind = Literal["turn", "slot", "cancel", "message"]


class DeferredChanges:
    """Makes deferred changes, and remembers which have failed again.

    Args:
        log: Where failures are logged.
    """

    def __init__(self, log: logging.Logger | logging.LoggerAdapter[logging.Logger]) -> None:
        self._aside = SetAside(JOB, log)

    def none_left(self) -> None:
        """Forget all that have failed: another process has made them."""
        self._aside.keep_only(())

    async def make(
        self, store: Store, each: Callable[[Sequence[Key]], Awaitable[Done[None]]]
    ) -> float | None:
        """Make those whose time has come. Returns when to try again, in unix seconds; None if none is left.

        Args:
            store: Where the runs are.
            each: Makes them one by one, but for those to pass over.
        """
        now = store.clock.now()
        waiting = self._aside.waiting(now)
        done = await each(waiting)
        if done.is_all:
            self._aside.keep_only([*waiting, *(failure.key for failure in done.failures)])
        for failure in done.failures:
            self._aside.note(store.location, failure.key, failure.error, now)
        return self._aside.next_try(now) if done.is_all else now
