"""Suspects: ready runs that have lost workers again and again without progress, one of which may have ended them all.

A worker that dies takes every run it holds with it, and nobody can tell which of them did it. So each of them counts a
takeover, and those that count some are begun in smaller and smaller companies: the innocent ones make progress there,
which clears them, and the one that ends its workers ends them alone at last.
"""

from __future__ import annotations

from typing import Final

SUSPECT_TAKEOVERS: Final = 2
"""From this many takeovers without progress on, a run is a suspect."""

ALONE_TAKEOVERS: Final = 4
"""From this many on it is the only suspect on its worker."""

_ROOM: Final = {2: 100, 3: 10}


def level_of(takeovers: int) -> int:
    """Return the level of a suspect: its takeovers, counted up to ``ALONE_TAKEOVERS``."""
    return min(takeovers, ALONE_TAKEOVERS)


def room_of(level: int) -> int:
    """Return how many suspects of a level a worker holds at most: 100, 10, one."""
    return _ROOM.get(level, 1)
