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
from tests.simulation.protocol.legacy_sdk import legacy_sdk_of
from tests.simulation.protocol.network import Network
from tests.simulation.protocol.oracle import Oracle, check_repeated, is_stuck
from tests.simulation.protocol.programs import GROUPS, LEGACY_GROUP, Author, new_registry
from tests.simulation.protocol.scene import Scene
from tests.simulation.protocol.sdk import Setting, Settings, sdk_of
from tests.simulation.protocol.server import server_of

AFTER_SCHEDULE = 50.0  # seconds; schedules fire at 40


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
    scene = Scene.drawn(source)
    calm_at = CALM_AT if scene.schedule is None else AFTER_SCHEDULE
    punctual = 0.1 if faults == Faults() else 5.0
    world = World(seed, faults=faults, calm_at=calm_at, punctual_seconds=punctual, store=store)
    network = Network(world)
    author = Author(source, scene.groups, calls_back=scene.calls_back)
    roots = {
        f"r{number}": author.program(source.choice((2, 4, 6))) for number in range(source.choice((1, 1, 2)))
    }
    run_by_sdk = {id for id in roots if source.random() < 0.3}
    run_by_client = {id for id in roots if id not in run_by_sdk and source.random() < scene.run_by_client}
    hearing = source.choice(scene.hearings)(network)
    callers = Callers(
        world, network, source, roots, scene.groups, run_by_sdk, run_by_client, hearing, scene.schedule
    )
    world.start_process("callers", callers.main)
    for number in range(source.choice((1, 1, 2))):
        world.add_service(f"server{number}", server_of(network, scene))
    names_stay, ttl = source.random() < 0.5, source.choice((2_000, 5_000))
    setting = Setting(network, author.programs)
    others = source.choice(((), (GROUPS[0],), (scene.groups[-1],), (GROUPS[0], scene.groups[-1])))
    for number, group in enumerate((*scene.groups, *(each for each in others if "://" not in each))):
        name = f"sdk{number}"
        is_legacy = group == LEGACY_GROUP
        calls = [(id, program) for id, program in roots.items() if number == 0 and id in run_by_sdk]
        late = source.random() < 0.2 and {
            name: source.random() * CALM_AT for name in author.programs if source.random() < 0.5
        }
        pid = name if names_stay and not is_legacy else None
        settings = Settings(group, pid, ttl, calls, late or {})
        world.add_service(name, (legacy_sdk_of if is_legacy else sdk_of)(setting, settings))
    if author.calls_signoff:
        world.add_worker("w0", new_registry(), look_seconds=2.0, beat_seconds=1.5)

    def is_over() -> bool:
        tables = world.store.model.tables
        return (
            callers.busy == 0
            and all(("default", id) in tables.promises for id in roots if id not in run_by_client)
            and all(("default", id) in tables.runs for id in run_by_client)
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
    check_repeated(world, setting.steps, callers)
    return Played.of(seed, faults, world, seconds)
