"""The store's rules for schedules."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from signoff.errors import NotFound
from signoff.records import CatchUp, NewRun, NewSchedule, RunState
from signoff.stores.contract.store import Change
from tests.stores.scene import GROUP, WORKFLOW, Scene, rule, until

NEW = NewSchedule(
    "s", WORKFLOW, GROUP, '{"args": [1]}', "0 9 * * *", "Europe/Berlin", CatchUp.ALL, 1_000_060.0, 3, "k", 2
)
RUN = NewRun("s:1", WORKFLOW, GROUP, "{}")


@rule
async def test_a_schedule_is_as_it_was_put(scene: Scene) -> None:
    found = await scene.store.put_schedule(NEW)
    assert found == await scene.store.get_schedule("s")
    assert (found.namespace, found.created_at, found.is_paused, found.last_at) == (
        "default",
        1_000_000.0,
        False,
        None,
    )
    assert {field: getattr(found, field) for field in NewSchedule.__dataclass_fields__} == {
        field: getattr(NEW, field) for field in NewSchedule.__dataclass_fields__
    }


@rule
async def test_putting_a_schedule_again_keeps_its_next_time_unless_times_changed(
    scene: Scene,
) -> None:
    await scene.store.put_schedule(NEW)
    await scene.store.pause_schedule("s")
    scene.clock.advance(1)
    changed = await scene.store.put_schedule(replace(NEW, workflow="deploy", next_at=5.0))
    assert (changed.workflow, changed.next_at, changed.is_paused) == ("deploy", 1_000_060.0, True)
    assert changed.created_at == 1_000_000.0
    for other in (replace(NEW, cron="1 9 * * *"), replace(NEW, timezone="UTC")):
        assert (await scene.store.put_schedule(replace(other, next_at=5.0))).next_at == 5.0
        await scene.store.put_schedule(NEW)


@rule
async def test_an_unknown_schedule_is_not_found(scene: Scene) -> None:
    await scene.within("acme").store.put_schedule(NEW)
    store = scene.store
    for attempt in (
        store.get_schedule("s"),
        store.pause_schedule("s"),
        store.resume_schedule("s", 1.0),
        store.delete_schedule("s"),
    ):
        with pytest.raises(NotFound):
            await attempt
    assert not await store.fire_schedule("s", 1_000_060.0, [RUN], 2_000_000.0)
    assert await scene.listed() == []


@rule
async def test_schedules_are_listed_by_id_in_pages(scene: Scene) -> None:
    for name in ("c", "a", "b"):
        await scene.store.put_schedule(replace(NEW, id=name))
    first = await scene.store.list_schedules(limit=2)
    assert [each.id for each in first.items] == ["a", "b"]
    second = await scene.store.list_schedules(after=first.next, limit=2)
    assert ([each.id for each in second.items], second.next) == (["c"], None)
    await scene.store.delete_schedule("b")
    assert [each.id for each in (await scene.store.list_schedules()).items] == ["a", "c"]


@rule
async def test_schedules_are_due_at_their_time_in_every_namespace(scene: Scene) -> None:
    assert await scene.store.due_schedules(10) == ([], None)
    await scene.store.put_schedule(NEW)
    await scene.within("acme").store.put_schedule(replace(NEW, next_at=1_000_030.0))
    assert await scene.store.due_schedules(10) == ([], 1_000_030.0)
    scene.clock.advance(60)
    due, next_at = await scene.store.due_schedules(10)
    assert ([(each.namespace, each.id) for each in due], next_at) == (
        [("acme", "s"), ("default", "s")],
        1_000_030.0,
    )
    assert len((await scene.store.due_schedules(1))[0]) == 1
    await scene.within("acme").store.pause_schedule("s")
    due, next_at = await scene.store.due_schedules(10)
    assert ([each.namespace for each in due], next_at) == (["default"], 1_000_060.0)


@rule
async def test_a_time_fires_once_and_its_runs_are_created_with_it(scene: Scene) -> None:
    await scene.store.put_schedule(NEW)
    runs = [RUN, replace(RUN, id="s:2", priority=3)]
    fired = await asyncio.gather(
        *(scene.store.fire_schedule("s", 1_000_060.0, runs, 1_000_120.0) for _ in range(5))
    )
    assert sorted(fired) == [False] * 4 + [True]
    assert sorted(await scene.listed()) == ["s:1", "s:2"]
    found = await scene.store.get_schedule("s")
    assert (found.next_at, found.last_at, found.last_run_id) == (1_000_120.0, 1_000_000.0, "s:2")
    assert len(await scene.claim()) == 2


@rule
async def test_a_time_without_runs_only_passes(scene: Scene) -> None:
    await scene.store.put_schedule(NEW)
    assert await scene.store.fire_schedule("s", 1_000_060.0, [], 1_000_120.0)
    found = await scene.store.get_schedule("s")
    assert (found.next_at, found.last_at, found.last_run_id) == (1_000_120.0, None, None)


@rule
async def test_a_run_whose_id_is_taken_is_left_as_it_is(scene: Scene) -> None:
    await scene.start("s:1", workflow="other")
    await scene.store.put_schedule(NEW)
    assert await scene.store.fire_schedule("s", 1_000_060.0, [RUN, replace(RUN, id="s:2")], 1_000_120.0)
    assert (await scene.store.get_run("s:1")).workflow == "other"
    assert await scene.state("s:2") is RunState.READY


@rule
async def test_a_paused_schedule_fires_nothing_until_it_is_resumed(scene: Scene) -> None:
    await scene.store.put_schedule(NEW)
    await scene.store.pause_schedule("s")
    assert not await scene.store.fire_schedule("s", 1_000_060.0, [RUN], 1_000_120.0)
    assert await scene.store.due_schedules(10) == ([], None)
    assert (await scene.store.resume_schedule("s", 1_000_090.0)).next_at == 1_000_090.0
    assert (await scene.store.resume_schedule("s", 1_000_099.0)).next_at == 1_000_090.0, "it was not paused"
    assert await scene.store.fire_schedule("s", 1_000_090.0, [RUN], 1_000_120.0)


@rule
async def test_waiters_for_deadlines_are_notified_of_new_times(scene: Scene) -> None:
    heard: list[Change] = []
    scene.store.listen(heard.append)

    async def tells(work: object) -> None:
        heard.clear()
        await work  # type: ignore[misc]
        await until(lambda: any(change.due for change in heard if change.runs is not None))

    await tells(scene.store.put_schedule(NEW))
    await tells(scene.store.fire_schedule("s", 1_000_060.0, [], 1_000_120.0))
    await scene.store.pause_schedule("s")
    await tells(scene.store.resume_schedule("s", 1_000_090.0))
