"""Limits the open streams and waiting requests of each caller."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing, contextmanager
from typing import Final, Literal, TypeVar
from weakref import WeakValueDictionary

from signoff.errors import TooManyRequests
from signoff.runtime.process_limits import connection_limit
from signoff.service.follow_limit import FollowRoom

Kind = Literal["journal", "inbox", "changes", "wait", "poll", "mcp"]
"""A run's journal, the inbox, a remote store's changes, a request that waits for a run to end, the messages for a
process of the durable promise protocol, or a request to the MCP server.
"""

MOST: Final[Mapping[Kind, int]] = {
    "journal": 200,
    "inbox": 1000,
    "changes": 2000,
    "wait": 1000,
    "poll": 2000,
    "mcp": 200,
}
"""Maximum open streams of a kind for one caller: a key, a user, or the address of an unauthenticated client."""

SHARE: Final = 2
"""The streams of all kinds of one caller take one in so many of the connections that the server can hold."""

RETRY_AFTER_SECONDS: Final = 5

K = TypeVar("K")
T = TypeVar("T")


class Streams:
    """Counts the open streams and waiting requests of a server, by kind and caller."""

    def __init__(self) -> None:
        self._open: Counter[tuple[Kind, str]] = Counter()
        self._callers: Counter[str] = Counter()
        self._rooms: WeakValueDictionary[str, FollowRoom] = WeakValueDictionary()

    @property
    def by_kind(self) -> Mapping[Kind, int]:
        """The number of open streams of each kind."""
        found: Counter[Kind] = Counter()
        for (kind, _), number in self._open.items():
            found[kind] += number
        return {kind: found[kind] for kind in MOST}

    def check(self, kind: Kind, caller: str) -> None:
        """Raise TooManyRequests if a caller has reached the limit for a kind, or their share of connections."""
        connections = connection_limit()
        is_share = connections is not None and self._callers.get(caller, 0) >= max(1, connections // SHARE)
        if is_share or self._open.get((kind, caller), 0) >= MOST[kind]:
            raise TooManyRequests(RETRY_AFTER_SECONDS)

    def room(self, caller: str) -> FollowRoom:
        """Return the limit that all journal streams of a caller share."""
        room = self._rooms.get(caller)
        if room is None:
            room = self._rooms[caller] = FollowRoom()
        return room

    @contextmanager
    def opened(self, kind: Kind, caller: str) -> Generator[None]:
        """Count one more stream within the block. Raises TooManyRequests."""
        self.check(kind, caller)
        self._open[kind, caller] += 1
        self._callers[caller] += 1
        try:
            yield
        finally:
            _take_one(self._open, (kind, caller))
            _take_one(self._callers, caller)

    async def counted(
        self, kind: Kind, caller: str, events: AsyncGenerator[T, None]
    ) -> AsyncGenerator[T, None]:
        """Yield events, and count the stream while it is read."""
        with self.opened(kind, caller):
            async with aclosing(events):
                async for event in events:
                    yield event
                    del event  # it may be large, and the next one may take long


def _take_one(counts: Counter[K], key: K) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
