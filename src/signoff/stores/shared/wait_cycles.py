"""Finds circles of runs that would wait for each other. Postgres has the same search in ``schema/postgres``."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

LOOKED_AT: Final = 2_000
"""How many runs that wait for one are looked at: a circle beyond them is not found."""


def circle_of(waiter: str, target: str, waiting_for: Callable[[str], Iterable[str]]) -> list[str] | None:
    """Return the circle that would close if one run came to wait for another; None if there is none.

    Args:
        waiter: The run that is about to wait.
        target: The run that it is about to wait for.
        waiting_for: Returns the unfinished runs that wait for a run, as its parent or because they have joined it.

    Returns:
        Ids of runs, each of which waits for the next, from ``waiter`` by ``target`` to ``waiter`` again.
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
                circle = [waiter, target]
                while circle[-1] != waiter:
                    circle.append(waits[circle[-1]])
                return circle
    return None
