"""A deadline, timer or lease that the database refuses to fire stops no other, in any namespace."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from signoff.engine.timers.schedules import fire_due
from signoff.engine.timers.schedules import new_failed_items as new_schedules_aside
from signoff.records import NewPromise
from signoff.stores.contract.workers import FORGET_SECONDS
from tests.attacks.bad_jobs import NEW
from tests.attacks.bad_timers import DUE, ITEMS, _promise, _promise_fired, advance, failing
from tests.attacks.damage import DATABASES, damaged
from tests.stores.scene import KEPT_FAILURE
from tests.support import in_asyncio


@pytest.mark.parametrize("item", ITEMS)
@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_an_item_that_the_database_refuses_keeps_no_other_from_firing(
    tmp_path: Path, database: str, item: str
) -> None:
    make, has_fired, table = ITEMS[item]
    job = item.split()[0]
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        evil, zoo = scene.within("evil"), scene.within("zoo")
        await make(evil)
        await make(zoo)
        is_delete = item == "worker"
        damage.refuse(table, on="DELETE" if is_delete else "UPDATE", row="OLD" if is_delete else "NEW")
        advance(scene, 9.0 if item == "rate" else FORGET_SECONDS + 10)
        next_at = await scene.store.due()
        assert await has_fired(zoo)
        assert not await has_fired(evil)
        assert list(failing(damage)) == [job]
        assert next_at is not None
        assert next_at > scene.clock.now(), "or the loop of timers would spin"

        # It is left alone until its back-off is over; others fire meanwhile.
        later = scene.within("later")
        await _promise(later)
        await scene.store.due()
        assert await _promise_fired(later)
        damage.allow(table)
        advance(scene, 2.0)
        next_at = await scene.store.due()
        assert await has_fired(evil)
        assert failing(damage) == {}
        assert next_at is None or next_at > scene.clock.now()


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_an_existing_message_keeps_no_other_promise_from_timing_out(
    tmp_path: Path, database: str
) -> None:
    """A run's counter of messages was set back, as by a table restored from an older copy."""
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        for name in ("evil", "zoo"):
            within = scene.within(name)
            await within.paused("r")
            await within.store.signal("r", "go", "1")
            [claim] = await within.claim()
            assert await within.pause(claim.run, opens=[NewPromise("r.1", run_id="r", n=1, due_at=DUE)])
        damage.run(
            "UPDATE runs SET wakes = 0 WHERE namespace = 'evil'",
            "UPDATE signoff.runs SET wakes = 0 WHERE namespace = 'evil'",
        )
        advance(scene, 11)
        await scene.store.due()
        assert await _promise_fired(scene.within("zoo"), "r.1")
        assert not await _promise_fired(scene.within("evil"), "r.1")
        assert failing(damage) == {"promise": ["evil/r.1"]}
        assert len(await scene.within("evil").messages()) == 1, "nothing of the failed one is left"


@in_asyncio
async def test_a_promise_that_cannot_be_read_keeps_no_other_from_timing_out(tmp_path: Path) -> None:
    async with damaged("sqlite", tmp_path) as damage:
        scene = damage.scene
        for name in ("evil", "zoo"):
            await _promise(scene.within(name))
        damage.run("UPDATE promises SET assignees = '{' WHERE namespace = 'evil'")
        advance(scene, 11)
        await scene.store.due()
        assert await _promise_fired(scene.within("zoo"))
        assert failing(damage) == {"promise": ["evil/p"]}


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_more_timers_than_are_tried_at_once_keep_no_other_from_firing(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bad ones are due first, and fill more than a page; their number is not the number of tries."""
    for module in ("shared.failure_isolation", "sqlite.timers", "postgres.leases"):
        monkeypatch.setattr(f"signoff.stores.{module}.AT_ONCE", 10)
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        for number in range(25):
            await scene.within("evil").store.create_promise(NewPromise(f"p{number}", due_at=DUE - 5))
        for number in range(25):
            await scene.within("zoo").store.create_promise(NewPromise(f"p{number}", due_at=DUE))
        damage.refuse("promises")
        advance(scene, 11)
        looks = 0
        while (next_at := await scene.store.due()) is not None and next_at <= scene.clock.now():
            looks += 1
            assert looks < 10
        for number in range(25):
            assert await _promise_fired(scene.within("zoo"), f"p{number}")
        assert len(failing(damage)["promise"]) == 25


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_more_items_that_fail_than_a_process_remembers_make_no_job_spin(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("shared.failure_isolation", "sqlite.timers", "postgres.leases"):
        monkeypatch.setattr(f"signoff.stores.{module}.AT_ONCE", 10)
    monkeypatch.setattr("signoff.stores.shared.failed_items.MOST", 30)
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        evil = scene.within("evil").store
        for number in range(50):
            await evil.create_promise(NewPromise(f"p{number}", due_at=DUE))
            await evil.put_schedule(replace(NEW, id=f"s{number}"))
        damage.refuse("promises")
        damage.refuse("schedules")
        advance(scene, 70)
        looks = 0
        while (next_at := await scene.store.due()) is not None and next_at <= scene.clock.now():
            looks += 1
            assert looks < 10, "or the loop of timers would spin"
        aside = new_schedules_aside()
        async with asyncio.timeout(60):
            assert await fire_due(scene.store, aside) is None
        assert aside.failures >= 30


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_what_is_due_is_done_in_one_transaction_while_nothing_fails(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene

        async def refuse(*_: object) -> None:
            raise AssertionError("one by one")

        monkeypatch.setattr(scene.store, "_due_each", refuse)
        for number in range(3):
            await _promise(scene, f"p{number}")
        advance(scene, 11)
        await scene.store.due()
        assert await _promise_fired(scene, "p2")


@in_asyncio
async def test_an_operation_on_a_damaged_row_fails_no_other_of_its_commit(tmp_path: Path) -> None:
    """SQLite commits the operations of all namespaces together; a row with invalid JSON fails its own alone."""
    async with damaged("sqlite", tmp_path) as damage:
        scene = damage.scene
        evil, zoo = scene.within("evil").store, scene.within("zoo").store
        run = await scene.within("evil").run()
        await scene.within("evil").complete(run, KEPT_FAILURE)
        await evil.retry("r", token="t0")
        damage.run("UPDATE journal SET details = '{' WHERE kind = 'retried'")
        results = await asyncio.gather(
            evil.retry("r", token="t1"),
            *(zoo.create_promise(NewPromise(f"p{number}")) for number in range(5)),
            return_exceptions=True,
        )
        assert isinstance(results[0], Exception)
        assert [each for each in results[1:] if isinstance(each, BaseException)] == []
