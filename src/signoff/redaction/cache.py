"""A server's cache of the hidden texts of runs, so that it does not read their journals for each response."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from signoff.redaction.kept_texts import bytes_of

MOST_RUNS: Final = 2_000
MOST_BYTES: Final = 8 * 1024 * 1024
"""Bound of the whole cache. Evicted runs are read again."""


@dataclass(slots=True)
class Known:
    """The cached facts of a run.

    Attributes:
        workflow: Its workflow.
        created_at: Its creation time, which tells it from a deleted run with the same id.
        parent_id: The run that started it.
        session_id: Its session.
        secrets: Its hidden texts.
        children: Runs that it has started, as many as are searched.
        seq: The last journal entry that was read.
        is_over: Whether its journal is complete.
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
    """An LRU cache of runs by namespace and id."""

    def __init__(self) -> None:
        self._runs: OrderedDict[tuple[str, str], Known] = OrderedDict()
        self._sizes: dict[tuple[str, str], int] = {}
        self._size = 0

    def get(self, namespace: str, run_id: str) -> Known | None:
        """Return the cached facts of a run."""
        known = self._runs.get((namespace, run_id))
        if known is not None:
            self._runs.move_to_end((namespace, run_id))
        return known

    def put(self, namespace: str, run_id: str, known: Known) -> None:
        """Cache the facts of a run, and evict others if the cache is too large."""
        key = (namespace, run_id)
        size = bytes_of(known.secrets) + bytes_of(known.children)
        self._size += size - self._sizes.get(key, 0)
        self._sizes[key] = size
        self._runs[key] = known
        self._runs.move_to_end(key)
        while len(self._runs) > 1 and (len(self._runs) > MOST_RUNS or self._size > MOST_BYTES):
            oldest, _ = self._runs.popitem(last=False)
            self._size -= self._sizes.pop(oldest)
