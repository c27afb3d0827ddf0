"""Python's garbage collector in a process that does nothing but drive runs."""

from __future__ import annotations

import gc

YOUNG_OBJECTS = 10_000  # made and not freed since the last look for cycles; Python's own setting is 700
LOOKS_AT_YOUNG = 20
LOOKS_AT_MIDDLE = 20


def relax_collector() -> None:
    """Have the collector look less often, and no more at what was imported.

    Runs live long and hold many small objects, without cycles; at Python's settings, looking through them takes a fifth
    of a busy worker's time. ``signoff worker``, ``dev`` and ``server`` call this when your code is loaded; call it
    likewise where you run a worker in a process of its own.

    Example::

        signoff.relax_collector()
        async with app.worker():
            await asyncio.Event().wait()
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, LOOKS_AT_YOUNG, LOOKS_AT_MIDDLE)
