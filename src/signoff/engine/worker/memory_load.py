"""How much runs with large values take of a worker at once: it claims no more while that is much.

A run that waits does not count, so that none waits for the room of another one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from signoff.codec.values import MAX_BYTES
from signoff.records import Entry
from signoff.stores.contract.store import Claim

LARGE_BYTES: Final = 16 * 1024
"""Of arguments, messages and journal; what smaller runs take of a worker does not depend on them."""
LOAD_BYTES = 8 * 1024 * 1024
"""With so many bytes of large runs a worker computes at once. Decoded, they take several times that."""


class Load:
    """What all runs of a worker take.

    Args:
        eased: Called when there is room again.
    """

    def __init__(self, eased: Callable[[], None]) -> None:
        self.bytes = 0
        self._eased = eased
        self._of_one = MAX_BYTES  # of the last claims, on average; of the first it is not known
        self._may_pass = False
        self._waiting = deque[tuple[asyncio.Future[None], RunLoad]]()  # claimed, and not begun

    @property
    def room(self) -> int:
        """How many runs may be claimed, if they are like those of the last claims."""
        left = LOAD_BYTES - self.bytes
        if left > 0:  # one that is larger than all is claimed, too
            return 1 + left // max(1, self._of_one)
        return int(self._may_pass)

    def pass_once(self) -> None:
        """Allow for one run beyond the bound: those that are counted may wait in a way that is not known here."""
        if not self._admit_one():
            self._may_pass = True

    def claiming(self) -> None:
        """Note that as many runs are claimed as there was room for."""
        self._may_pass = False

    def claimed(self, claims: Sequence[Claim]) -> None:
        """Learn from the runs that came."""
        if claims:
            average = sum(len(claim.run.arguments) for claim in claims) // len(claims)
            self._of_one = max(average, self._of_one // 8)

    def learn(self, size: int) -> None:
        """Learn from a run that was computed: the next may be like it."""
        self._of_one = max(self._of_one, size)

    def change(self, size: int) -> None:
        """Note that large runs are computed that have so many bytes; if negative, that they are no longer."""
        was_full = self.bytes >= LOAD_BYTES
        self.bytes += size
        if was_full and self.bytes < LOAD_BYTES:
            while self.bytes < LOAD_BYTES and self._admit_one():
                pass
            if self.bytes < LOAD_BYTES:
                self._eased()

    async def wait(self, run: RunLoad) -> None:
        """Let a run wait until there is room for it. It counts from then on."""
        admitted = asyncio.get_running_loop().create_future()
        self._waiting.append((admitted, run))
        run.__enter__()
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.cancelled():
                run.__exit__()
            raise

    def _admit_one(self) -> bool:
        while self._waiting:
            admitted, run = self._waiting.popleft()
            if not admitted.done():
                admitted.set_result(None)
                run.__exit__()
                return True
        return False


class RunLoad:
    """What one run takes. As a context: it waits within.

    Args:
        load: That of its worker.
        claim: The run, as it was claimed.
    """

    def __init__(self, load: Load, claim: Claim) -> None:
        self._load = load
        self._given = 0  # arguments, messages and results of steps
        self._journal = 0
        self._bytes = 0  # both, if they are many
        self._waits = 0  # at once: steps may wait beside it
        self.add(claim.run.arguments)
        for message in claim.messages:
            self.add(message.value)

    def add(self, value: str | None) -> None:
        """Count a message or a result, too."""
        if value is not None:
            self._given += len(value)
            self._count()

    async def begin(self) -> None:
        """Wait for room if this run is large: a worker does not know of runs it claims together how large they are."""
        if self._bytes and self._load.bytes - self._bytes >= LOAD_BYTES:
            await self._load.wait(self)

    def read(self, entries: Sequence[Entry]) -> None:
        """Count the journal, too."""
        self._journal = sum([len(entry.value) for entry in entries if entry.value is not None])
        self._count()

    def _count(self) -> None:
        size = self._given + self._journal
        before, self._bytes = self._bytes, size if size >= LARGE_BYTES else 0
        if self._bytes != before and not self._waits:
            self._load.change(self._bytes - before)

    def __enter__(self) -> None:
        self._waits += 1
        if self._bytes and self._waits == 1:
            self._load.change(-self._bytes)

    def __exit__(self, *error: object) -> None:
        self._waits -= 1
        if self._bytes and self._waits == 0:
            self._load.change(self._bytes)

    def close(self) -> None:
        """Count the run no more. Once, when it is driven no more."""
        if self._bytes:
            self._load.change(-self._bytes)
            self._load.learn(self._bytes)
