"""Finds cycles of runs that would wait for each other. ``schema/postgres`` has the same search in SQL."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

LOOKED_AT: Final = 2_000
"""How many waiting runs are searched. A cycle beyond them is not found."""


def cycle_of(waiter: str, target: str, waiting_for: Callable[[str], Iterable[str]]) -> list[str] | None:
    """Return the cycle that would arise if one run waited for another; None if there is none.

    Args:
        waiter: The run that is about to wait.
        target: The run to wait for.
        waiting_for: Returns the unfinished runs that wait for a run, as its parent or because they have joined it.

    Returns:
        Run ids, each waiting for the next, from ``waiter`` to ``target`` and back to ``waiter``.
    """
    if waiter == target:
        return [waiter, waiter]
    waits: dict[str, str] = {}
    queue = deque([waiter])
    while queue and len(waits) < LOOKED_AT:
        run_id = queue.popleft()
        for other in sorted(waiting_for(run_id)):
            if other == waiter or other in waits:
                continue
            waits[other] = run_id
            queue.append(other)
            if other == target:
                cycle = [waiter, target]
                while cycle[-1] != waiter:
                    cycle.append(waits[cycle[-1]])
                return cycle
    return None
