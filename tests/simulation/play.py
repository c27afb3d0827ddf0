"""One seed: a world, workers, a crowd and their programs, played to the end and checked."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from unittest import mock

from signoff.observability import events
from signoff.testing import MemoryStore
from signoff.testing.simulation import Faults, World
from tests.simulation.crowd import Crowd
from tests.simulation.oracle import Oracle
from tests.simulation.played import CALM_AT, LAST_SECOND, Played
from tests.simulation.programs import Author, new_registry
from tests.simulation.protocol.play import play_protocol

PROTOCOL_EVERY = 5  # one of so many seeds is a world of the durable promise protocol


def play(
    seed: int, *, faults: Faults | None = None, store: Callable[..., MemoryStore] = MemoryStore
) -> Played:
    """Play a seed: it decides everything, also the kind of world.

    Args:
        seed: The seed.
        faults: What goes wrong, instead of what the seed says.
        store: Makes the store.
    """
    playing = play_protocol if seed % PROTOCOL_EVERY == 3 else play_workflows
    return playing(seed, faults=faults, store=store)


def play_workflows(
    seed: int,
    *,
    faults: Faults | None = None,
    store: Callable[..., MemoryStore] = MemoryStore,
) -> Played:
    """Play a seed of workers and workflows.

    Args:
        seed: Decides everything.
        faults: What goes wrong, instead of what the seed says.
        store: Makes the store; mutants of it must be found.
    """
    source = random.Random(f"play {seed}")
    drawn = Faults.drawn(source)
    faults = drawn if faults is None else faults
    world = World(
        seed, faults=faults, calm_at=CALM_AT, punctual_seconds=0.1 if faults == Faults() else 5.0, store=store
    )
    author = Author(source)
    roots = [author.program(size=source.choice((2, 4, 8))).name for _ in range(source.choice((1, 1, 2, 3)))]
    registry = new_registry(author.programs)
    options: dict[str, Any] = {
        "look_seconds": source.choice((1.0, 2.0, 4.0)),
        "beat_seconds": 1.5,
        "hot_runs": source.choice((0, 1, 100)),
        "concurrency": source.choice((1, 3, 100)),
    }
    hosts = source.choice((("h0", "h0", "h1"), ("h0", "h1", "h2")))
    for number in range(source.choice((1, 2, 2, 3))):
        world.add_worker(f"w{number}", registry, host=hosts[number], **options)
    crowd = Crowd(world, source, author.programs, roots)
    world.start_process("crowd", crowd.main)

    def is_over() -> bool:
        runs = world.store.model.tables.runs
        return (
            crowd.busy == 0 and len(runs) >= len(roots) and all(run.state.is_final for run in runs.values())
        )

    with mock.patch.object(
        events, "subscribers", ()
    ):  # for one that hears of answers, more is read of the store
        world.run(is_over, limit=LAST_SECOND)
    seconds = world.now
    if crowd.busy and not world.problems:
        world.blame(f"{crowd.busy} people still wait")
    world.end()
    world.observer.check_end()
    crowd.check()
    Oracle(world, registry, author.programs, crowd.cancelled).check()
    return Played.of(seed, faults, world, seconds)
