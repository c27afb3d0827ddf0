"""Resources that the tests of a process share as long as none of them changes the process, such as its clocks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Generic, TypeVar

T = TypeVar("T")

_entered = ExitStack()
_generation = 0


class Shared(Generic[T]):
    """Something that is entered for the first test that asks for it, and again after ``leave_all``."""

    def __init__(self) -> None:
        self._generation = -1

    def get(self, make: Callable[[], AbstractContextManager[T]]) -> T:
        """Return what is shared. It is made and entered if it is not there."""
        if self._generation != _generation:
            self._made = _entered.enter_context(make())
            self._generation = _generation
        return self._made


def leave_all() -> None:
    """Leave whatever is shared, as before the clocks of the process are set."""
    global _generation  # noqa: PLW0603
    _generation += 1
    _entered.close()
