"""The chosen ids of interrupts: each is of one chunk as long as it is open, or as its chunk still runs."""

from __future__ import annotations

import re

from signoff.errors import InvalidValue
from signoff.flows.errors import DuplicateInterrupt
from signoff.records.start_options import check_id


class InterruptIds:
    """The ids that are taken, and by which chunk. Chunks on threads may take them at the same time."""

    def __init__(self) -> None:
        self._owners: dict[str, object] = {}
        self._taken: dict[object, str] = {}

    def take(self, id: str, owner: object) -> None:
        """Take an id for a chunk and release the one it had. Raises DuplicateInterrupt."""
        if self._taken.get(owner) == id:
            return
        self.free(owner)
        if self._owners.setdefault(id, owner) is not owner:
            raise DuplicateInterrupt(id)
        self._taken[owner] = id

    def free(self, owner: object) -> None:
        """Release the id that a chunk has, if any."""
        id = self._taken.pop(owner, None)
        if id is not None:
            del self._owners[id]


def check_interrupt_id(id: str, execution_id: str) -> None:
    """Refuse an id that cannot be chosen: an interrupt without a chosen id has that of its question.

    Raises:
        InvalidValue: It is empty, too long, or could be the id of another question of the execution.
    """
    check_id(id)
    if re.fullmatch(rf"{re.escape(execution_id)}\.\d+(~\d+)?", id):
        raise InvalidValue(
            "interrupt_id", f"{id!r} is what questions of this execution are called; choose another id"
        )
