"""The store's rules for claims (priorities, delayed starts, groups, keys) and for workers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from signoff.errors import InvalidValue
from signoff.records import EntryKind, Group, MessageKind, NewRun, Rate, RunState, WorkerInfo
from signoff.stores.contract.leases import Claim, Write
from signoff.stores.contract.store import Change
from tests.stores.scene import (
    FAILURE,
    GROUP,
    KEPT_FAILURE,
    SUCCESS,
    WORKFLOW,
    Scene,
    entry,
    question,
    rule,
    until,
)


async def listen(scene: Scene) -> list[Change]:
    """Return a list that collects notifications from now on: the writer's thread may send them later."""
    heard: list[Change] = []
    await scene.listen(heard)
    return heard


def heard_of(run_id: str, heard: Sequence[Change]) -> bool:
    return any(run_id in change.runs for change in heard if change.runs is not None)


def is_told_of_ready(heard: Sequence[Change]) -> bool:
    return any(change.ready for change in list(heard) if change.runs is not None)


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
async def test_a_delayed_run_is_not_started_early_by_its_input(scene: Scene) -> None:
    await scene.start(start_at=1_000_060.0, deadline_at=1_000_090.0)
    assert await scene.store.signal("r", "go", "1")
    assert await scene.claim() == []
    assert await scene.store.due() == 1_000_060.0
    run = await scene.store.get_run("r")
    assert (run.state, run.wakes, run.wake_at) == (RunState.PAUSED, 1, 1_000_060.0)
    scene.clock.advance(60)
    await scene.store.due()
    [claim] = await scene.claim()
    assert [message.kind for message in claim.messages] == [MessageKind.SIGNAL]


@rule
async def test_a_delayed_run_ends_at_a_deadline_before_its_start(scene: Scene) -> None:
    await scene.start(start_at=1_000_060.0, deadline_at=1_000_030.0)
    assert await scene.store.due() == 1_000_030.0
    scene.clock.advance(30)
    assert await scene.store.due() is None
    run = await scene.store.get_run("r")
    assert (run.state, run.wake_at) == (RunState.FAILED, None)


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
    assert await scene.state() is RunState.READY, "its parent is notified"


@rule
async def test_the_id_of_a_delayed_run_finds_it_whatever_start_is_asked_for(scene: Scene) -> None:
    first = await scene.start(start_at=1_000_060.0, priority=1)
    assert await scene.start(start_at=None, priority=2) == first


@rule
async def test_a_delayed_run_notifies_timers_at_once_and_workers_at_its_start(
    scene: Scene,
) -> None:
    heard = await listen(scene)
    await scene.start(start_at=1_000_060.0)
    await until(lambda: heard_of("r", heard))
    assert [(change.due, change.ready) for change in heard if change.runs] == [(True, False)]
    heard.clear()
    scene.clock.advance(60)
    await scene.store.due()
    await until(lambda: heard_of("r", heard) and is_told_of_ready(heard))


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


# Groups that are paused


@rule
async def test_a_paused_group_gives_no_runs_until_it_is_resumed(scene: Scene) -> None:
    begun = await scene.run("begun")
    await scene.start("waits")
    await scene.start("elsewhere", group="gpu")
    await scene.store.pause_group(GROUP)
    assert await scene.claim() == []
    assert len(await scene.claim(group="gpu")) == 1
    await scene.append(begun)
    await scene.complete(begun)
    await scene.store.resume_group(GROUP)
    assert [claim.run.id for claim in await scene.claim()] == ["waits"]


@rule
async def test_a_paused_group_is_paused_in_its_namespace_only(scene: Scene) -> None:
    other = scene.within("acme")
    for each in (scene, other):
        await each.start()
    await scene.store.pause_group(GROUP)
    assert await scene.claim() == []
    assert len(await other.claim()) == 1
    assert [group.is_paused for group in await other.store.list_groups()] == [False]


@rule
async def test_a_group_can_be_paused_before_it_has_runs_and_keeps_its_limits(scene: Scene) -> None:
    await scene.store.limit_group("gpu", max_running=2, starts_per=Rate(5, 60.0))
    await scene.store.pause_group("gpu")
    await scene.store.pause_group("gpu")
    assert await scene.store.list_groups() == [Group("gpu", True, 2, Rate(5, 60.0))]
    await scene.store.limit_group("gpu")
    assert await scene.store.list_groups() == [Group("gpu", True)]
    await scene.store.resume_group("gpu")
    assert await scene.store.list_groups() == [Group("gpu")]


