"""Sessions: ordered chains of runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Session:
    """An ordered chain of runs, such as a conversation. At most one of them is active at a time."""

    namespace: str
    id: str
    created_at: float
    last_at: float  # when the last run was started in it
    last_position: int  # of that run: the number of runs ever started in it
    active_run_id: str | None = None  # None: all of its runs have ended
