"""A run whose row the database refuses to change fails no change of another run: its own change follows later."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest

from signoff import Context, Signoff
from signoff.errors import StoreUnavailable
from signoff.records import AuditKind, MessageKind, NewAuditEvent, NewPromise, NewRun, PromiseKind, RunState
from signoff.server import Server
from signoff.server.auth.stored_keys import StoredKeys
from signoff.stores.contract.store import Store
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.remote.store import RemoteStore
from signoff.stores.shared.failed_items import running_jobs
from signoff.stores.shared.failure_isolation import AT_ONCE
from signoff.stores.sqlite.store import SqliteStore
from tests.attacks.damage import DATABASES, Damaged, damaged
from tests.stores.scene import GROUP, WORKFLOW, Scene, entry, promise, until
from tests.support import in_asyncio

KEY: dict[str, Any] = {"concurrency_key": "k", "concurrency_limit": 1}


def _child(id: str, parent_id: str) -> NewRun:
    return NewRun(id, WORKFLOW, GROUP, "{}", parent_id=parent_id, parent_n=0)


async def _turn(scene: Scene) -> Callable[[], Awaitable[object]]:
    run = await scene.run("good", session_id="s")
    await scene.start("bad", session_id="s")
    return lambda: scene.complete(run)


async def _turn_after_cancel(scene: Scene) -> Callable[[], Awaitable[object]]:
    await scene.start("good", session_id="s", start_at=scene.clock.now() + 1e6)
    await scene.start("bad", session_id="s")
    return lambda: scene.store.cancel("good")


async def _slot(scene: Scene) -> Callable[[], Awaitable[object]]:
    run = await scene.run("good", **KEY)
    await scene.start("bad", **KEY)
    await scene.start("last", **KEY)
    return lambda: scene.complete(run)


async def _slot_of_dead_worker(scene: Scene) -> Callable[[], Awaitable[object]]:
    await _slot(scene)

    async def lose() -> None:
        assert await scene.store.release("w", dead=True) == 1
        await scene.store.cancel("good")

    return lose


async def _joined_run(scene: Scene) -> Callable[[], Awaitable[object]]:
    parent = await scene.run("parent")
    await scene.append(parent, starts=[_child("good", "parent")])
    [claim] = await scene.claim()
    other = await scene.run("bad")
    await scene.append(other, starts=[_child("good", "bad")])
    return lambda: scene.complete(claim.run)


async def _joined_promise(scene: Scene) -> Callable[[], Awaitable[object]]:
    owner = await scene.run("good")
    await scene.append(owner, opens=[promise("good", 0, id="x")])
    other = await scene.run("bad")
    await scene.append(other, opens=[promise("bad", 0, id="x")])
    return lambda: scene.settle("x", kind=PromiseKind.PROMISE)


async def _joined_promise_of_an_end(scene: Scene) -> Callable[[], Awaitable[object]]:
    await _joined_promise(scene)
    owner = await scene.store.get_run("good")
    return lambda: scene.complete(owner)


async def _joined_promise_in_time(scene: Scene) -> Callable[[], Awaitable[object]]:
    due_at = scene.clock.now() + 8
    owner = await scene.run("good")
    await scene.append(owner, opens=[promise("good", 0, id="x", due_at=due_at)])
    other = await scene.run("bad")
    await scene.append(other, opens=[promise("bad", 0, id="x", due_at=due_at)])

    async def wait() -> None:
        scene.clock.advance(9)
        await scene.store.due()
        assert [message.kind for message in await scene.messages("good")] == [MessageKind.SETTLED]

    return wait


async def _cancelled(scene: Scene) -> Callable[[], Awaitable[object]]:
    parent = await scene.run("good")
    await scene.append(parent, starts=[_child("bad", "good")])
    await scene.claim()
    return lambda: scene.append(parent, entry(0), cancels=["bad"])


async def _terminated(scene: Scene) -> Callable[[], Awaitable[object]]:
    await _cancelled(scene)
    event = NewAuditEvent("e", AuditKind.TERMINATED, "", "good", "user:ana")
    return lambda: scene.store.terminate("good", event)


async def _is_claimable(scene: Scene) -> bool:
    if await scene.state("bad") is not RunState.READY:
        return False
    return "bad" in [claim.run.id for claim in await scene.claim(worker="v")]


async def _has_message(scene: Scene) -> bool:
    return [message.kind for message in await scene.messages("bad")] == [MessageKind.SETTLED]


async def _is_told_to_stop(scene: Scene) -> bool:
    return [message.kind for message in await scene.messages("bad")] == [MessageKind.CANCEL]


# Of each change of another run: what makes it, and whether it is made. It is the change of `bad`.
CHANGES: dict[
    str,
    tuple[Callable[[Scene], Awaitable[Callable[[], Awaitable[object]]]], Callable[[Scene], Awaitable[bool]]],
] = {
    "turn": (_turn, _is_claimable),
    "turn after a cancelled one": (_turn_after_cancel, _is_claimable),
    "joined run": (_joined_run, _has_message),
    "joined promise": (_joined_promise, _has_message),
    "joined promise of a run that ends": (_joined_promise_of_an_end, _has_message),
    "joined promise that times out": (_joined_promise_in_time, _has_message),
    "cancelled child": (_cancelled, _is_told_to_stop),
    "child of a terminated run": (_terminated, _is_told_to_stop),
}


def _aside(scene: Scene) -> dict[str, int]:
    return {
        f"{item.namespace}/{item.id}": item.failures
        for aside in running_jobs()
        if aside.location == scene.store.location
        for item in aside.items
        if item.job == "deferred change"
    }


def _forbid(damage: Damaged, how: str) -> None:
    """Have the database keep the row of the run ``bad`` as it is."""
    forbid = damage.refuse if how == "refused" else damage.ignore
    forbid("runs", when="id = 'bad'")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("how", ["refused", "ignored"])
@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_a_change_of_another_run_that_is_refused_follows_later(
    tmp_path: Path, database: str, how: str, change: str
) -> None:
    """A trigger may raise an error, or keep the row as it is without one."""
    prepare, is_made = CHANGES[change]
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        do = await prepare(scene)
        before = await scene.store.get_run("bad")
        _forbid(damage, how)
        await do()
        assert await scene.store.get_run("bad") == before
        assert damage.find("SELECT count(*) FROM deferred") == 1

        # It is tried again with back-off, and what is due of others is done.
        await scene.store.create_promise(NewPromise("p", due_at=scene.clock.now() + 1))
        scene.clock.advance(2)
        next_at = await scene.store.due()
        assert (await scene.store.get_promise("p")).state.value == "timed_out"
        assert next_at is not None
        assert next_at > scene.clock.now(), "or the loop of timers would spin"
        item = "default/s" if change.startswith("turn") else "default/bad"
        failures = _aside(scene)
        assert list(failures) == [item]
        await scene.store.due()
        assert _aside(scene) == failures, "too soon"
        scene.clock.advance(3)
        await scene.store.due()
        assert _aside(scene) == {item: failures[item] + 1}

        damage.allow("runs")
        assert not await is_made(scene)
        scene.clock.advance(5)
        await scene.store.due()
        assert await is_made(scene)
        assert _aside(scene) == {}
        assert damage.find("SELECT count(*) FROM deferred") == 0


@pytest.mark.parametrize("make", [_slot, _slot_of_dead_worker])
@pytest.mark.parametrize("how", ["refused", "ignored"])
@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_a_refused_blocked_run_keeps_no_other_of_its_key_from_its_slot(
    tmp_path: Path,
    database: str,
    how: str,
    make: Callable[[Scene], Awaitable[Callable[[], Awaitable[object]]]],
) -> None:
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        do = await make(scene)
        _forbid(damage, how)
        await do()
        if make is _slot_of_dead_worker:
            [claim] = await scene.claim()
            assert claim.run.id == "good", "it asked to be cancelled, and goes first"
            await scene.complete(claim.run)
        [claim] = await scene.claim()
        assert claim.run.id == "last"
        await scene.complete(claim.run)
        assert await scene.claim() == []
        await scene.store.due()
        assert _aside(scene) == {"default/bad": 1}
        damage.allow("runs")
        scene.clock.advance(2)
        await scene.store.due()
        assert await _is_claimable(scene)


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_few_blocked_runs_that_are_refused_are_tried_in_one_transaction(
    tmp_path: Path, database: str
) -> None:
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        run = await scene.run("good", **KEY)
        for number in range(AT_ONCE + 5):
            await scene.start(f"bad-{number}", **KEY)
        damage.refuse("runs", when="id LIKE 'bad%'")
        await scene.complete(run)
        assert damage.find("SELECT count(*) FROM deferred") == AT_ONCE
        damage.allow("runs")
        await _do_what_is_due(scene.store)
        assert damage.find("SELECT count(*) FROM deferred") == 0
        assert [claim.run.id for claim in await scene.claim()] == ["bad-0"]


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_another_process_makes_a_change_that_was_deferred(tmp_path: Path, database: str) -> None:
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        do = await _turn(scene)
        damage.refuse("runs", when="id = 'bad'")
        await do()
        damage.allow("runs")
        async with _opened_again(damage) as other:
            await other.due()
        assert await scene.state("bad") is RunState.READY


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_input_for_a_run_is_refused_if_the_database_ignores_its_wake_up(
    tmp_path: Path, database: str
) -> None:
    """An answer and the waking of its run are one transaction: else the run would wait for good."""
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        await scene.paused("bad")
        damage.ignore("runs", when="id = 'bad'")
        for do in (
            lambda: scene.settle("bad.0"),
            lambda: scene.store.signal("bad", "go", "1"),
            lambda: scene.store.cancel("bad"),
        ):
            with pytest.raises(StoreUnavailable, match="left its row as it was"):
                await do()
        assert (await scene.store.get_promise("bad.0")).state.value == "pending"
        damage.allow("runs")
        await scene.settle("bad.0")
        assert await _is_claimable(scene)
        assert await _has_message(scene)


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_a_change_that_another_process_made_is_set_aside_no_more(tmp_path: Path, database: str) -> None:
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        do = await _turn(scene)
        damage.refuse("runs", when="id = 'bad'")
        await do()
        await scene.store.due()
        assert _aside(scene) == {"default/s": 1}
        damage.allow("runs")
        async with _opened_again(damage) as other:
            await other.due()
            assert await scene.state("bad") is RunState.PAUSED, "it has just failed, if in another process"
            scene.clock.advance(2)
            await other.due()
            assert await scene.state("bad") is RunState.READY
            await scene.store.due()
            assert _aside(scene) == {}


@pytest.mark.parametrize("make", [_joined_promise, _cancelled])
@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_a_change_of_a_deleted_run_is_not_applied_to_a_new_run_of_its_id(
    tmp_path: Path, database: str, make: Callable[[Scene], Awaitable[Callable[[], Awaitable[object]]]]
) -> None:
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        do = await make(scene)
        damage.refuse("runs", when="id = 'bad'")
        await do()
        assert damage.find("SELECT count(*) FROM deferred") == 1
        damage.allow("runs")
        await scene.complete(await scene.store.get_run("bad"))
        await scene.store.terminate("good", NewAuditEvent("e", AuditKind.TERMINATED, "", "good", "user:ana"))
        scene.clock.advance(1)
        assert await scene.store.delete_ended(scene.clock.now(), 10) == 2
        await scene.paused("bad")
        await scene.store.due()
        assert await scene.state("bad") is RunState.PAUSED
        assert await scene.messages("bad") == []


@pytest.mark.parametrize("make", [_joined_promise, _cancelled])
@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_a_change_of_a_run_that_was_deleted_is_dropped(
    tmp_path: Path, database: str, make: Callable[[Scene], Awaitable[Callable[[], Awaitable[object]]]]
) -> None:
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        do = await make(scene)
        damage.refuse("runs", when="id = 'bad'")
        await do()
        damage.allow("runs")
        damage.run("DELETE FROM runs WHERE id = 'bad'", "DELETE FROM signoff.runs WHERE id = 'bad'")
        await scene.store.due()
        assert damage.find("SELECT count(*) FROM deferred") == 0
        assert _aside(scene) == {}


@pytest.mark.parametrize("is_remote", [False, True])
@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_a_run_whose_parent_is_refused_waits_with_it_and_others_go_on(
    tmp_path: Path, database: str, is_remote: bool
) -> None:
    """A run's end and the settling of its parent's promise are one transaction: neither happens without the other."""
    async with damaged(database, tmp_path) as damage, Server(damage.scene.store, port=0) as server:
        scene = damage.scene
        parent = await scene.run("parent")
        assert await scene.pause(parent, starts=[_child("child", "parent")])
        damage.refuse("runs", when="id = 'parent'")
        key, _ = await StoredKeys(scene.store).create_for_worker("far")
        far = RemoteStore(server.url, key=key)
        app = Signoff(far if is_remote else scene.store)

        @app.workflow(name=WORKFLOW)
        async def refund(ctx: Context) -> str:
            return "done"

        try:
            async with app.worker(), asyncio.timeout(60):
                for number in range(5):
                    await scene.start(f"good-{number}")
                for number in range(5):
                    while (await scene.state(f"good-{number}")) is not RunState.SUCCEEDED:
                        await asyncio.sleep(0.01)
                assert (await scene.state("child")) in (RunState.READY, RunState.RUNNING)
                damage.allow("runs")
                while (await scene.state("child")) is not RunState.SUCCEEDED:
                    scene.clock.advance(1)
                    scene.lease_clock.advance(1)
                    await asyncio.sleep(0.05)
                assert (await scene.store.get_run("parent")).wakes == 1, "it got one message"
        finally:
            await far.close()


@asynccontextmanager
async def _opened_again(damage: Damaged) -> AsyncIterator[Store]:
    clocks: dict[str, Any] = {"clock": damage.scene.clock, "lease_clock": damage.scene.lease_clock}
    here = damage.scene.store
    if isinstance(here, PostgresStore):
        store: Store = PostgresStore(here.conninfo, **clocks)
    else:
        assert isinstance(here, SqliteStore)
        store = SqliteStore(here.path, **clocks)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_more_changes_that_fail_than_a_process_remembers_make_no_job_spin(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that fail are left alone for a while by every process, and one that can be made waits for none of them."""
    monkeypatch.setattr("signoff.stores.shared.failed_items.MOST", 50)
    for module in ("shared.failure_isolation", "sqlite.deferred_changes", "postgres.leases"):
        monkeypatch.setattr(f"signoff.stores.{module}.AT_ONCE", 10, raising=False)
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        columns = "(namespace, id, kind, n, details)"
        damage.run(
            f"""
            WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 120)
            INSERT INTO deferred {columns} SELECT 'evil', 's' || n, 'turn', -1, '{{}}' FROM numbers
            """,
            f"INSERT INTO signoff.deferred {columns} "
            "SELECT 'evil', 's' || n, 'turn', -1, '{}' FROM generate_series(1, 120) AS n",
        )
        damage.refuse("deferred", on="DELETE", row="OLD")
        calls = await _do_what_is_due(scene.store)
        assert calls <= 20
        failed = "SELECT count(*) FROM deferred WHERE failures = 1"
        assert damage.find(failed) == 120
        assert await _do_in_another_process(damage) == 1
        assert damage.find(failed) == 120, "another process leaves them alone too"
        assert len(_aside(scene)) > 20

        do = await _turn(scene)
        damage.refuse("runs", when="id = 'bad'")
        await do()
        await _do_what_is_due(scene.store)
        damage.allow("runs")
        scene.clock.advance(2)
        await _do_what_is_due(scene.store)
        for _ in range(20):
            scene.clock.advance(1)
            await _do_what_is_due(scene.store)
        assert await scene.state("bad") is RunState.READY

        damage.allow("deferred")
        for _ in range(5):
            scene.clock.advance(300)
            await _do_what_is_due(scene.store)
        assert damage.find("SELECT count(*) FROM deferred") == 0
        # The other process, which is one of this test's, lists its failures until its store is forgotten.
        await until(lambda: gc.collect() >= 0 and _aside(scene) == {})


