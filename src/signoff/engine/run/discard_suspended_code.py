"""Drops suspended workflow code without running any more of it.

When a suspended coroutine or generator is freed, Python closes it: its ``finally`` and ``with`` blocks run. For a
paused run that is evicted from memory this would be wrong, since these blocks belong to the end of the run. CPython
finalizes an object at most once and marks that in the object's garbage collector header. With the mark set beforehand,
the frame is freed and nothing in it runs.

The mark's position is an implementation detail of CPython, so it is tested at import. Where it does not work (another
interpreter, a free-threaded build), discarded code is kept alive until the process ends instead.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import sysconfig
import types
import weakref
from collections.abc import Generator, Iterable
from typing import Any

from signoff.runtime.private_names import set_finalized

_SUSPENDABLE = (types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType)
_OPAQUE = (
    type,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.CodeType,
)
_DEPTH = 5  # frame -> method of the with block -> context manager -> its dict -> its generator

_kept: list[object] = []


def discard(
    roots: Iterable[object],
    opaque: tuple[type, ...] = (),
    *,
    loop: asyncio.AbstractEventLoop | None = None,
) -> None:
    """Ensure that no suspended code under ``roots`` runs again when it is freed.

    Args:
        roots: Coroutines of a run's tasks.
        opaque: Types that lead out of the run, where the search stops.
        loop: The run's loop. Tasks and futures of other loops lead out of the run, too: an object that its code uses
            may hold those of the whole process.
    """
    for found in _suspended(roots, (*_OPAQUE, *opaque), loop):
        _silence(found)


def forget(gone: Iterable[object]) -> None:
    """Clear all weak references to these objects, with the callbacks that remove dictionary entries.

    A ``WeakKeyDictionary`` never removes an entry whose value refers to its key. Anyio's entry for a task in a cancel
    scope is one until the scope is left, and discarded code never leaves it.
    """
    for each in gone:
        for reference in weakref.getweakrefs(each):
            if reference.__callback__ is not None:
                reference.__callback__(reference)


def _suspended(
    roots: Iterable[object], opaque: tuple[type, ...], loop: asyncio.AbstractEventLoop | None
) -> list[object]:
    """Search level by level: code may refer to large data, and each eviction searches it."""
    found: list[object] = []
    seen: set[int] = set()
    level = {id(root): root for root in roots}
    depth_of_rest = _DEPTH
    while level and depth_of_rest:
        leads_on = {kind for kind in set(map(type, level.values())) if not issubclass(kind, opaque)}
        fresh: list[object] = [
            each for key, each in level.items() if key not in seen and type(each) in leads_on
        ]
        if loop is not None and any(issubclass(kind, asyncio.Future) for kind in leads_on):
            fresh = [
                each for each in fresh if not isinstance(each, asyncio.Future) or each.get_loop() is loop
            ]
        seen.update(level)
        deeper = [each for each in fresh if type(each) in _SUSPENDABLE]
        found += deeper
        depth_of_rest = _DEPTH if deeper else depth_of_rest - 1
        # Objects that the collector does not track, such as a dict of numbers, hold no suspended code.
        level = {id(each): each for each in gc.get_referents(*fresh) if gc.is_tracked(each)}
    return found


def _works() -> bool:
    ran: list[bool] = []

    def probe() -> Generator[None, Any, None]:
        try:
            yield
        finally:
            ran.append(True)

    if not hasattr(gc, "is_finalized") or not _has_classic_header():
        return False
    generator = probe()
    next(generator)
    set_finalized(generator)
    if not gc.is_finalized(generator):
        return False
    del generator
    return not ran


def _has_classic_header() -> bool:
    return sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")


# CPython 3.11 to 3.15 always take the first branch.
_silence = set_finalized if _works() else _kept.append
