"""What a server remembers of runs, so that it does not read their journals again for each thing it shows."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

MOST_RUNS: Final = 2_000
MOST_CHARACTERS: Final = 8_000_000
"""Of all that is remembered. What is forgotten is read again."""


@dataclass(slots=True)
class Known:
    """What is known of a run.

    Attributes:
        workflow: Its workflow.
        created_at: When it was created: another run may get the id of one that was deleted.
        parent_id: The run that started it.
        session_id: Its session.
        secrets: The texts that are hidden of it.
        children: The runs that it has started.
        seq: Up to where its journal was read.
        is_over: Whether nothing will be added.
    """

    workflow: str
    created_at: float
    parent_id: str | None
    session_id: str | None
    secrets: frozenset[str] = frozenset()
    children: frozenset[str] = frozenset()
    seq: int = -1
    is_over: bool = False


class Remembered:
    """What is known of runs, by namespace and id: of those that were shown last, and within a bound."""

    def __init__(self) -> None:
        self._runs: OrderedDict[tuple[str, str], Known] = OrderedDict()
        self._sizes: dict[tuple[str, str], int] = {}
        self._size = 0

    def get(self, namespace: str, run_id: str) -> Known | None:
        """Return what is known of a run."""
        known = self._runs.get((namespace, run_id))
        if known is not None:
            self._runs.move_to_end((namespace, run_id))
        return known

    def put(self, namespace: str, run_id: str, known: Known) -> None:
        """Remember what is known of a run, and forget others if that is too much."""
        key = (namespace, run_id)
        size = sum(map(len, known.secrets)) + sum(map(len, known.children))
        self._size += size - self._sizes.get(key, 0)
        self._sizes[key] = size
        self._runs[key] = known
        self._runs.move_to_end(key)
        while len(self._runs) > 1 and (len(self._runs) > MOST_RUNS or self._size > MOST_CHARACTERS):
            oldest, _ = self._runs.popitem(last=False)
            self._size -= self._sizes.pop(oldest)
