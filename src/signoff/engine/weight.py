"""What a paused run holds in memory: its code, and all that this refers to, counted object by object."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import threading
import types
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Enum
from sys import getsizeof
from typing import Any, Final, cast

PLAIN_BYTES: Final = 16 * 1024
"""What a run holds that waits for one answer, and has no data."""

_SMALL_BYTES: Final = 4 * PLAIN_BYTES
_MOST_SHARED: Final = 200_000
_WEIGHED_WITH: Final = 1_000  # large runs, before what they share is looked up again
_APART: Final = (
    types.ModuleType,
    types.CodeType,
    types.BuiltinFunctionType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    type,
    Enum,
    logging.Logger,
    logging.Handler,
    threading.Thread,
    type(threading.Lock()),
)
_SUSPENDED: Final = (
    types.CoroutineType,
    types.GeneratorType,
    types.AsyncGeneratorType,
    types.FrameType,
    asyncio.Future,
)
_BESIDES: Final = (
    "signoff.app",
    "signoff.client",
    "signoff.engine.driver",
    "signoff.engine.live",
    "signoff.engine.threads",
    "signoff.engine.worker",
    "signoff.http_client",
    "signoff.registry",
    "signoff.stores.",
)
_LEAVES: Final = frozenset({str, int, float, bool, bytes, type(None)})
_GAPS: Final = 4
"""What Python's allocator takes besides is a part of this size."""
_MOST_TYPES: Final = 4_096
_POINTER: Final = 8
_PREFIX: Final = 16


class Scales:
    """Weighs the runs of a worker.

    Args:
        own: The classes of a run's own parts, which no other run has.
    """

    def __init__(self, own: tuple[type, ...]) -> None:
        self._own = own
        self._shared: dict[int, tuple[object, int, frozenset[int]]] = {}

    def bytes_of(self, run: object, shared: Sequence[object], most: int) -> int:
        """Return how many bytes a run holds; more than ``most`` if it is more.

        What the run's code shares with others does not count: modules, and what is reachable from ``shared``. Memory
        that an object has outside of Python counts if ``__sizeof__`` or ``nbytes`` says so, as NumPy's arrays do.

        Args:
            run: The run.
            shared: The program, and its function.
            most: When to stop.
        """
        size = _weigh(run, {*map(id, shared)}, min(most, _SMALL_BYTES))
        if size <= _SMALL_BYTES:  # nearly all
            return size
        return _weigh(run, self._ids_of(shared), most)

    def _ids_of(self, shared: Sequence[object]) -> frozenset[int]:
        key = id(shared[0])
        found = self._shared.get(key)
        if found is None or found[1] >= _WEIGHED_WITH:
            found = (shared[0], 0, _reachable(shared, self._own))
        self._shared[key] = (found[0], found[1] + 1, found[2])
        return found[2]


def _weigh(run: object, shared: Collection[int], most: int) -> int:
    others = type(run)
    seen = {id(run)}
    level: list[Any] = [run]
    sizers = _sizers
    size = getsizeof(run)
    while level and size <= most:
        found, level = _referents(level), []
        for each in found:
            key = id(each)
            if key in seen:
                continue
            seen.add(key)
            kind = cast("type[Any]", type(each))
            size_of = sizers[kind] if kind in sizers else _sizer_of(kind)
            if size_of is None or kind is others or key in shared:
                continue
            if kind in _LEAVES:
                size += getsizeof(each)
            elif kind is not dict or not _is_namespace(each):
                size += size_of(each)
                level.append(each)
    return size + max(0, size - PLAIN_BYTES) // _GAPS


def _reachable(roots: Sequence[object], own: tuple[type, ...]) -> frozenset[int]:
    """Return the ids of the containers that the code of all runs of a program can reach, outside of any run."""
    seen: set[int] = set()
    level: list[Any] = []

    def note(found: Iterable[Any]) -> None:
        for each in found:
            kind = cast("type[Any]", type(each))
            if id(each) in seen or not gc.is_tracked(each) or issubclass(kind, (*own, *_SUSPENDED)):
                continue
            if not _is_apart(kind) and not _is_namespace(each):
                seen.add(id(each))
                level.append(each)

    note(roots)
    for root in roots:
        note(getattr(root, "__globals__", {}).values())
    while level and len(seen) < _MOST_SHARED:
        looked_at, level = level, []
        note(gc.get_referents(*looked_at))
    return frozenset(seen)


def _referents(level: Sequence[Any]) -> list[Any]:
    found = gc.get_referents(*level)
    for each in level:
        if (
            _sizers.get(cast("type[Any]", type(each))) is _size_with_buffer
        ):  # whose parts the collector does not see
            found += _parts_of(each)
    return found


def _parts_of(array: Any) -> list[Any]:
    try:
        parts = [] if array.base is None else [array.base]
        if array.dtype.hasobject:
            parts += array.ravel().tolist()
    except Exception:  # another kind of array
        return []
    return parts


def _sizer_of(kind: type[Any]) -> Callable[[Any], int] | None:
    """Find what says the size of the objects of a type, and note it."""
    sizer: Callable[[Any], int] | None = getsizeof
    if _is_apart(kind):
        sizer = None
    elif hasattr(kind, "nbytes"):
        sizer = _size_with_buffer
    elif kind.__sizeof__ not in _SURE or kind.__dictoffset__:
        sizer = functools.partial(_size_with_attributes, [])
    if len(_sizers) >= _MOST_TYPES:
        _sizers.clear()
    _sizers[kind] = sizer
    return sizer


def _size_with_buffer(value: Any) -> int:
    try:
        return max(getsizeof(value, 0), int(value.nbytes))
    except Exception:  # its own code failed
        return getsizeof(value, 0)


def _size_with_attributes(count: list[int], value: Any) -> int:
    if (
        not count
    ):  # all of a type have about as many. They are kept apart from the object, which does not say so
        count.append(len(gc.get_referents(value)) if type(value).__dictoffset__ else 0)
    try:
        size = getsizeof(value)
    except Exception:  # its own code failed
        size = object.__sizeof__(value)
    return size + _PREFIX + _POINTER * count[0]


_BUILTIN: Final = cast(
    "tuple[type[Any], ...]", (object, str, int, list, dict, set, tuple, bytes, bytearray, float)
)
_SURE: Final[frozenset[Any]] = frozenset([kind.__sizeof__ for kind in _BUILTIN])


def _is_apart(kind: type) -> bool:
    """Whether objects of a type belong to the process."""
    if issubclass(kind, _APART):
        return True
    if issubclass(kind, asyncio.AbstractEventLoop):
        return not kind.__module__.startswith("signoff.")
    return kind.__module__.startswith(_BESIDES)


_sizers: dict[type[Any], Callable[[Any], int] | None] = {}
"""What says the size of the objects of each type; None: they do not count."""


def _is_namespace(value: Any) -> bool:
    """Whether a dict is that of a module."""
    return type(value) is dict and ("__builtins__" in value or "__build_class__" in value)
