"""Suspects: ready runs that have lost several workers without progress. One of them may have killed the workers.

When a worker dies, Signoff cannot know which of its runs killed it, so each of them counts a takeover. Suspects start
in ever smaller groups: innocent runs make progress there and are cleared, until the run that kills its workers is
alone.
"""

from __future__ import annotations

from typing import Final

SUSPECT_TAKEOVERS: Final = 2
"""A run with this many takeovers without progress is a suspect."""

ALONE_TAKEOVERS: Final = 4
"""With this many it is the only suspect on its worker."""

_ROOM: Final = {2: 100, 3: 10}


def level_of(takeovers: int) -> int:
    """Return the level of a suspect: its takeovers, counted up to ``ALONE_TAKEOVERS``."""
    return min(takeovers, ALONE_TAKEOVERS)


def room_of(level: int) -> int:
    """Return the maximum number of suspects of a level on one worker: 100, 10, 1."""
    return _ROOM.get(level, 1)
