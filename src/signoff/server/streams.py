"""Counts what callers keep open on a server: streams of events, and requests that wait for something."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing, contextmanager
from typing import Final, Literal, TypeVar

from signoff.errors import TooManyRequests

Kind = Literal["journal", "inbox", "changes", "wait"]
"""A run's journal; questions; a remote store's word of commits; a request that waits for the end of a run."""

MOST: Final[Mapping[Kind, int]] = {"journal": 200, "inbox": 1000, "changes": 2000, "wait": 1000}
"""How many of a kind one caller may have open: a key, a person, or the address of whoever is not known."""

RETRY_AFTER_SECONDS: Final = 5

T = TypeVar("T")


class Streams:
    """What is open on a server, by kind and caller."""

    def __init__(self) -> None:
        self._open: Counter[tuple[Kind, str]] = Counter()

    @property
    def by_kind(self) -> Mapping[Kind, int]:
        """How many of each kind are open."""
        found: Counter[Kind] = Counter()
        for (kind, _), number in self._open.items():
            found[kind] += number
        return {kind: found[kind] for kind in MOST}

    def check(self, kind: Kind, caller: str) -> None:
        """Raise TooManyRequests if a caller has as many of a kind open as it may."""
        if self._open.get((kind, caller), 0) >= MOST[kind]:
            raise TooManyRequests(RETRY_AFTER_SECONDS)

    @contextmanager
    def opened(self, kind: Kind, caller: str) -> Generator[None]:
        """Count one more within. Raises TooManyRequests."""
        self.check(kind, caller)
        self._open[kind, caller] += 1
        try:
            yield
        finally:
            self._open[kind, caller] -= 1
            if not self._open[kind, caller]:
                del self._open[kind, caller]

    async def counted(
        self, kind: Kind, caller: str, events: AsyncGenerator[T, None]
    ) -> AsyncGenerator[T, None]:
        """Yield events, and count the stream as long as it is read."""
        with self.opened(kind, caller):
            async with aclosing(events):
                async for event in events:
                    yield event
