"""Waits for events by id, on one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager


class Waiters:
    """The futures of waiting callers, by id. Thousands may wait at once.

    Args:
        loop: The event loop.
        begin: Called when a wait begins.
        end: Called when the last wait has ended.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, begin: Callable[[], None], end: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._begin = begin
        self._end = end
        self._futures: dict[str, set[asyncio.Future[None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._futures)

    @property
    def ids(self) -> list[str]:
        """The awaited ids."""
        return list(self._futures)

    def are_among(self, ids: frozenset[str]) -> bool:
        """Return whether one of these ids is awaited."""
        return not self._futures.keys().isdisjoint(ids)

    @contextmanager
    def awaiting(self, id: str) -> Generator[Awaitable[None]]:
        """Yield a future that ``report`` completes."""
        future = self._loop.create_future()
        self._futures.setdefault(id, set()).add(future)
        self._begin()
        try:
            yield future
        finally:
            if not future.cancel() and not future.cancelled():
                future.exception()  # mark the exception as retrieved: the caller may not have awaited it
            waiting = self._futures.get(id, set())
            waiting.discard(future)
            if not waiting:
                self._futures.pop(id, None)
            if not self._futures:
                self._end()

    def report(self, ids: Iterable[str], error: Exception | None = None) -> None:
        """Complete the futures of these ids, or fail them."""
        for id in sorted(self._futures.keys() & ids):  # in the same order in every process
            for future in self._futures.pop(id, ()):
                if future.done():
                    continue
                if error is None:
                    future.set_result(None)
                else:
                    future.set_exception(error)
