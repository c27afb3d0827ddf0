"""Joins: start a line once each of several sources has delivered. No value is dropped or used twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any


class Join:
    """Values by source, until there is one from each.

    Args:
        names: The sources.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._waiting: dict[str, deque[Any]] = {name: deque() for name in names}

    def add(self, name: str, value: Any) -> dict[str, Any] | None:
        """Add a value. Returns the oldest value of each source once all have one."""
        self._waiting[name].append(value)
        if not all(self._waiting.values()):
            return None
        return {name: waiting.popleft() for name, waiting in self._waiting.items()}

    def kept(self) -> dict[str, list[Any]]:
        """Return the waiting values as plain data."""
        return {name: list(waiting) for name, waiting in self._waiting.items() if waiting}

    def keep(self, kept: Mapping[str, Sequence[Any]]) -> None:
        """Restore waiting values."""
        for name, values in kept.items():
            if name in self._waiting:
                self._waiting[name].extend(values)
