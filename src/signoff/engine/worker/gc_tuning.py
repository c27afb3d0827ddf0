"""Garbage collector settings for a process that only drives runs."""

from __future__ import annotations

import gc

YOUNG_OBJECTS = 10_000  # allocations between two collections; Python's default is 700
LOOKS_AT_YOUNG = 20
LOOKS_AT_MIDDLE = 20


def relax_collector() -> None:
    """Collect garbage less often, and exclude imported objects.

    Runs live long and hold many small objects without cycles. With Python's defaults, scanning them takes a fifth of a
    busy worker's time. ``signoff worker``, ``dev`` and ``server`` call this once your code is loaded. Call it where you
    run a worker in a process of its own.

    Example::

        signoff.relax_collector()
        async with app.worker():
            await asyncio.Event().wait()
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, LOOKS_AT_YOUNG, LOOKS_AT_MIDDLE)
