"""What there is in a world of the protocol, besides servers and processes that speak today's protocol."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.simulation.protocol.hearing import Hearing, Polling, Posts, Subscriptions
from tests.simulation.protocol.network import LEGACY, TODAY, Network
from tests.simulation.protocol.posts import FUNCTIONS
from tests.simulation.protocol.programs import GROUPS, LEGACY_GROUP


@dataclass(frozen=True)
class Scene:
    """The parts of a world.

    Attributes:
        groups: The groups of processes, and the URL of functions.
        hearings: The ways in which callers may learn of results.
        calls_back: Whether workflows call functions.
        run_by_client: The part of the roots that are runs of a group.
        schedule: The protocol that makes a schedule, if there is one.
    """

    groups: Sequence[str]
    hearings: Sequence[Callable[[Network], Hearing]]
    calls_back: bool
    run_by_client: float
    schedule: str | None

    @classmethod
    def drawn(cls, source: random.Random) -> Scene:
        """Draw a scene: a few parts at a time find more violations than all at once."""
        second = source.choice((GROUPS[1], GROUPS[1], FUNCTIONS, LEGACY_GROUP))
        has_legacy, has_runs = second == LEGACY_GROUP, source.random() < 0.3
        heard_of = {FUNCTIONS: (Polling, Posts), LEGACY_GROUP: (Polling, Subscriptions)}
        protocols = (TODAY, LEGACY) if has_legacy else (TODAY,)
        schedule = source.choice(protocols) if source.random() < 0.1 else None
        hearings = heard_of.get(second, (Polling,))
        return cls((GROUPS[0], second), hearings, has_runs, 0.5 if has_runs else 0.0, schedule)
