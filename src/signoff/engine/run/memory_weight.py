"""What suspended workflow code weighs in memory: its frames, about 2 KiB each, and the large values that it was given.

No object of the code is looked at: that would run code of its classes, or take as long as they are large.
"""

from __future__ import annotations

import gc
import inspect
import itertools
from collections.abc import Collection
from typing import Final

FRAMES_OF_A_RUN: Final = 8
PLAIN_BYTES: Final = 16 * 1024
TIMES_THEIR_TEXT: Final = 6
"""How much a value takes with its text: lists and dictionaries of small values five times as much; long texts less."""
_LOOKED_AT: Final = 64  # of what waits in parallel, so many are counted, and the others taken for their like


def bytes_of(value: str | None) -> int:
    """Return what an encoded value takes in memory, decoded and as text; 0 below 16 KiB."""
    return len(value) * TIMES_THEIR_TEXT if value is not None and len(value) >= PLAIN_BYTES else 0


def runs_weighed(roots: Collection[object]) -> int:
    """Return for how many plain runs these coroutines, those of a run's tasks, weigh: at least 1."""
    if not roots:
        return 1
    some = list(itertools.islice(roots, _LOOKED_AT))
    frames = sum(map(_depth, some)) * len(roots) / len(some)
    return max(1, round(frames / FRAMES_OF_A_RUN))


def _depth(suspended: object) -> int:
    depth = 0
    while suspended is not None:
        depth += 1
        suspended = _waited_for(suspended)
    return depth


def _waited_for(suspended: object) -> object:
    for name in ("cr_await", "gi_yieldfrom", "ag_await"):
        if hasattr(suspended, name):
            return getattr(suspended, name)
    # What ``async for`` waits for tells of its generator to the collector only.
    return next(filter(inspect.isasyncgen, gc.get_referents(suspended)), None)