@rule
async def test_groups_are_listed_with_what_they_have(scene: Scene) -> None:
    await scene.paused("asleep")
    await scene.start("late", start_at=2_000_000.0)
    await scene.run("busy")
    for name in ("a", "b"):
        await scene.start(name)
    await scene.start("x", group="gpu")
    await scene.store.cancel("x")
    assert await scene.store.list_groups() == [
        Group(GROUP, ready=2, running=1, paused=2),
        Group("gpu"),
    ]


# Limits of what runs at once


@rule
async def test_a_group_runs_no_more_than_its_limit_at_once(scene: Scene) -> None:
    for number in range(5):
        await scene.start(f"r{number}")
    await scene.start("elsewhere", group="gpu")
    await scene.store.limit_group(GROUP, max_running=2)
    first, second = await scene.claim()
    assert await scene.claim(worker="other") == []
    assert len(await scene.claim(group="gpu")) == 1
    await scene.complete(first.run)
    assert await scene.pause(second.run, opens=[question(second.run.id)])
    assert [claim.run.id for claim in await scene.claim()] == ["r2", "r3"]
    await scene.store.limit_group(GROUP, max_running=3)
    assert [claim.run.id for claim in await scene.claim()] == ["r4"]
    await scene.store.limit_group(GROUP, max_running=1)
    await scene.settle("r1.0")
    assert await scene.claim() == []
    await scene.store.limit_group(GROUP)
    assert [claim.run.id for claim in await scene.claim()] == ["r1"]


@rule
async def test_racing_workers_never_run_more_than_the_limit(scene: Scene) -> None:
    for number in range(30):
        await scene.start(f"r{number}")
    await scene.store.limit_group(GROUP, max_running=10)
    batches = await asyncio.gather(*(scene.claim(worker=f"w{n}", limit=3) for n in range(12)))
    assert sum(len(batch) for batch in batches) == 10


FREEING: dict[str, Callable[[Scene], Awaitable[object]]] = {
    "pause": lambda scene: scene.store.pause(Write("r", 1, opens=[question("r")]), wakes=0, wake_at=None),
    "success": lambda scene: scene.store.complete(Write("r", 1), SUCCESS),
    "failure": lambda scene: scene.store.complete(Write("r", 1), FAILURE),
    "kept failure": lambda scene: scene.store.complete(Write("r", 1), KEPT_FAILURE),
    "release": lambda scene: scene.store.release("w"),
    "raised limit": lambda scene: scene.store.limit_group(GROUP, max_running=2),
}


@rule
@pytest.mark.parametrize("how", FREEING)
async def test_workers_are_notified_of_a_free_slot_of_a_limited_group(scene: Scene, how: str) -> None:
    await scene.run()
    heard = await listen(scene)
    await scene.store.limit_group(GROUP, max_running=1)
    await scene.start("waits")
    await until(lambda: heard_of("waits", heard))
    heard.clear()
    await scene.append(await scene.store.get_run("r"), entry(0))
    await until(lambda: heard_of("r", heard))
    assert not is_told_of_ready(heard)
    await FREEING[how](scene)
    await until(lambda: is_told_of_ready(heard))
    assert len(await scene.claim(worker="other")) == 1


@rule
async def test_a_lost_lease_frees_a_slot(scene: Scene) -> None:
    await scene.run()
    await scene.store.limit_group(GROUP, max_running=1)
    await scene.start("waits", priority=1)
    scene.lease_clock.advance(11)
    assert await scene.claim() == [], "until it is noticed"
    await scene.store.due()
    assert [claim.run.id for claim in await scene.claim()] == ["waits"]


@rule
async def test_workers_are_notified_of_a_resumed_group(scene: Scene) -> None:
    await scene.start()
    heard, elsewhere = await listen(scene), await listen(scene.within("acme"))
    await scene.store.pause_group(GROUP)
    await until(lambda: is_told_of_ready(heard))
    heard.clear()
    await scene.store.resume_group(GROUP)
    await until(lambda: is_told_of_ready(heard))
    assert not is_told_of_ready(elsewhere)


# Rates


@rule
async def test_a_rate_lets_so_many_start_at_once_and_then_one_after_the_other(scene: Scene) -> None:
    for number in range(8):
        await scene.start(f"r{number}")
    await scene.store.limit_group(GROUP, starts_per=Rate(3, 30.0))
    assert [claim.run.id for claim in await scene.claim()] == ["r0", "r1", "r2"]
    scene.clock.advance(9)
    assert await scene.claim() == []
    scene.clock.advance(1)
    assert [claim.run.id for claim in await scene.claim()] == ["r3"]
    assert await scene.claim() == []
    scene.clock.advance(20)
    assert [claim.run.id for claim in await scene.claim()] == ["r4", "r5"]
    scene.clock.advance(300)
    assert len(await scene.claim()) == 2, "what was not used is not saved up beyond the whole allowance"
    for number in range(8, 12):
        await scene.start(f"r{number}")
    assert len(await scene.claim()) == 1


