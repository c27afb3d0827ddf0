"""Limits the long bodies that one caller may have read at once. Further ones wait before they are read."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

LONG_BYTES: Final = 256 * 1024
"""Shorter bodies do not count."""

MOST_BYTES: Final = 8 * 1024 * 1024
"""How many bytes of one caller are read and worked on at once; a longer body alone."""


class LongBodies:
    """The room that the long bodies of each caller take."""

    def __init__(self) -> None:
        self._callers: dict[str, _Room] = {}

    async def enter(self, caller: str, size: int) -> Place:
        """Wait for room for a body of ``size`` bytes. It is taken until the place is left."""
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
                    self._admit(caller)  # those behind it may be smaller
                raise
        else:
            room.taken += place.size
        return place

    def leave(self, caller: str, size: int) -> None:
        """Give room back."""
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
    """The room of one caller: how many bytes are taken, and the bodies that wait for it."""

    def __init__(self) -> None:
        self.taken = 0
        self.waiting: deque[tuple[Place, asyncio.Future[None]]] = deque()


class Place:
    """The room that one body has.

    Attributes:
        size: How many bytes.
    """

    def __init__(self, bodies: LongBodies, caller: str, size: int) -> None:
        self.size = size
        self._bodies = bodies
        self._caller = caller
        self._is_left = False

    def leave(self) -> None:
        """Give the room back; once, however often it is called."""
        if not self._is_left:
            self._is_left = True
            self._bodies.leave(self._caller, self.size)
