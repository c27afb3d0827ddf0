"""Limits the memory for large values: a worker claims no further runs while it computes many large ones.

Waiting runs do not count, so that no run waits for another run's room.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from signoff.codec.values import MAX_BYTES
from signoff.records import Entry
from signoff.stores.contract.leases import Claim

LARGE_BYTES: Final = 16 * 1024
"""Bytes of arguments, messages and journal. The memory of smaller runs does not depend on these."""
LOAD_BYTES = 8 * 1024 * 1024
"""The bytes of large runs that a worker computes at once. Decoded, they take several times as much."""


class Load:
    """The memory used by all runs of a worker.

    Args:
        eased: Called when there is room again.
    """

    def __init__(self, eased: Callable[[], None]) -> None:
        self.bytes = 0
        self._eased = eased
        self._of_one = MAX_BYTES  # average of the last claims; unknown for the first
        self._may_pass = False
        self._waiting = deque[tuple[asyncio.Future[None], RunLoad]]()  # claimed but not started

    @property
    def room(self) -> int:
        """How many runs may be claimed, if they are like those of the last claims."""
        left = LOAD_BYTES - self.bytes
        if left > 0:  # a run that exceeds the limit alone is claimed, too
            return 1 + left // max(1, self._of_one)
        return int(self._may_pass)

    def pass_once(self) -> None:
        """Admit one run beyond the limit, because counted runs may be waiting in ways that are not visible here."""
        if not self._admit_one():
            self._may_pass = True

    def claiming(self) -> None:
        """Reserve room for the runs being claimed."""
        self._may_pass = False

    def claimed(self, claims: Sequence[Claim]) -> None:
        """Adjust the estimate to the claimed runs."""
        if claims:
            average = sum(len(claim.run.arguments) for claim in claims) // len(claims)
            self._of_one = max(average, self._of_one // 8)

    def learn(self, size: int) -> None:
        """Adjust the estimate to a run that was computed: the next one may be similar."""
        self._of_one = max(self._of_one, size)

    def change(self, size: int) -> None:
        """Add the bytes of large runs that are now computed; negative for runs that no longer are."""
        was_full = self.bytes >= LOAD_BYTES
        self.bytes += size
        if was_full and self.bytes < LOAD_BYTES:
            while self.bytes < LOAD_BYTES and self._admit_one():
                pass
            if self.bytes < LOAD_BYTES:
                self._eased()

    async def wait(self, run: RunLoad) -> None:
        """Wait until there is room for a run, then count it."""
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
    """The memory used by one run. As a context manager, it marks a wait.

    Args:
        load: The worker's load.
        claim: The run, as it was claimed.
    """

    def __init__(self, load: Load, claim: Claim) -> None:
        self._load = load
        self._given = 0  # arguments, messages and step results
        self._journal = 0
        self._bytes = 0  # the sum, if it is large
        self._waits = 0  # concurrent waits: steps may wait beside the run
        self.add(claim.run.arguments)
        for message in claim.messages:
            self.add(message.value)

    def add(self, value: str | None) -> None:
        """Add a message or a result."""
        if value is not None:
            self._given += len(value)
            if self._given + self._journal >= LARGE_BYTES:
                self._count()

    async def begin(self) -> None:
        """Wait for room if the run is large. Sizes are unknown when runs are claimed together."""
        if self._bytes and self._load.bytes - self._bytes >= LOAD_BYTES:
            await self._load.wait(self)

    def read(self, entries: Sequence[Entry]) -> None:
        """Add the journal."""
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
        """Stop counting the run. Called once, when it is no longer driven."""
        if self._bytes:
            self._load.change(-self._bytes)
            self._load.learn(self._bytes)
