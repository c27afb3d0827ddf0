"""Objects of the process, not of one run: those held by modules and workflow functions.

The state of such an object (a client, settings, a decorator's counter) differs between processes, so replay does not
compare it. The search is slow. It runs once per object, and before a replay would fail.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import sys
import types
import weakref
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Final, cast

_MOST_VISITED: Final = 20_000
"""The maximum number of objects that a search visits: it blocks the event loop. Larger containers are skipped."""

_MOST_SHARED: Final = 4_096

_PLAIN: Final = (
    str,
    bytes,
    int,
    float,
    bool,
    type(None),
    types.CodeType,
    types.BuiltinFunctionType,
    weakref.ref,
)

CONTAINERS: Final = (list, tuple, dict, set, frozenset)

_OF_RUNS: Final = (
    types.FrameType,
    types.CoroutineType,
    types.GeneratorType,
    types.AsyncGeneratorType,
    asyncio.Future,
    asyncio.AbstractEventLoop,
    contextvars.Context,
    types.ModuleType,
)
"""Holders of run data, and modules, which are visited separately."""

_shared: dict[int, object] = {}


def is_known(value: object) -> bool:
    """Return whether an object is known to belong to the process."""
    held = _shared.get(id(value))
    return held is not None and (held() if isinstance(held, weakref.ref) else held) is value


def note(value: object) -> None:
    """Remember that an object belongs to the process."""
    if len(_shared) >= _MOST_SHARED:
        _shared.clear()
    key = id(value)
    try:
        _shared[key] = weakref.ref(value, lambda _: _shared.pop(key, None))
    except TypeError:  # its class does not allow weak references
        _shared[key] = value


def is_global(function: FunctionType) -> bool:
    """Return whether a function is found in its module under its own name."""
    found: object = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is function


def find(
    wanted: Sequence[object], roots: Sequence[object], is_like: Callable[[Any], bool] | None
) -> tuple[list[Any], list[Any], list[Any]]:
    """Search modules, and the objects in ``roots``, for objects.

    Args:
        wanted: The objects.
        roots: Where to look first.
        is_like: Returns whether another object is of the same kind; None: the search ends with the first match.

    Returns:
        The objects found, others of their kind, and the containers and namespaces that were visited.
    """
    search = _Search({id(each) for each in wanted}, is_like)
    first = {_module_of(each) for each in (*wanted, *roots)}
    first.add("__main__")
    spaces = {
        name: module.__dict__ for name, module in list(sys.modules.items()) if hasattr(module, "__dict__")
    }
    open = [space for name, space in spaces.items() if name in first]
    search.seen = {id(space) for space in spaces.values()}
    search.through([*roots])
    if not (search.found and is_like is None):
        search.through(open)
    if not search.found:
        search.through(
            [space for name, space in spaces.items() if name not in first and not _is_library(name)]
        )
    return search.found, search.others, search.containers


def beside(one: object, others: Sequence[Any], containers: Sequence[Any]) -> list[Any]:
    """Return the objects of ``others`` that share a container with ``one``."""
    wanted = {id(each) for each in others}
    found: set[int] = set()
    for container in containers if wanted else ():
        held = {id(each) for each in gc.get_referents(container)}
        if id(one) in held:
            found |= held & wanted
    return [each for each in others if id(each) in found]


class _Search:
    def __init__(self, ids: set[int], is_like: Callable[[Any], bool] | None) -> None:
        self.seen: set[int] = set()
        self.found: list[Any] = []
        self.others: list[Any] = []
        self.containers: list[Any] = []
        self._ids = ids
        self._is_like = is_like

    def through(self, level: list[Any]) -> None:
        """Visit referenced objects, breadth first."""
        left = _MOST_VISITED
        while level and left > 0 and not (self.found and self._is_like is None):
            following = list[Any]()
            for holder in level:
                if left <= 0:
                    break
                if type(holder) in CONTAINERS:
                    if len(holder) > _MOST_VISITED:
                        continue
                    self.containers.append(holder)
                for each in gc.get_referents(holder):
                    if type(each) in _PLAIN or id(each) in self.seen:
                        continue
                    left -= 1
                    self._look_at(each)
                    if not _is_closed(each):
                        following.append(each)
            level = following

    def _look_at(self, value: Any) -> None:
        self.seen.add(id(value))
        if id(value) in self._ids:
            self.found.append(value)
        elif self._is_alike(value):
            self.others.append(value)

    def _is_alike(self, value: object) -> bool:
        try:
            return self._is_like is not None and self._is_like(value)
        except Exception:  # code of its class has failed
            return False


def _module_of(value: object) -> str:
    """Return the module of a class or function, or of another object's class. Their code may be involved."""
    try:
        kind = value if isinstance(value, types.FunctionType | type) else type(value)
        return str(kind.__module__)
    except Exception:
        return ""


def _is_library(module: str) -> bool:
    """Whether a module cannot hold objects of the user."""
    top = module.partition(".")[0]
    return top == "signoff" or (top in sys.stdlib_module_names and top != "__main__")


def _is_closed(value: object) -> bool:
    """Whether an object is not searched. Its class is asked, since a proxy may answer anything."""
    kind = cast("Any", type(value))
    if issubclass(kind, type):
        return _is_library(_module_of(value))
    return kind is not dict and _is_closed_kind(kind)


@functools.lru_cache(maxsize=1_024)
def _is_closed_kind(kind: Any) -> bool:
    return issubclass(kind, _OF_RUNS) or _module_of(kind).partition(".")[0] == "signoff"
