"""Async generators of a run that are dropped before their end.

A dropped generator is closed at once, at the same moment at every replay. One in a reference cycle is found by the
garbage collector, at an unpredictable moment. It is kept then, and closed when the run ends.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import AsyncGenerator
from typing import Any, Final, TypeAlias

AnyGenerator: TypeAlias = AsyncGenerator[Any, Any]

_collecting: set[int] = set()


def _note_collection(phase: str, _info: dict[str, int]) -> None:
    if phase == "start":
        _collecting.add(threading.get_ident())
    else:
        _collecting.discard(threading.get_ident())


gc.callbacks.append(_note_collection)


def forget_collection() -> None:
    """Reset the calling thread's mark of a running garbage collection, if its end was missed."""
    _collecting.discard(threading.get_ident())


def is_collecting() -> bool:
    """Return whether the garbage collector is running on the calling thread."""
    return threading.get_ident() in _collecting


_FEW: Final = 64


class _Begun(weakref.ref[AnyGenerator]):
    """A generator that has begun."""

    __slots__ = ("identity", "number")

    number: int
    identity: int


class Generators:
    """The async generators of a run that have begun and not ended."""

    def __init__(self) -> None:
        # Ended ones are removed together: a callback for each takes longer than everything else here.
        self._begun: list[_Begun] = []
        self._most = _FEW
        self._kept: dict[int, AnyGenerator] = {}  # found by the garbage collector
        self._next = 0

    def begin(self, generator: AnyGenerator) -> None:
        """Note that a generator begins."""
        begun = _Begun(generator)
        begun.number, begun.identity = self._next, id(generator)
        self._next += 1
        self._begun.append(begun)
        # The collector clears weak references before it finalizes, and `keep` needs their numbers then.
        if len(self._begun) > self._most and not is_collecting():
            self._begun = [each for each in self._begun if each() is not None]
            self._most = _FEW + 2 * len(self._begun)

    def keep(self, generator: AnyGenerator) -> None:
        """Keep a generator that the garbage collector has found until the run ends."""
        # the last one, since an ended one may have had the same identity
        found = (each.number for each in reversed(self._begun) if each.identity == id(generator))
        self._kept[next(found, self._next)] = generator

    @property
    def kept(self) -> list[AnyGenerator]:
        """The generators found by the garbage collector."""
        return list(self._kept.values())

    def left(self) -> list[AnyGenerator]:
        """Remove and return the generators that have not ended, in the order in which they began."""
        found = {each.number: each() for each in self._begun} | self._kept
        self.drop()
        ordered = (found[number] for number in sorted(found))
        return [each for each in ordered if each is not None and _is_open(each)]

    def drop(self) -> None:
        """Forget all generators."""
        self._begun.clear()
        self._kept.clear()


def _is_open(generator: AnyGenerator) -> bool:
    return getattr(generator, "ag_frame", None) is not None
