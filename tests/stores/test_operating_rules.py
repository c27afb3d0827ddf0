"""The rules of the store contract about which run is claimed when: priorities and delayed starts."""

from __future__ import annotations

from signoff.records import EntryKind, MessageKind, NewRun, RunState
from signoff.stores.base import Change, Write
from tests.stores.scene import GROUP, WORKFLOW, Scene, question, rule

# Priorities


@rule
async def test_a_higher_priority_is_claimed_first_and_of_one_priority_the_oldest(scene: Scene) -> None:
    for name, priority in (("a", 0), ("b", 7), ("c", -1), ("d", 7), ("e", 0)):
        await scene.start(name, priority=priority)
        scene.clock.advance(1)
    claims = await scene.claim(limit=3)
    assert [(claim.run.id, claim.run.priority) for claim in claims] == [("b", 7), ("d", 7), ("a", 0)]
    assert [claim.run.id for claim in await scene.claim()] == ["e", "c"]


@rule
async def test_a_priority_counts_across_workflows(scene: Scene) -> None:
    for number in range(6):
        await scene.start(f"r{number}", workflow=f"w{number % 3}", priority=number % 2)
    claims = await scene.claim(workflows=["w0", "w1", "w2"], limit=4)
    assert [claim.run.id for claim in claims] == ["r1", "r3", "r5", "r0"]


@rule
async def test_a_run_keeps_its_priority_after_a_pause(scene: Scene) -> None:
    await scene.paused("urgent", priority=1)
    await scene.start("usual")
    scene.clock.advance(1)
    await scene.settle("urgent.0")
    assert [claim.run.id for claim in await scene.claim()] == ["urgent", "usual"]


# Delayed starts


@rule
async def test_a_delayed_run_starts_at_its_time(scene: Scene) -> None:
    run = await scene.start(start_at=1_000_060.0)
    assert (run.state, run.epoch, run.start_at, run.wake_at) == (
        RunState.PAUSED,
        0,
        1_000_060.0,
        1_000_060.0,
    )
    assert await scene.store.due() == 1_000_060.0
    scene.clock.advance(59)
    await scene.store.due()
    assert await scene.claim() == []
    scene.clock.advance(1)
    assert await scene.store.due() is None
    [claim] = await scene.claim()
    assert (claim.run.id, claim.run.epoch, claim.run.wake_at) == ("r", 1, None)


@rule
async def test_a_start_in_the_past_is_a_start_now(scene: Scene) -> None:
    for name, start_at in (("now", 1_000_000.0), ("past", 5.0)):
        assert (await scene.start(name, start_at=start_at)).state is RunState.READY
    assert await scene.store.due() is None
    assert len(await scene.claim()) == 2


@rule
async def test_a_delayed_run_is_not_started_early_by_what_comes_for_it(scene: Scene) -> None:
    await scene.start(start_at=1_000_060.0, deadline_at=1_000_030.0)
    assert await scene.store.signal("r", "go", "1")
    assert await scene.claim() == []
    assert await scene.store.due() == 1_000_030.0
    scene.clock.advance(30)
    assert await scene.store.due() == 1_000_060.0
    run = await scene.store.get_run("r")
    assert (run.state, run.wakes, run.wake_at) == (RunState.PAUSED, 2, 1_000_060.0)
    scene.clock.advance(30)
    await scene.store.due()
    [claim] = await scene.claim()
    assert [message.kind for message in claim.messages] == [MessageKind.SIGNAL, MessageKind.DEADLINE]


@rule
async def test_a_delayed_run_is_cancelled_at_once(scene: Scene) -> None:
    run = await scene.store.cancel((await scene.start(start_at=1_000_060.0)).id)
    assert (run.state, run.wake_at) == (RunState.CANCELLED, None)
    assert await scene.journal() == [EntryKind.CANCELLED]
    assert await scene.store.due() is None
    scene.clock.advance(60)
    await scene.store.due()
    assert await scene.claim() == []


@rule
async def test_a_child_can_be_delayed_and_be_of_its_own_priority(scene: Scene) -> None:
    parent = await scene.run()
    child = NewRun("c", WORKFLOW, GROUP, "{}", "r", 0, priority=3, start_at=1_000_060.0)
    assert await scene.pause(parent, starts=[child])
    found = await scene.store.get_run("c")
    assert (found.state, found.priority, found.start_at) == (RunState.PAUSED, 3, 1_000_060.0)
    assert await scene.claim() == []
    await scene.store.cancel("c")
    assert await scene.state() is RunState.READY, "its parent is told"


@rule
async def test_the_id_of_a_delayed_run_finds_it_whatever_start_is_asked_for(scene: Scene) -> None:
    first = await scene.start(start_at=1_000_060.0, priority=1)
    assert await scene.start(start_at=None, priority=2) == first


@rule
async def test_those_who_wait_for_deadlines_are_told_of_a_delayed_run_and_workers_when_it_may_start(
    scene: Scene,
) -> None:
    heard: list[Change] = []
    scene.store.listen(heard.append)
    await scene.start(start_at=1_000_060.0)
    assert [(change.due, change.ready) for change in heard if change.runs] == [(True, False)]
    heard.clear()
    scene.clock.advance(60)
    await scene.store.due()
    assert any(change.ready for change in heard if change.runs == frozenset({"r"}))


@rule
async def test_a_run_that_was_paused_before_is_no_delayed_one(scene: Scene) -> None:
    """It has a wake_at and a start_at, too."""
    await scene.start(start_at=1_000_001.0)
    scene.clock.advance(1)
    await scene.store.due()
    [claim] = await scene.claim()
    write = Write("r", 1, opens=[question("r")])
    assert await scene.store.pause(write, wakes=claim.run.wakes, wake_at=1_000_099.0)
    await scene.settle("r.0")
    assert await scene.state() is RunState.READY
