"""Waits for changes of single runs, with one listener on the store for all waiters of an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Generic, Protocol, TypeVar

from signoff.errors import ClientClosed
from signoff.runtime import forks
from signoff.runtime.event_waits import wait_at_most
from signoff.service.waiters import Waiters
from signoff.stores.contract.store import Change, Store

LOOK_EVERY_SECONDS = 1.0  # in case a notification from another process is lost
LOOK_AT_ONCE = 500  # runs
REST = 4  # pause after a look, in multiples of its duration, so that looking does not take all the time


class Watch:
    """The waiters for runs on one event loop.

    Args:
        store: An open store.

    Attributes:
        loop: The event loop.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._for_changes: dict[str, set[asyncio.Event]] = {}
        self._for_ends = Waiters(self.loop, self._begin_to_look, self._stop_looking)
        self._looking: asyncio.Task[None] | None = None
        self._disturbed = asyncio.Event()
        self._end: Callable[[], None] = store.listen(self._noticed)

    def close(self) -> None:
        """Stop listening. Waiters get ClientClosed, unless their event loop is closed."""
        self._end()
        if not self.loop.is_closed():
            self._stop_looking()
            self._for_ends.report(self._for_ends.ids, ClientClosed("result"))

    @contextmanager
    def watching(self, run_id: str) -> Generator[Callable[[], Awaitable[None]]]:
        """Yield a function that waits until the run may have changed since the last call.

        Read the run first, then wait, then read it again: no change is missed.
        """
        changed = asyncio.Event()
        self._for_changes.setdefault(run_id, set()).add(changed)

        async def wait() -> None:
            await wait_at_most(LOOK_EVERY_SECONDS, changed)
            changed.clear()

        try:
            yield wait
        finally:
            self._for_changes[run_id].discard(changed)
            if not self._for_changes[run_id]:
                del self._for_changes[run_id]

    def awaiting_end(self, run_id: str) -> AbstractContextManager[Awaitable[None]]:
        """Return a context with a future that is done when the run has ended. Thousands of callers may wait at once.

        Read the run before you await the future: an earlier end is detected only after a delay.
        """
        return self._for_ends.awaiting(run_id)

    def _begin_to_look(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = self.loop.create_task(self._look_again_and_again(), name="signoff watch")

    def _stop_looking(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _look_again_and_again(self) -> None:
        """Poll for ends whose notification was lost, in few statements for all waiters, while there are waiters."""
        while True:
            await wait_at_most(LOOK_EVERY_SECONDS, self._disturbed)
            self._disturbed.clear()
            began = self.loop.time()
            waited_for = self._for_ends.ids
            for first in range(0, len(waited_for), LOOK_AT_ONCE):
                run_ids = waited_for[first : first + LOOK_AT_ONCE]
                try:
                    self._for_ends.report(await self._store.ended(run_ids))
                except Exception as error:  # waiters must receive any error
                    self._for_ends.report(run_ids, error)
            await asyncio.sleep((self.loop.time() - began) * REST)

    def _noticed(self, change: Change) -> None:
        if change.runs is not None and not self._concerns_a_waiter(change):
            return
        if threading.get_ident() == self._thread:
            self._report(change)
        elif not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._report, change)

    def _concerns_a_waiter(self, change: Change) -> bool:
        changes, ends = self._for_changes, self._for_ends
        if changes and change.runs and not changes.keys().isdisjoint(change.runs):
            return True
        return bool(ends and change.ended) and ends.are_among(change.ended)

    def _report(self, change: Change) -> None:
        if change.runs is None:
            self._disturbed.set()
        self._for_ends.report(change.ended)
        for run_id in self._for_changes if change.runs is None else self._for_changes.keys() & change.runs:
            for changed in self._for_changes[run_id]:
                changed.set()


class LoopWatch(Protocol):
    """A watch of a store on one event loop."""

    loop: asyncio.AbstractEventLoop

    def close(self) -> None: ...


W = TypeVar("W", bound=LoopWatch)


class Watching(Generic[W]):
    """Creates a watch of a store on first use, on the running event loop.

    Args:
        store: The store.
        make: Creates the watch.
    """

    def __init__(self, store: Store, make: Callable[[Store], W]) -> None:
        self._store = store
        self._make = make
        self._watch: W | None = None
        forks.in_child(self)

    def forked(self) -> None:
        """Drop the parent's watch in a forked child without closing it."""
        forks.keep(self._watch)
        self._watch = None

    def watch(self) -> W:
        """Return the watch of the running event loop."""
        if self._watch is not None and self._watch.loop.is_closed():
            self.close()
        if self._watch is None:
            self._watch = self._make(self._store)
        return self._watch

    def close(self) -> None:
        """Close the watch, if there is one."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
