"""The store's rules for schedules of promises."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from signoff.errors import NotFound
from signoff.records.promise_schedules import NewPromiseSchedule, PromiseSchedule
from signoff.stores.contract.promise_schedules import MOST_LISTED
from tests.stores.scene import Scene, rule

START = 1_000_000.0
NEW = NewPromiseSchedule("s", "0 9 * * *", '{"promiseId": "p"}', START + 60)


@rule
async def test_a_schedule_of_promises_is_as_it_was_put(scene: Scene) -> None:
    found = await scene.store.put_promise_schedule(NEW)
    assert found == PromiseSchedule("default", "s", NEW.cron, NEW.data, NEW.next_at, START)
    assert found == await scene.store.get_promise_schedule("s")


@rule
async def test_putting_a_schedule_of_promises_again_returns_the_first(scene: Scene) -> None:
    first = await scene.store.put_promise_schedule(NEW)
    assert await scene.store.put_promise_schedule(replace(NEW, cron="* * * * *", next_at=1.0)) == first


@rule
async def test_a_deleted_schedule_of_promises_is_gone(scene: Scene) -> None:
    await scene.store.put_promise_schedule(NEW)
    await scene.store.delete_promise_schedule("s")
    for gone in (scene.store.get_promise_schedule("s"), scene.store.delete_promise_schedule("s")):
        with pytest.raises(NotFound):
            await gone
    assert not await scene.store.advance_promise_schedule("s", NEW.next_at, START + 120, START + 60)


@rule
async def test_schedules_of_promises_are_listed_by_id_in_bounded_pages(scene: Scene) -> None:
    ids = [f"s{number:03}" for number in range(MOST_LISTED + 2)]
    await asyncio.gather(*(scene.store.put_promise_schedule(replace(NEW, id=id)) for id in reversed(ids)))
    first = await scene.store.list_promise_schedules(limit=1000)
    rest = await scene.store.list_promise_schedules(after=first.next, limit=1000)
    assert [each.id for each in (*first.items, *rest.items)] == ids
    assert (len(first.items), first.next, rest.next) == (MOST_LISTED, first.items[-1].id, None)


@rule
async def test_due_schedules_of_promises_are_those_of_all_namespaces(scene: Scene) -> None:
    await scene.store.within("other").put_promise_schedule(replace(NEW, id="o", next_at=START - 1))
    await scene.store.put_promise_schedule(NEW)
    due, earliest = await scene.store.due_promise_schedules(10)
    assert ([(each.namespace, each.id, each.at) for each in due], earliest) == (
        [("other", "o", START - 1)],
        START - 1,
    )


@rule
async def test_a_schedule_of_promises_advances_once_from_each_time(scene: Scene) -> None:
    await scene.store.put_promise_schedule(NEW)
    advance = scene.store.advance_promise_schedule
    moves = [advance("s", NEW.next_at, START + 120, NEW.next_at) for _ in range(3)]
    assert sorted(await asyncio.gather(*moves)) == [False, False, True]
    found = await scene.store.get_promise_schedule("s")
    assert (found.next_at, found.last_at) == (START + 120, NEW.next_at)
