"""Suspects: ready runs that have lost several workers without progress. One of them may have killed these.

When a worker dies, Signoff cannot know which of its runs killed it. Each of them counts a takeover. Suspects begin in
smaller and smaller groups: innocent runs make progress there and are cleared, and the run that kills its workers is
alone in the end.
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