async def _do_in_another_process(damage: Damaged) -> int:
    async with _opened_again(damage) as other:
        return await _do_what_is_due(other)


async def _do_what_is_due(store: Store) -> int:
    """Do what is due, as timers do, until the next thing is due later. Returns how many calls that took."""
    for calls in range(1, 100):
        next_at = await store.due()
        if next_at is None or next_at > store.clock.now():
            return calls
    raise AssertionError("it is due at once, again and again")


@in_asyncio
async def test_an_unreadable_deferred_change_stops_no_other(tmp_path: Path) -> None:
    async with damaged("sqlite", tmp_path) as damage:
        scene = damage.scene
        do = await _turn(scene)
        columns = "(namespace, id, kind, n, details)"
        damage.run(f"INSERT INTO deferred {columns} VALUES ('evil', CAST(x'ff' AS TEXT), 'turn', -1, '{{}}')")
        damage.refuse("runs", when="id = 'bad'")
        await do()
        damage.allow("runs")
        await _do_what_is_due(scene.store)
        assert await scene.state("bad") is RunState.READY
        assert _aside(scene) == {"evil/\ufffd": 1}


@in_asyncio
async def test_what_follows_from_one_change_is_one_subtransaction(tmp_path: Path) -> None:
    """A transaction of Postgres with more than 64 of them slows all others, of every tenant."""
    async with damaged("postgres", tmp_path) as damage:
        scene = damage.scene
        owner = await scene.run("good")
        await scene.append(owner, opens=[promise("good", 0, id="x")])
        for number in range(70):
            run = await scene.run(f"waiter-{number}")
            await scene.append(run, opens=[promise(run.id, 0, id="x")])
        await scene.append(owner, starts=[_child(f"child-{number}", "good") for number in range(70)])
        children = json.dumps([{"id": f"child-{number}", "error": "{}"} for number in range(70)])
        for change in (
            """SELECT signoff.settle('default', 'x', 'promise', '{"state": "resolved"}', NULL, 1000001)""",
            f"SELECT signoff.give_up('default', 'good', '{children}', 1000001)",
        ):
            assert _subtransactions(scene, change) == 1
        damage.refuse("runs", when="id = 'waiter-3'")
        await scene.settle("x", kind=PromiseKind.PROMISE)
        assert len(await scene.messages("waiter-69")) == 1
        assert await scene.messages("waiter-3") == []
        damage.allow("runs")
        await _do_what_is_due(scene.store)
        assert len(await scene.messages("waiter-3")) == 1


def _subtransactions(scene: Scene, change: str) -> int:
    """Return how many subtransactions that have written something belong to a change, which is undone."""
    with psycopg.connect(cast("PostgresStore", scene.store).conninfo) as connection:
        if connection.info.server_version < 160000:
            pytest.skip("Postgres says from version 16 on how many there are")
        connection.execute(change.encode())
        row = connection.execute(
            "SELECT subxact.subxact_count "
            "FROM pg_stat_get_backend_idset() AS id, pg_stat_get_backend_subxact(id) AS subxact "
            "WHERE pg_stat_get_backend_pid(id) = pg_backend_pid()"
        ).fetchone()
        connection.rollback()
    assert row is not None
    return row[0]
