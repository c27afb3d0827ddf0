"""Waiting in this process for changes of single runs, with one listener on the store for all who wait."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Generator, Sequence, Set
from contextlib import contextmanager

from signoff.errors import ClientClosed
from signoff.runtime import forks
from signoff.stores.contract.store import Change, Store

LOOK_EVERY_SECONDS = 1.0  # should a word from another process be lost
LOOK_AT_ONCE = 500  # runs
REST = 4  # times as long as the last look took: while other processes are busy, looking is not all we do


class Watch:
    """Whoever waits for runs on one event loop.

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
        self._for_ends: dict[str, set[asyncio.Future[None]]] = {}
        self._looking: asyncio.Task[None] | None = None
        self._disturbed = asyncio.Event()
        self._end: Callable[[], None] = store.listen(self._noticed)

    def close(self) -> None:
        """End the listening. Those who wait get ClientClosed, unless their event loop is gone."""
        self._end()
        if not self.loop.is_closed():
            self._stop_looking()
            self._give_up(list(self._for_ends), ClientClosed("result"))

    @contextmanager
    def watching(self, run_id: str) -> Generator[Callable[[], Awaitable[None]]]:
        """Give a function that waits until the run may have changed since it was last called.

        Look at the run first, then wait, then look again: no change is missed.
        """
        changed = asyncio.Event()
        self._for_changes.setdefault(run_id, set()).add(changed)

        async def wait() -> None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_SECONDS):
                    await changed.wait()
            changed.clear()

        try:
            yield wait
        finally:
            self._for_changes[run_id].discard(changed)
            if not self._for_changes[run_id]:
                del self._for_changes[run_id]

    @contextmanager
    def awaiting_end(self, run_id: str) -> Generator[Awaitable[None]]:
        """Give a future that is done when the run has ended. Thousands may wait at once.

        Look at the run before you wait for it: an end from before is found late, and is no reason to wait.
        """
        ended = self.loop.create_future()
        self._for_ends.setdefault(run_id, set()).add(ended)
        self._begin_to_look()
        try:
            yield ended
        finally:
            if not ended.cancel() and not ended.cancelled():
                ended.exception()  # nobody need have waited for it
            waiting = self._for_ends.get(run_id, set())
            waiting.discard(ended)
            if not waiting:
                self._for_ends.pop(run_id, None)
            if not self._for_ends:
                self._stop_looking()

    def _begin_to_look(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = self.loop.create_task(self._look_again_and_again(), name="signoff watch")

    def _stop_looking(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _look_again_and_again(self) -> None:
        """Look for ends that no word came of, for all who wait in few statements, as long as anybody waits."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_SECONDS):
                    await self._disturbed.wait()
            self._disturbed.clear()
            began = self.loop.time()
            waited_for = list(self._for_ends)
            for first in range(0, len(waited_for), LOOK_AT_ONCE):
                run_ids = waited_for[first : first + LOOK_AT_ONCE]
                try:
                    self._tell_ends(await self._store.ended(run_ids))
                except Exception as error:  # whatever it is, those who wait have to hear of it
                    self._give_up(run_ids, error)
            await asyncio.sleep((self.loop.time() - began) * REST)

    def _noticed(self, change: Change) -> None:
        if change.runs is not None and not self._concerns_anyone(change):
            return
        if threading.get_ident() == self._thread:
            self._tell(change)
        elif not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._tell, change)

    def _concerns_anyone(self, change: Change) -> bool:
        changes, ends = self._for_changes, self._for_ends
        if changes and change.runs and not changes.keys().isdisjoint(change.runs):
            return True
        return bool(ends and change.ended) and not ends.keys().isdisjoint(change.ended)

    def _tell(self, change: Change) -> None:
        if change.runs is None:
            self._disturbed.set()
        self._tell_ends(change.ended)
        for run_id in self._for_changes if change.runs is None else self._for_changes.keys() & change.runs:
            for changed in self._for_changes[run_id]:
                changed.set()

    def _tell_ends(self, run_ids: Set[str]) -> None:
        for run_id in sorted(self._for_ends.keys() & run_ids):
            for ended in self._for_ends.pop(run_id):
                if not ended.done():
                    ended.set_result(None)

    def _give_up(self, run_ids: Sequence[str], error: Exception) -> None:
        for run_id in run_ids:
            for ended in self._for_ends.pop(run_id, ()):
                if not ended.done():
                    ended.set_exception(error)


class Watching:
    """The watch of a store, which is made when somebody waits, on the event loop that runs then.

    Args:
        store: The store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watch: Watch | None = None
        forks.in_child(self)

    def forked(self) -> None:
        """Leave the parent's watch alone."""
        forks.keep(self._watch)
        self._watch = None

    def watch(self) -> Watch:
        """Return the watch of the event loop that runs."""
        if self._watch is not None and self._watch.loop.is_closed():
            self.close()
        if self._watch is None:
            self._watch = Watch(self._store)
        return self._watch

    def close(self) -> None:
        """End the watch, if there is one."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
