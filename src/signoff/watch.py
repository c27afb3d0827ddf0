"""Waiting in this process for changes of single runs, with one listener on the store for all who wait."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

from signoff.stores.base import Change, Store

LOOK_EVERY_SECONDS = 1.0  # should a word from another process be lost


class Watch:
    """Whoever waits for runs on one event loop.

    Args:
        store: An open store.
    """

    def __init__(self, store: Store) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._for_changes: dict[str, set[asyncio.Event]] = {}
        self._for_ends: dict[str, set[asyncio.Event]] = {}
        self._end: Callable[[], None] = store.listen(self._noticed)

    def close(self) -> None:
        """End the listening."""
        self._end()

    @contextmanager
    def watching(self, run_id: str, *, only_end: bool = False) -> Generator[Callable[[], Awaitable[None]]]:
        """Give a function that waits until the run may have changed since it was last called.

        Look at the run first, then wait, then look again: no change is missed.

        Args:
            run_id: The run.
            only_end: Whether to wait for its end only.
        """
        changed = asyncio.Event()
        waiting = self._for_ends if only_end else self._for_changes
        waiting.setdefault(run_id, set()).add(changed)

        async def wait() -> None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_SECONDS):
                    await changed.wait()
            changed.clear()

        try:
            yield wait
        finally:
            waiting[run_id].discard(changed)
            if not waiting[run_id]:
                del waiting[run_id]

    def _noticed(self, change: Change) -> None:
        if change.runs is not None and not self._concerns_anyone(change):
            return
        if threading.get_ident() == self._thread:
            self._tell(change)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell, change)

    def _concerns_anyone(self, change: Change) -> bool:
        changes, ends = self._for_changes, self._for_ends
        return not changes.keys().isdisjoint(change.runs or ()) or not ends.keys().isdisjoint(change.ended)

    def _tell(self, change: Change) -> None:
        for waiting, runs in ((self._for_changes, change.runs), (self._for_ends, change.ended)):
            for run_id in waiting if change.runs is None else waiting.keys() & (runs or ()):
                for changed in waiting[run_id]:
                    changed.set()
