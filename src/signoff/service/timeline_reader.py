"""Reads a run's timeline: the changes of its journal, with what only the promises themselves say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Final, Protocol

from signoff.errors import NotFound
from signoff.records import Entry, LiveText, Promise, PromiseState
from signoff.records.paging import Page, PromiseFilter
from signoff.records.timeline import TimelineChange, TimelineMark
from signoff.service.timeline import Timeline

LOOK_EVERY_SECONDS: Final = 5.0
"""The shortest time between two looks for settled promises that the run's worker has not journaled yet."""

_AT_ONCE: Final = 100


class Promises(Protocol):
    """Reads promises, as the caller may see them."""

    async def get_promise(self, promise_id: str) -> Promise: ...
    async def list_promises(
        self, which: PromiseFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Promise]: ...


class TimelineReader:
    """Reads the timeline of one run.

    Args:
        run_id: The run.
        timeline: Its empty timeline.
        promises: Reads its promises.
        reading: Limits how many of a caller's streams read at once.
    """

    def __init__(
        self,
        run_id: str,
        timeline: Timeline,
        promises: Promises,
        reading: Callable[[], AbstractAsyncContextManager[object]],
    ) -> None:
        self._run_id = run_id
        self._timeline = timeline
        self._promises = promises
        self._reading = reading
        self._shown: set[str] = set()
        self._look_at = 0.0

    async def read(
        self,
        events: AsyncGenerator[Entry | LiveText | TimelineMark, None],
        *,
        after: int,
        follow: bool,
    ) -> AsyncGenerator[TimelineChange | TimelineMark | LiveText, None]:
        """Yield the changes of entries later than ``after``; ``CURRENT`` once; and live text.

        Args:
            events: The whole journal, with ``CURRENT`` each time that there are no more entries.
            after: The seq of the last entry whose changes are known.
            follow: Whether to continue after ``CURRENT``.
        """
        is_current = False
        async for event in events:
            match event:
                case Entry():
                    for change in self._timeline.add(event):
                        if change.seq > after:
                            yield await self._with_origin(change)
                case LiveText():
                    yield event
                case TimelineMark():
                    async for change in self._settled():
                        yield change
                    if not is_current:
                        is_current = True
                        yield event
                    if not follow:
                        return
            del event  # it may be large, and the next one may take long

    async def _with_origin(self, change: TimelineChange) -> TimelineChange:
        """Add the origin of a settlement, which the journal does not record."""
        id = self._timeline.settled_id
        promise = None if id is None else await self._own(id)
        return change if promise is None else replace(change, origin=promise.origin)

    async def _settled(self) -> AsyncGenerator[TimelineChange, None]:
        """Yield the outcomes of promises that the journal still shows as open, each once."""
        now = asyncio.get_running_loop().time()
        if now < self._look_at:
            return
        rows = self._timeline.open_promises
        if not rows.keys() - self._shown:
            return
        self._look_at = now + LOOK_EVERY_SECONDS
        for id in sorted(rows.keys() - self._shown - await self._pending()):
            promise = await self._own(id)
            if promise is not None and promise.state is not PromiseState.PENDING:
                self._shown.add(id)
                yield self._timeline.settled(rows[id], promise)

    async def _pending(self) -> set[str]:
        found: set[str] = set()
        after: str | None = None
        while True:
            which = PromiseFilter(run_id=self._run_id, state=PromiseState.PENDING)
            async with self._reading():
                page = await self._promises.list_promises(which, after=after, limit=_AT_ONCE)
            found.update(each.id for each in page.items)
            after = page.next
            if after is None:
                return found

    async def _own(self, id: str) -> Promise | None:
        """Return a promise of this run; None for any other: a worker may have written any id."""
        try:
            async with self._reading():
                promise = await self._promises.get_promise(id)
        except NotFound:
            return None
        return promise if promise.run_id == self._run_id else None
