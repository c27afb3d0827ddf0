"""Limits how many bytes of long bodies the server reads at once for one caller. Further bodies wait."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from signoff.errors import TooManyRequests

RETRY_AFTER_SECONDS: Final = 1

LONG_BYTES: Final = 256 * 1024
"""Shorter bodies do not count."""

MOST_BYTES: Final = 8 * 1024 * 1024
"""Bytes of one caller's bodies that are read and processed at once. A longer body is processed alone."""


class LongBodies:
    """The memory budget for bodies, per caller.

    Args:
        most_bytes: The budget of one caller.
        most_waiting: How many bodies of one caller may wait; None: any number.
    """

    def __init__(self, most_bytes: int = MOST_BYTES, most_waiting: int | None = None) -> None:
        self._most_bytes = most_bytes
        self._most_waiting = most_waiting
        self._callers: dict[str, _Room] = {}

    async def enter(self, caller: str, size: int) -> Place:
        """Wait until a body of ``size`` bytes fits the caller's budget, and reserve it until the place is left.

        Raises:
            TooManyRequests: As many bodies of the caller wait as may.
        """
        room = self._callers.setdefault(caller, _Room())
        place = Place(self, caller, min(size, self._most_bytes))
        if room.waiting or room.taken + place.size > self._most_bytes:
            if self._most_waiting is not None and len(room.waiting) >= self._most_waiting:
                raise TooManyRequests(RETRY_AFTER_SECONDS)
            turn = asyncio.get_running_loop().create_future()
            room.waiting.append((place, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    place.leave()
                else:
                    room.waiting.remove((place, turn))
                    self._admit(caller)  # the next bodies in the queue may be smaller
                raise
        else:
            room.taken += place.size
        return place

    def leave(self, caller: str, size: int) -> None:
        """Release a reservation."""
        self._callers[caller].taken -= size
        self._admit(caller)

    def _admit(self, caller: str) -> None:
        room = self._callers[caller]
        while room.waiting and room.taken + room.waiting[0][0].size <= self._most_bytes:
            place, turn = room.waiting.popleft()
            if not turn.done():
                room.taken += place.size
                turn.set_result(None)
        if not room.taken and not room.waiting:
            del self._callers[caller]


class _Room:
    """The budget of one caller: the reserved bytes, and the bodies that wait."""

    def __init__(self) -> None:
        self.taken = 0
        self.waiting: deque[tuple[Place, asyncio.Future[None]]] = deque()


class Place:
    """The reservation of one body.

    Attributes:
        size: The reserved bytes.
    """

    def __init__(self, bodies: LongBodies, caller: str, size: int) -> None:
        self.size = size
        self._bodies = bodies
        self._caller = caller
        self._is_left = False

    def leave(self) -> None:
        """Release the reservation. Further calls do nothing."""
        if not self._is_left:
            self._is_left = True
            self._bodies.leave(self._caller, self.size)