@rule
async def test_a_rate_holds_back_only_runs_that_never_started(scene: Scene) -> None:
    await scene.paused("begun")
    await scene.store.limit_group(GROUP, starts_per=Rate(1, 60.0))
    for name in ("a", "b"):
        await scene.start(name, priority=1)
    await scene.settle("begun.0")
    assert [claim.run.id for claim in await scene.claim()] == ["a", "begun"]
    await scene.store.release("w")
    assert [claim.run.id for claim in await scene.claim()] == ["a", "begun"], "neither starts now"


@rule
async def test_a_claim_held_back_by_the_rate_reports_when_the_next_start_is_due(
    scene: Scene,
) -> None:
    await scene.store.limit_group(GROUP, starts_per=Rate(2, 60.0))
    for name in ("a", "b"):
        await scene.paused(name)
    assert await scene.store.due() is None, "no run waits to start"
    await scene.start("c")
    assert await scene.claim() == []
    assert await scene.store.due() == pytest.approx(1_000_030.0, abs=0.001)
    heard = await listen(scene)
    scene.clock.advance(30)
    assert await scene.store.due() is None, "it is said once"
    await until(lambda: is_told_of_ready(heard))
    assert [claim.run.id for claim in await scene.claim()] == ["c"]


@rule
async def test_a_held_back_claim_notifies_waiters_for_deadlines(scene: Scene) -> None:
    await scene.store.limit_group(GROUP, starts_per=Rate(1, 60.0))
    for name in ("a", "b"):
        await scene.start(name)
    heard = await listen(scene)
    await scene.claim()
    await until(lambda: any(change.due and heard_of("a", [change]) for change in heard))


@rule
async def test_a_claim_without_room_for_more_runs_is_not_held_back_by_the_rate(scene: Scene) -> None:
    await scene.store.limit_group(GROUP, max_running=1, starts_per=Rate(1, 60.0))
    for name in ("a", "b"):
        await scene.start(name)
    assert len(await scene.claim()) == 1
    assert await scene.claim() == []
    assert await scene.store.due() == 1_000_000.0 + 10.0, "only the lease"


@rule
async def test_a_new_rate_begins_with_its_whole_allowance(scene: Scene) -> None:
    for number in range(5):
        await scene.start(f"r{number}")
    await scene.store.limit_group(GROUP, starts_per=Rate(1, 3600.0))
    assert len(await scene.claim()) == 1
    await scene.store.limit_group(GROUP, starts_per=Rate(2, 60.0))
    assert len(await scene.claim()) == 2
    await scene.store.limit_group(GROUP)
    assert len(await scene.claim()) == 2
    assert await scene.store.due() == 1_000_010.0, "only the leases"


@rule
async def test_racing_workers_never_start_more_than_the_rate(scene: Scene) -> None:
    for number in range(30):
        await scene.start(f"r{number}")
    await scene.store.limit_group(GROUP, starts_per=Rate(10, 60.0))
    batches = await asyncio.gather(*(scene.claim(worker=f"w{n}", limit=3) for n in range(12)))
    assert sum(len(batch) for batch in batches) == 10


@rule
@pytest.mark.parametrize(
    "limits",
    [
        {"max_running": 0},
        {"max_running": -1},
        {"starts_per": Rate(0, 60.0)},
        {"starts_per": Rate(1, 0.0)},
        {"starts_per": Rate(1, float("nan"))},
        {"starts_per": Rate(1, float("inf"))},
        {"max_running": 2**31},
        {"starts_per": Rate(2**31, 60.0)},
    ],
)
async def test_limits_that_let_nothing_through_or_cannot_be_counted_are_refused(
    scene: Scene, limits: dict[str, object]
) -> None:
    with pytest.raises(InvalidValue):
        await scene.store.limit_group(GROUP, **limits)  # type: ignore[arg-type]
    assert await scene.store.list_groups() == []


# Concurrency keys


@rule
async def test_a_concurrency_limit_that_cannot_be_counted_is_refused(scene: Scene) -> None:
    with pytest.raises(InvalidValue):
        await scene.start("many", concurrency_key="k", concurrency_limit=2**31)
    await scene.start("most", concurrency_key="k", concurrency_limit=2**31 - 1)


