"""How large a state is: it is limited as a whole, and the chunk that would exceed the limit is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic_core import to_json

from signoff import codec
from signoff.errors import PayloadTooLarge

Change = Literal["set", "append", "add", "delete"]

_NUMBER: Final = 24
"""How many bytes a number of ``add_state`` takes, about."""


class Room:
    """The sizes of a state's keys, in bytes of JSON, and what running chunks are about to add.

    Attributes:
        size: That of the whole state.
    """

    def __init__(self) -> None:
        self.size = 0
        self._sizes: dict[str, int] = {}
        self._growing: dict[object, int] = {}

    def of(self, key: str) -> int:
        """Return the size of a key; 0 if it is not there."""
        return self._sizes.get(key, 0)

    def set(self, key: str, size: int) -> None:
        """Note the size of a key; 0 if it is gone."""
        self.size += size - self._sizes.pop(key, 0)
        if size:
            self._sizes[key] = size

    def set_all(self, state: Mapping[str, Any]) -> None:
        """Note the sizes of a state that was made elsewhere."""
        for key, value in state.items():
            self.set(key, grown(0, "set", key, value))

    def change(self, what: Change, key: str, value: Any) -> None:
        """Note a write to a key."""
        self.set(key, grown(self.of(key), what, key, value))

    def grow(self, owner: object, growth: int) -> None:
        """Note by how much the writes of a running chunk change the size. Raises PayloadTooLarge, noting nothing."""
        before = self._growing.pop(owner, 0)
        if growth > 0:
            size = self.size + growth + sum(list(self._growing.values()))
            if size > codec.MAX_CARRIED:
                if before:
                    self._growing[owner] = before
                raise PayloadTooLarge("state", size, codec.MAX_CARRIED)
            self._growing[owner] = growth

    def end(self, owner: object) -> None:
        """Forget what a chunk was about to add: it has ended."""
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
