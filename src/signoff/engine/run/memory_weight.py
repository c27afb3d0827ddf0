"""The memory weight of suspended workflow code: its frames, about 2 KiB each, and the large values it received.

No object of the code is inspected: that could run the code's own methods, and would take long for large objects.
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
"""The ratio of a value's memory to its text: lists and dicts of small values take five times as much, texts less."""
# Of parallel waits, only so many are measured; the others count as similar.
_LOOKED_AT: Final = 64


def bytes_of(value: str | None) -> int:
    """Return the memory of an encoded value, decoded and as text; 0 below 16 KiB."""
    return len(value) * TIMES_THEIR_TEXT if value is not None and len(value) >= PLAIN_BYTES else 0


def runs_weighed(roots: Collection[object]) -> int:
    """Return the weight of a run's coroutines in multiples of a plain run, at least 1."""
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
    # Only the garbage collector can find the generator that `async for` awaits.
    return next(filter(inspect.isasyncgen, gc.get_referents(suspended)), None)
