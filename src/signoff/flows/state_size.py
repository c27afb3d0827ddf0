"""Limits the size of a state: a chunk that would exceed it fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic_core import to_json

from signoff import codec
from signoff.errors import PayloadTooLarge

Change = Literal["set", "append", "add", "delete"]

_NUMBER: Final = 24
"""The approximate size of a number of ``add_state``, in bytes."""


class Room:
    """The sizes of a state's keys, in bytes of JSON, including pending writes of running chunks.

    Attributes:
        size: The size of the whole state.
    """

    def __init__(self) -> None:
        self.size = 0
        self._sizes: dict[str, int] = {}
        self._growing: dict[object, int] = {}

    def of(self, key: str) -> int:
        """Return the size of a key; 0 if it does not exist."""
        return self._sizes.get(key, 0)

    def set(self, key: str, size: int) -> None:
        """Set the size of a key; 0 if it was removed."""
        self.size += size - self._sizes.pop(key, 0)
        if size:
            self._sizes[key] = size

    def set_all(self, state: Mapping[str, Any]) -> None:
        """Set the sizes of all keys of a state."""
        for key, value in state.items():
            self.set(key, grown(0, "set", key, value))

    def change(self, what: Change, key: str, value: Any) -> None:
        """Apply a write to a key's size."""
        self.set(key, grown(self.of(key), what, key, value))

    def grow(self, owner: object, growth: int) -> None:
        """Add the size of a running chunk's writes.

        Raises:
            PayloadTooLarge: The state would exceed its limit. Nothing is added.
        """
        before = self._growing.pop(owner, 0)
        if growth > 0:
            size = self.size + growth + sum(list(self._growing.values()))
            if size > codec.MAX_CARRIED:
                if before:
                    self._growing[owner] = before
                raise PayloadTooLarge("state", size, codec.MAX_CARRIED)
            self._growing[owner] = growth

    def end(self, owner: object) -> None:
        """Remove the pending size of a chunk that has ended."""
        self._growing.pop(owner, None)

    @property
    def is_over(self) -> bool:
        """Whether the state is over the limit."""
        return self.size > codec.MAX_CARRIED


def grown(size: int, what: Change, key: str, value: Any) -> int:
    """Return the size of a key after a write."""
    match what:
        case "delete":
            return 0
        case "add":
            return max(size, _NUMBER + len(key))
        case "append" if size:
            return size + _size_of(value) + 1
        case _:
            return _size_of(key) + _size_of(value) + 4


def _size_of(plain: Any) -> int:
    return len(to_json(plain))