@rule
async def test_of_one_key_no_more_than_its_limit_run_at_once(scene: Scene) -> None:
    for number in range(4):
        await scene.start(f"a{number}", concurrency_key="a", concurrency_limit=2)
        await scene.start(f"b{number}", concurrency_key="b", concurrency_limit=1)
    await scene.start("free")
    assert ids(await scene.claim()) == ["a0", "b0", "a1", "free"]
    assert ids(await scene.claim()) == []
    await scene.complete(await scene.store.get_run("a1"))
    assert ids(await scene.claim()) == ["a2"]
    await scene.pause(await scene.store.get_run("b0"), opens=[question("b0")])
    assert ids(await scene.claim()) == ["b1"]
    scene.clock.advance(1)
    await scene.settle("b0.0")
    assert ids(await scene.claim()) == []
    await scene.complete(await scene.store.get_run("b1"), KEPT_FAILURE)
    assert ids(await scene.claim()) == ["b2"], "what became ready first"
    run = await scene.store.get_run("b2")
    assert (run.concurrency_key, run.concurrency_limit) == ("b", 1)


def ids(claims: Sequence[Claim]) -> list[str]:
    return [claim.run.id for claim in claims]


@rule
async def test_a_key_is_of_its_namespace_group_and_workflow(scene: Scene) -> None:
    slot: dict[str, Any] = {"concurrency_key": "k", "concurrency_limit": 1}
    await scene.start("mine", **slot)
    await scene.start("other-workflow", workflow="deploy", **slot)
    await scene.start("other-group", group="gpu", **slot)
    await scene.within("acme").start("other-namespace", **slot)
    assert len(await scene.claim(workflows=[WORKFLOW, "deploy"])) == 2
    assert len(await scene.claim(group="gpu")) == 1
    assert len(await scene.within("acme").claim()) == 1


@rule
async def test_what_a_key_holds_back_is_not_in_the_way_of_others(scene: Scene) -> None:
    for number in range(30):
        await scene.start(f"k{number:02}", concurrency_key="k", concurrency_limit=1, priority=number % 3)
    await scene.start("last", priority=-1)
    assert ids(await scene.claim(limit=2)) == ["k02", "last"]
    for done, following in (("k02", "k05"), ("k05", "k08"), ("k08", "k11")):
        await scene.complete(await scene.store.get_run(done))
        assert ids(await scene.claim(limit=2)) == [following]


@rule
async def test_a_higher_priority_that_comes_later_gets_the_slot(scene: Scene) -> None:
    await scene.run("first", concurrency_key="k", concurrency_limit=1)
    await scene.start("usual", concurrency_key="k", concurrency_limit=1)
    await scene.complete(await scene.store.get_run("first"))
    await scene.start("urgent", concurrency_key="k", concurrency_limit=1, priority=1)
    assert ids(await scene.claim()) == ["urgent"]
    await scene.complete(await scene.store.get_run("urgent"))
    assert ids(await scene.claim()) == ["usual"]


@rule
async def test_a_cancelled_run_leaves_its_place_to_the_next_of_its_key(scene: Scene) -> None:
    for name in ("a", "b", "c"):
        await scene.start(name, concurrency_key="k", concurrency_limit=1)
    await scene.store.cancel("a")
    await scene.store.cancel("c")
    assert ids(await scene.claim()) == ["b"]


@rule
async def test_a_lost_lease_frees_the_slot_of_a_key(scene: Scene) -> None:
    for name in ("a", "b"):
        await scene.start(name, concurrency_key="k", concurrency_limit=1)
    await scene.claim()
    scene.lease_clock.advance(11)
    await scene.store.due()
    scene.clock.advance(1)
    assert ids(await scene.claim(worker="other")) == ["a"] or await scene.state("b") is RunState.RUNNING
    assert ids(await scene.claim(worker="other")) == []


@rule
async def test_racing_workers_never_run_more_than_a_key_allows(scene: Scene) -> None:
    for number in range(30):
        await scene.start(f"r{number}", concurrency_key="k", concurrency_limit=4)
    batches = await asyncio.gather(*(scene.claim(worker=f"w{n}", limit=3) for n in range(12)))
    assert sum(len(batch) for batch in batches) == 4


