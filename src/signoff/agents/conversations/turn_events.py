"""The events of a session, and their ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from signoff.records import Entry, Run

_SEQ_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class TurnEvent:
    """An event of a conversation.

    Attributes:
        id: Its position: ``events(after=id)`` continues after it.
        run_id: The turn's run.
        entry: The entry in the run's journal.
    """

    id: int
    run_id: str
    entry: Entry

    @classmethod
    def of(cls, run: Run, entry: Entry) -> Self:
        """Return the event of an entry in a turn's journal."""
        assert run.position is not None
        return cls((run.position << _SEQ_BITS) + entry.seq + 1, run.id, entry)


def place_of(id: int) -> tuple[int, int]:
    """Return the turn's position in the session, and the ``seq`` of the entry, of an event's id."""
    return id >> _SEQ_BITS, (id & ((1 << _SEQ_BITS) - 1)) - 1
