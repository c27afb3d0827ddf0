"""Limits how many bytes of long bodies the server reads at once for one caller. Further bodies wait."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

LONG_BYTES: Final = 256 * 1024
"""Shorter bodies do not count."""

MOST_BYTES: Final = 8 * 1024 * 1024
"""Bytes of one caller's bodies that are read and processed at once. A longer body is processed alone."""


class LongBodies:
    """The memory budget for long bodies, per caller."""

    def __init__(self) -> None:
        self._callers: dict[str, _Room] = {}

    async def enter(self, caller: str, size: int) -> Place:
        """Wait until a body of ``size`` bytes fits the caller's budget, and reserve it until the place is left."""
        room = self._callers.setdefault(caller, _Room())
        place = Place(self, caller, min(size, MOST_BYTES))
        if room.waiting or room.taken + place.size > MOST_BYTES:
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
        while room.waiting and room.taken + room.waiting[0][0].size <= MOST_BYTES:
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
