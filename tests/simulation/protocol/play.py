"""One seed of a world of the protocol: servers, SDK processes, workers, callers and programs, played and checked."""

from __future__ import annotations

import random
from collections.abc import Callable
from unittest import mock

from signoff.observability import events
from signoff.records.tasks import TaskState
from signoff.testing import MemoryStore
from signoff.testing.simulation import Faults, World
from tests.simulation.played import CALM_AT, LAST_SECOND, Played
from tests.simulation.protocol.callers import Callers
from tests.simulation.protocol.network import Network
from tests.simulation.protocol.oracle import Oracle, is_stuck
from tests.simulation.protocol.programs import GROUPS, Author, new_registry
from tests.simulation.protocol.sdk import Settings, sdk_of
from tests.simulation.protocol.server import server_of


def play_protocol(
    seed: int, *, faults: Faults | None = None, store: Callable[..., MemoryStore] = MemoryStore
) -> Played:
    """Play a seed.

    Args:
        seed: Decides everything.
        faults: What goes wrong, instead of what the seed says.
        store: Makes the store; mutants of it must be found.
    """
    source = random.Random(f"play protocol {seed}")
    drawn = Faults.drawn(source)
    faults = drawn if faults is None else faults
    punctual = 0.1 if faults == Faults() else 5.0
    world = World(seed, faults=faults, calm_at=CALM_AT, punctual_seconds=punctual, store=store)
    author, network = Author(source), Network(world)
    roots = {
        f"r{number}": author.program(source.choice((2, 4, 6))) for number in range(source.choice((1, 1, 2)))
    }
    run_by_sdk = {id for id in roots if source.random() < 0.3}
    callers = Callers(world, network, source, roots, run_by_sdk, has_schedule=source.random() < 0.1)
    world.start_process("callers", callers.main)
    for number in range(source.choice((1, 1, 2))):
        world.add_service(f"server{number}", server_of(network))
    names_stay, ttl = source.random() < 0.5, source.choice((2_000, 5_000))
    for number, group in enumerate((*GROUPS, *source.choice(((), (GROUPS[0],), (GROUPS[0], GROUPS[1]))))):
        name = f"sdk{number}"
        calls = [(id, program) for id, program in roots.items() if number == 0 and id in run_by_sdk]
        settings = Settings(group, name if names_stay else None, ttl, calls)
        world.add_service(name, sdk_of(network, author.programs, settings))
    if author.calls_signoff:
        world.add_worker("w0", new_registry(), look_seconds=2.0, beat_seconds=1.5)

    def is_over() -> bool:
        tables = world.store.model.tables
        return (
            callers.busy == 0
            and all(("default", id) in tables.promises for id in roots)
            and not any(is_stuck(promise) for promise in tables.promises.values())
            and all(task.state is TaskState.FULFILLED for task in tables.tasks.values())
            and all(run.state.is_final for run in tables.runs.values())
        )

    with mock.patch.object(
        events, "subscribers", ()
    ):  # for one that hears of answers, more is read of the store
        world.run(is_over, limit=LAST_SECOND)
    seconds = world.now
    if callers.busy and not world.problems:
        world.blame(f"{callers.busy} callers still wait")
    world.end()
    world.observer.check_end()
    callers.check()
    Oracle(world, author.programs, callers.settled_from_outside).check()
    return Played.of(seed, faults, world, seconds)
