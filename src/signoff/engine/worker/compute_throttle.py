"""Spreads long computations over several turns of a worker's event loop.

A hundred runs that continue in one turn, each with 50 ms of computing, would block the loop for five seconds. Meanwhile
no claim is processed, and leases of claimed runs expire.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Final

LONG_SECONDS: Final = 0.005
"""Shorter computations are not counted."""
TURN_SECONDS: Final = 0.05
"""Seconds of computing in one turn of the loop before other runs must wait."""
MOST_IN_A_TURN: Final = 8
"""How many waiting runs continue in one turn of the loop, if those before were quick."""


class ComputeThrottle:
    """Makes runs wait for later turns of the loop after long computations.

    There are two queues: one for runs with events to process, including ended steps, and one for runs that begin. So
    values of active runs do not pile up, and runs that compute repeatedly do not starve the others.

    Args:
        loop: The worker's event loop.

    Attributes:
        loop: The worker's event loop.
        is_behind: Whether to wait with ``turn`` before computing.
        time: Returns the time of the loop; for asyncio's own loops, without the cost of its method.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        is_own = getattr(type(loop), "time", None) is asyncio.BaseEventLoop.time
        self.time = time.monotonic if is_own else loop.time
        self.is_behind = False
        self._going_on = deque[asyncio.Future[None]]()
        self._beginning = deque[asyncio.Future[None]]()
        self._seconds = 0.0  # of long computations in this turn of the loop
        self._is_counting = False
        self._at_once = 1

    async def turn(self, *, goes_on: bool = False) -> None:
        """Wait for a turn of the loop.

        Args:
            goes_on: Whether the run is already in memory, with events to process.
        """
        waiter = self.loop.create_future()
        (self._going_on if goes_on else self._beginning).append(waiter)
        await waiter

    def computed(self, since: float) -> None:
        """Count a computation that began at this time of the loop."""
        seconds = self.time() - since
        if seconds < LONG_SECONDS:
            return
        self._seconds += seconds
        self.is_behind |= self._seconds >= TURN_SECONDS
        if not self._is_counting:
            self._is_counting = True
            self.loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        if self._seconds >= TURN_SECONDS:
            self._at_once = max(1, self._at_once // 2)
        else:
            self._at_once = min(2 * self._at_once, MOST_IN_A_TURN)
        self._seconds = 0.0
        released = self._release(self._going_on) + self._release(self._beginning)
        self.is_behind = self._is_counting = released > 0
        if self.is_behind:  # until the released runs have computed
            self.loop.call_soon(self._next_turn)
        else:
            self._at_once = 1

    def _release(self, waiting: deque[asyncio.Future[None]]) -> int:
        released = 0
        while waiting and released < self._at_once:
            waiter = waiting.popleft()
            if not waiter.done():  # it may be cancelled
                waiter.set_result(None)
                released += 1
        return released