@rule
@pytest.mark.parametrize("how", [how for how in FREEING if how != "raised limit"])
async def test_workers_are_notified_of_a_free_slot_of_a_key(scene: Scene, how: str) -> None:
    heard = await listen(scene)
    await scene.run(concurrency_key="k", concurrency_limit=1)
    await scene.start("waits", concurrency_key="k", concurrency_limit=1, priority=1)
    await until(lambda: heard_of("waits", heard))
    heard.clear()
    assert await scene.claim(worker="other") == []
    await FREEING[how](scene)
    await until(lambda: is_told_of_ready(heard))
    assert ids(await scene.claim(worker="other"))[0] == "waits"


@rule
async def test_runs_of_one_key_may_have_several_limits(scene: Scene) -> None:
    for name, limit in (("a", 3), ("b", 1), ("c", 2), ("d", 3)):
        await scene.start(name, concurrency_key="k", concurrency_limit=limit)
    assert ids(await scene.claim()) == ["a", "c", "d"]
    for name in ("a", "c"):
        await scene.complete(await scene.store.get_run(name))
        assert ids(await scene.claim()) == []
    await scene.complete(await scene.store.get_run("d"))
    assert ids(await scene.claim()) == ["b"]


@rule
async def test_many_delayed_runs_of_one_key_start_one_after_the_other(scene: Scene) -> None:
    for number in range(5):
        await scene.start(f"r{number}", concurrency_key="k", concurrency_limit=1, start_at=1_000_060.0)
    assert await scene.claim() == []
    scene.clock.advance(60)
    await scene.store.due()
    for number in range(5):
        assert ids(await scene.claim()) == [f"r{number}"]
        await scene.complete(await scene.store.get_run(f"r{number}"))


@rule
async def test_a_key_and_a_rate_hold_back_together(scene: Scene) -> None:
    await scene.store.limit_group(GROUP, starts_per=Rate(2, 60.0))
    for name in ("a", "b", "c"):
        await scene.start(name, concurrency_key="k", concurrency_limit=1)
    assert ids(await scene.claim()) == ["a"]
    assert await scene.store.due() == 1_000_010.0, "only the lease: no rate holds b back"
    for name in ("x", "y"):
        await scene.start(name)
    assert ids(await scene.claim()) == ["x"]
    assert await scene.claim() == []


@rule
async def test_a_message_for_a_ready_run_does_not_cost_it_its_place(scene: Scene) -> None:
    for name in ("first", "second"):
        await scene.start(name, concurrency_key="k", concurrency_limit=1)
        scene.clock.advance(1)
    assert ids(await scene.claim()) == ["first"]
    await scene.store.release("w")
    scene.clock.advance(1)
    await scene.store.signal("second", "go", "1")
    assert ids(await scene.claim()) == ["second"], "first became ready after it"
    await scene.complete(await scene.store.get_run("second"))
    assert ids(await scene.claim()) == ["first"]


@rule
async def test_a_key_and_a_limit_go_together(scene: Scene) -> None:
    for half in ({"concurrency_key": "k"}, {"concurrency_limit": 1}):
        with pytest.raises(InvalidValue, match="limit together, or neither"):
            await scene.start(**half)
    assert await scene.listed() == []


# The register of workers


@rule
async def test_the_register_knows_who_was_last_heard_of_when_and_what_they_hold(scene: Scene) -> None:
    worker = WorkerInfo("w", "host", 10, 1.5, GROUP)
    await scene.store.enlist(worker)
    for name in ("a", "b"):
        await scene.start(name)
    await scene.claim(limit=1)
    await scene.within("acme").start()
    await scene.within("acme").claim()
    assert await scene.store.list_workers() == [replace(worker, seen_at=5_000.0, held=2)]
    scene.lease_clock.advance(5)
    await scene.store.enlist(replace(worker, seen_at=1.0, held=99))
    await scene.complete(await scene.store.get_run("a"))
    assert await scene.store.list_workers() == [replace(worker, seen_at=5_005.0, held=1)]


@rule
async def test_a_worker_that_is_silent_for_long_is_forgotten(scene: Scene) -> None:
    for name in ("silent", "lively"):
        await scene.store.enlist(WorkerInfo(name, "elsewhere", 10, 1.5, GROUP))
    assert await scene.store.due() == 1_000_060.0
    scene.lease_clock.advance(59)
    await scene.store.enlist(WorkerInfo("lively", "elsewhere", 10, 1.5, GROUP))
    assert await scene.store.due() == 1_000_001.0
    assert len(await scene.store.list_workers()) == 2
    scene.lease_clock.advance(1)
    assert await scene.store.due() == 1_000_059.0
    assert [worker.id for worker in await scene.store.list_workers()] == ["lively"]
