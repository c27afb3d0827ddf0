"""Feeds that report commits to remote stores, as server-sent events that can be resumed."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Final

from signoff.stores.contract.store import Change, Store
from signoff.stores.contract.wire import CHANGE

KEPT: Final = 1000  # changes, for those who resume
PING_SECONDS: Final = 15.0
UNBUFFERED: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}  # by proxies in between


class Feed:
    """The commits of one namespace.

    Args:
        store: An open store, bound to the namespace.
    """

    def __init__(self, store: Store) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._name = uuid.uuid4().hex[
            :8
        ]  # distinguishes the ids of this feed from those of another server, or of one before a restart
        self._last = 0
        self._kept: deque[bytes] = deque(maxlen=KEPT)
        self._readers: set[asyncio.Event] = set()
        self.close = store.listen(self._noticed)

    def _noticed(self, change: Change) -> None:
        if threading.get_ident() == self._thread:
            self._add(change)
        else:
            with suppress(RuntimeError):  # the server's loop is closed: there are no listeners
                self._loop.call_soon_threadsafe(self._add, change)

    def _add(self, change: Change) -> None:
        self._last += 1
        name, data = (b"gap", b"{}") if change.runs is None else (b"change", CHANGE.dump_json(change))
        self._kept.append(b"id: %b\nevent: %b\ndata: %b\n\n" % (self._id, name, data))
        for reader in self._readers:
            reader.set()

    @property
    def _id(self) -> bytes:
        return f"{self._name}.{self._last}".encode()

    async def events(
        self, last_id: str | None, wait: Callable[[asyncio.Event], Awaitable[bool]]
    ) -> AsyncGenerator[bytes, None]:
        """Yield the events after ``last_id``, with an event ``gap`` in place of events that are no longer kept.

        Args:
            last_id: The id of the last event that the reader received.
            wait: Waits for an event up to a time limit; returns False to end the stream.
        """
        added = asyncio.Event()
        self._readers.add(added)
        try:
            sent = self._number(last_id)
            if sent is None:
                sent = self._last
                yield b"id: %b\nevent: gap\ndata: {}\n\n" % self._id
            while True:
                missed = self._last - sent
                if missed > len(self._kept):
                    yield b"id: %b\nevent: gap\ndata: {}\n\n" % self._id
                elif missed:
                    yield b"".join(list(self._kept)[-missed:])
                sent = sent + missed
                added.clear()
                if not await wait(added):
                    return
                if not added.is_set():
                    yield b": still here\n\n"
        finally:
            self._readers.discard(added)

    def _number(self, id: str | None) -> int | None:
        """Return the number of the event with this id, or None if the id is not of this feed."""
        name, _, number = (id or "").partition(".")
        if name != self._name or not number.isdecimal() or int(number) > self._last:
            return None
        return int(number)


class Feeds:
    """The commit feeds of a server, by namespace. Each is created on first use.

    Args:
        store: An open store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._feeds: dict[str, Feed] = {}

    def of(self, namespace: str) -> Feed:
        """Return the feed of a namespace."""
        if namespace not in self._feeds:
            self._feeds[namespace] = Feed(self._store.within(namespace))
        return self._feeds[namespace]

    def close(self) -> None:
        """Stop listening."""
        for feed in self._feeds.values():
            feed.close()
