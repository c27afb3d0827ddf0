"""Joins: what begins once each of several things has come. Nothing that came is dropped, and each join is made once."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any


class Join:
    """Values by who they came from, until there is one of each.

    Args:
        names: Who they come from.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._waiting: dict[str, deque[Any]] = {name: deque() for name in names}

    def add(self, name: str, value: Any) -> dict[str, Any] | None:
        """Take a value; returns one of each, the oldest first, if all are there now."""
        self._waiting[name].append(value)
        if not all(self._waiting.values()):
            return None
        return {name: waiting.popleft() for name, waiting in self._waiting.items()}

    def kept(self) -> dict[str, list[Any]]:
        """Return what waits, as plain data."""
        return {name: list(waiting) for name, waiting in self._waiting.items() if waiting}

    def keep(self, kept: Mapping[str, Sequence[Any]]) -> None:
        """Take over what waited."""
        for name, values in kept.items():
            if name in self._waiting:
                self._waiting[name].extend(values)
