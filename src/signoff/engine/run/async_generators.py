"""Async generators of a run that are left before their end.

One that is dropped is closed at once, at the same moment at every replay. One that is part of a cycle is found by the
garbage collector, at a moment that no replay repeats. It is kept then, and closed when the run ends.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import AsyncGenerator
from typing import Any, TypeAlias

AnyGenerator: TypeAlias = AsyncGenerator[Any, Any]

_collecting: set[int] = set()


def _note_collection(phase: str, _info: dict[str, int]) -> None:
    if phase == "start":
        _collecting.add(threading.get_ident())
    else:
        _collecting.discard(threading.get_ident())


gc.callbacks.append(_note_collection)


def forget_collection() -> None:
    """Note that the garbage collector does not run on the calling thread, if its end was not noted."""
    _collecting.discard(threading.get_ident())


def is_collecting() -> bool:
    """Whether the garbage collector runs on the calling thread."""
    return threading.get_ident() in _collecting


class Generators:
    """The async generators of a run that have begun and are not at their end."""

    def __init__(self) -> None:
        self._begun: dict[int, weakref.ref[AnyGenerator]] = {}
        self._numbers: dict[int, int] = {}  # by identity: the collector clears references before it finalizes
        self._kept: dict[int, AnyGenerator] = {}  # the garbage collector has found them
        self._next = 0

    def begin(self, generator: AnyGenerator) -> None:
        """Note that a generator begins."""
        number, identity = self._next, id(generator)
        self._next += 1
        self._numbers[identity] = number

        def forget(_: object) -> None:
            self._begun.pop(number, None)
            if not is_collecting():
                self._numbers.pop(identity, None)

        self._begun[number] = weakref.ref(generator, forget)

    def keep(self, generator: AnyGenerator) -> None:
        """Keep a generator that the garbage collector has found until the run ends."""
        self._kept[self._numbers.pop(id(generator), self._next)] = generator

    @property
    def kept(self) -> list[AnyGenerator]:
        """What the garbage collector has found."""
        return list(self._kept.values())

    def left(self) -> list[AnyGenerator]:
        """Return what is not at its end, in the order in which it began, and let go of it."""
        found = {number: each() for number, each in self._begun.items()} | self._kept
        self.drop()
        ordered = (found[number] for number in sorted(found))
        return [each for each in ordered if each is not None and _is_open(each)]

    def drop(self) -> None:
        """Forget them."""
        self._begun.clear()
        self._numbers.clear()
        self._kept.clear()


def _is_open(generator: AnyGenerator) -> bool:
    return getattr(generator, "ag_frame", None) is not None
