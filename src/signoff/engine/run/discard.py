"""Letting go of suspended workflow code without running any more of it.

Python closes a suspended coroutine or generator that is thrown away: its ``finally`` and ``with`` blocks
run then. For a paused run that leaves memory this would be wrong, since those blocks belong to the end of the
run. CPython finalizes an object at most once and keeps that in a bit of the object's garbage collector
header; with the bit set beforehand, the frame is freed and nothing in it runs.

The bit's place is CPython's own affair, so it is tried out at import. Where it does not work (another
interpreter, a free-threaded build), what is discarded is kept alive until the process ends instead.
"""

from __future__ import annotations

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
_DEPTH = 5  # frame -> with block's method -> context manager -> its dict -> its generator

_kept: list[object] = []


def discard(roots: Iterable[object], opaque: tuple[type, ...] = ()) -> None:
    """Make sure that nothing suspended under ``roots`` runs again when it is freed.

    Args:
        roots: Coroutines of a run's tasks.
        opaque: Types that lead out of the run, where the search stops.
    """
    for found in _suspended(roots, (*_OPAQUE, *opaque)):
        _silence(found)


def forget(gone: Iterable[object]) -> None:
    """Have everybody who refers weakly to these drop what they keep for them.

    A ``WeakKeyDictionary`` keeps an entry for ever whose value refers to its key. That of anyio for a task in a cancel
    scope does so until the scope is left, which suspended code that is let go never does.
    """
    for each in gone:
        for reference in weakref.getweakrefs(each):
            if reference.__callback__ is not None:
                reference.__callback__(reference)


def _suspended(roots: Iterable[object], opaque: tuple[type, ...]) -> list[object]:
    """Search level by level: code may refer to large data, all of which is looked through at each eviction."""
    found: list[object] = []
    seen: set[int] = set()
    level = {id(root): root for root in roots}
    depth_of_rest = _DEPTH
    while level and depth_of_rest:
        leads_on = {kind for kind in set(map(type, level.values())) if not issubclass(kind, opaque)}
        fresh = [each for key, each in level.items() if key not in seen and type(each) in leads_on]
        seen.update(level)
        deeper = [each for each in fresh if type(each) in _SUSPENDABLE]
        found += deeper
        depth_of_rest = _DEPTH if deeper else depth_of_rest - 1
        # What the collector does not track, such as a dict of numbers, leads to nothing suspended.
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


# CPython 3.11 to 3.15 always take the first.
_silence = set_finalized if _works() else _kept.append
