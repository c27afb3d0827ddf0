"""The chosen ids of interrupts. An id belongs to one chunk while the chunk runs or its interrupt is open."""

from __future__ import annotations

import re

from signoff.errors import InvalidValue
from signoff.flows.errors import DuplicateInterrupt
from signoff.records.start_options import check_id


class InterruptIds:
    """The ids in use, and their chunks. Thread-safe, since chunks may run in threads."""

    def __init__(self) -> None:
        self._owners: dict[str, object] = {}
        self._taken: dict[object, str] = {}

    def take(self, id: str, owner: object) -> None:
        """Reserve an id for a chunk and release its previous one.

        Raises:
            DuplicateInterrupt: Another chunk has the id.
        """
        if self._taken.get(owner) == id:
            return
        self.free(owner)
        if self._owners.setdefault(id, owner) is not owner:
            raise DuplicateInterrupt(id)
        self._taken[owner] = id

    def free(self, owner: object) -> None:
        """Release a chunk's id, if any."""
        id = self._taken.pop(owner, None)
        if id is not None:
            del self._owners[id]


def check_interrupt_id(id: str, execution_id: str) -> None:
    """Check a chosen id. An interrupt without one has its question's id.

    Raises:
        InvalidValue: It is empty, too long, or could be the id of another question of the execution.
    """
    check_id(id)
    if re.fullmatch(rf"{re.escape(execution_id)}\.\d+(~\d+)?", id):
        raise InvalidValue(
            "interrupt_id", f"{id!r} has the form of this execution's question ids; choose another id"
        )
