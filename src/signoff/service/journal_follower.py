"""Follows a run's journal in a store, with the live text of its steps."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Final

from signoff.people.questions.callback_terms import without_secret
from signoff.records import Entry, EntryKind, LiveText
from signoff.records.timeline import TimelineMark
from signoff.service.change_watcher import Watch, Watching
from signoff.service.follow_limit import LARGE_PAGE_BYTES, FollowRoom
from signoff.stores.contract.store import Store
from signoff.stores.shared.listed_payloads import bytes_of, may_be_cut
from signoff.stores.wrappers.encrypted import showing

ENTRIES_AT_ONCE: Final = 64


class JournalFollower:
    """Reads journals page by page as they grow.

    Args:
        store: The journals' store.
        watching: Reports changes of the store.
        room: The limits that the followers of one caller share; None for no limits.
    """

    def __init__(self, store: Store, watching: Watching[Watch], room: FollowRoom | None) -> None:
        self._store = store
        self._watching = watching
        self._room = room

    def reading(self) -> AbstractAsyncContextManager[object]:
        """Return a context for one read, of which a caller's followers may do a few at once."""
        return nullcontext() if self._room is None else self._room.reads

    async def events(
        self, run_id: str, after: int, *, live: bool = False
    ) -> AsyncGenerator[Entry | LiveText | TimelineMark, None]:
        """Yield journal entries and live text until the run has ended, and ``CURRENT`` each time there are no more."""
        epoch, heard, is_large, is_behind = 0, -1, False, True
        with self._watching.watch().watching(run_id) as wait_for_change:
            while True:
                is_final = await self._has_ended(run_id)
                # Read live text before the journal, so that no piece precedes the entries that led to it. While more
                # entries follow, do not read it at all: the pieces would stay in memory.
                pieces = (
                    await showing(self._store).read_live(run_id, epoch=epoch, after=heard)
                    if live and not is_behind
                    else ()
                )
                async with self._page(run_id, after, after_large=is_large) as (entries, is_cut, is_large):
                    going_on = [
                        piece for piece in pieces if not any(_ends(entry, piece) for entry in entries)
                    ]
                    while entries:
                        after = entries[0].seq
                        yield entries.popleft()
                was_behind, is_behind = is_behind, is_cut
                if is_behind or (live and was_behind):
                    continue
                if pieces:
                    epoch, heard = pieces[-1].epoch, pieces[-1].seq
                for piece in going_on:
                    yield piece
                yield TimelineMark.CURRENT
                if is_final:
                    return
                await wait_for_change()

    async def _has_ended(self, run_id: str) -> bool:
        """Return whether a run has ended. Raises NotFound."""
        async with self.reading():
            return (await showing(self._store).get_run(run_id)).state.is_final

    @asynccontextmanager
    async def _page(
        self, run_id: str, after: int, *, after_large: bool
    ) -> AsyncGenerator[tuple[deque[Entry], bool, bool]]:
        """Yield the next entries of a journal, whether more may follow, and whether they are large.

        The reader removes each entry as it proceeds, so that a page is released before the next one is read. With a
        shared room, a page of large entries holds only one and waits for room. Pages of small entries do not wait.
        """
        room = self._room
        if room is None:
            yield *await self._entries(run_id, after, ENTRIES_AT_ONCE), False
            return
        limit = 1 if after_large or room.pages.locked() else ENTRIES_AT_ONCE
        entries, is_cut = await self._entries(run_id, after, limit)
        if bytes_of(list(entries)) <= LARGE_PAGE_BYTES:
            yield entries, is_cut, False
            return
        del entries
        async with room.pages:
            entries, _ = await self._entries(run_id, after, 1)
            yield entries, True, True

    async def _entries(self, run_id: str, after: int, limit: int) -> tuple[deque[Entry], bool]:
        async with self.reading():
            entries = await showing(self._store).read_journal(run_id, after=after, limit=limit)
        return deque(map(without_secret, entries)), may_be_cut(entries, limit)


def _ends(entry: Entry, piece: LiveText) -> bool:
    """Whether an entry records the end of the attempt that wrote a piece of live text."""
    if entry.n != piece.n:
        return False
    failed = entry.kind is EntryKind.ATTEMPT_FAILED and (entry.fact("attempt") or 0) >= piece.attempt
    return failed or entry.kind is EntryKind.COMPLETED
