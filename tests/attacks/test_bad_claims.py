"""A ready run whose row cannot be leased keeps no other run of its group from workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from signoff import Context, Signoff
from signoff.errors import StoreUnavailable
from signoff.records import Rate, RunState
from signoff.records.failed_items import SetAsideItem
from signoff.server import Role, Server
from signoff.server.auth.stored_keys import StoredKeys
from signoff.stores.contract.store import Store
from signoff.stores.remote.store import RemoteStore
from signoff.stores.shared.failed_items import running_jobs
from tests.attacks.damage import DATABASES, Damaged, damaged
from tests.stores.scene import GROUP, WORKFLOW, Scene
from tests.support import in_asyncio

HOW = ("refused", "left as it is")


def _spoil(damage: Damaged, how: str, when: str = "id = 'bad'") -> None:
    """Have the database refuse to change a run, with an error or without, as a trigger or a policy of rows may do."""
    if how == "refused":
        damage.refuse("runs", when=when)
    else:
        damage.ignore("runs", when=when)


def _aside(scene: Scene) -> dict[str, SetAsideItem]:
    """Return the runs of a store that claims have set aside."""
    return {
        f"{item.namespace}/{item.id}": item
        for aside in running_jobs()
        if aside.location == scene.store.location
        for item in aside.items
        if item.job == "ready run"
    }


@asynccontextmanager
async def _closed(store: Store) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await store.close()


async def _claimed(scene: Scene, **how: Any) -> list[str]:
    return [claim.run.id for claim in await scene.claim(**how)]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_a_run_that_cannot_be_claimed_keeps_no_other_from_a_worker(
    tmp_path: Path, database: str, how: str
) -> None:
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        for id in ("bad", "good", "fine", "last"):
            await scene.start(id)
        _spoil(damage, how)
        assert await _claimed(scene, limit=1) == ["good"]
        item = _aside(scene)["default/bad"]
        assert item.failures == 1
        assert item.error.startswith(
            "poisoned" if how == "refused" else "the database has left its row as it was"
        )
        assert await _claimed(scene, limit=10) == ["fine", "last"]
        assert _aside(scene)["default/bad"].failures == 1, "it waits for its back-off"
        assert await scene.state("bad") is RunState.READY

        scene.clock.advance(2)
        await scene.start("next")
        assert await _claimed(scene, limit=10) == ["next"]
        assert _aside(scene)["default/bad"].failures == 2
        damage.allow("runs")
        assert await _claimed(scene) == [], "too soon"
        scene.clock.advance(3)
        assert await _claimed(scene) == ["bad"]
        assert (await scene.store.get_run("bad")).epoch == 1
        assert _aside(scene) == {}


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("runs", "arguments"),
        ("runs", "traceparent"),
        ("runs", "started_by"),
        ("runs", "session_id"),
        ("runs", "concurrency_key"),
        ("messages", "value"),
        ("messages", "name"),
    ],
)
@in_asyncio
async def test_a_run_that_cannot_be_read_keeps_no_other_from_a_worker(
    tmp_path: Path, table: str, column: str
) -> None:
    """Its text is not Unicode: Postgres keeps none such, SQLite does."""
    async with damaged("sqlite", tmp_path) as damage:
        scene = damage.scene
        for id in ("bad", "good", "fine"):
            await scene.start(id, concurrency_key=id, concurrency_limit=1, session_id=id)
            await scene.store.signal(id, "go", "1")
        of = "id" if table == "runs" else "run_id"
        damage.run(f"UPDATE {table} SET {column} = CAST(x'22ff22' AS TEXT) WHERE {of} = 'bad'")
        assert await _claimed(scene, limit=1) == ["good"]
        assert await _claimed(scene) == ["fine"]
        error = _aside(scene)["default/bad"].error
        assert "not Unicode" in error or "decode" in error
        assert "\ufffd" not in error, "it quotes the row"
        damage.run(f"UPDATE {table} SET {column} = 'good' WHERE {of} = 'bad'")
        scene.clock.advance(2)
        if column == "concurrency_key":
            await scene.complete(await scene.store.get_run("good"))
        assert await _claimed(scene) == ["bad"]
        assert _aside(scene) == {}


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_other_groups_and_namespaces_claim_at_once(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        evil, zoo = scene.within("evil"), scene.within("zoo")
        for place in (evil, zoo):
            await place.start("r")
            await place.start("s", group="other")
        damage.refuse("runs", when="namespace = 'evil' AND NEW.id = 'r'")
        assert await _claimed(evil) == []
        assert await _claimed(evil, group="other") == ["s"]
        assert list(_aside(scene)) == ["evil/r"], "a claim of another group tells nothing of it"

        def refuse(*_: object, **more: object) -> None:
            raise AssertionError("one by one")

        for module in ("sqlite.leases", "postgres.leases"):
            monkeypatch.setattr(f"signoff.stores.{module}.claim_each", refuse)
        assert await _claimed(zoo) == ["r"]
        assert await _claimed(zoo, group="other") == ["s"]


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_more_bad_runs_than_are_tried_at_once_keep_no_other_from_a_worker(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("sqlite.claims", "postgres.leases"):
        monkeypatch.setattr(f"signoff.stores.{module}.AT_ONCE", 10)
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        for number in range(25):
            await scene.start(f"bad-{number}")
        await scene.start("good")
        _spoil(damage, "refused", "priority = 0 AND NEW.id LIKE 'bad%'")
        found = [await _claimed(scene, limit=2) for _ in range(3)]
        assert found == [[], [], ["good"]]
        assert len(_aside(scene)) == 25


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_a_bad_run_takes_no_place_among_those_of_its_key(tmp_path: Path, database: str) -> None:
    """Of one key one may run at a time, and the bad one is the first."""
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        key: dict[str, Any] = {"concurrency_key": "k", "concurrency_limit": 1}
        for id in ("bad", "one", "two"):
            await scene.start(id, **key)
        _spoil(damage, "refused")
        for id in ("one", "two"):
            assert await _claimed(scene) == [id]
            assert await _claimed(scene) == [], "it takes the only slot"
            await scene.complete(await scene.store.get_run(id))
        await scene.start("late", **key)
        assert await _claimed(scene) == ["late"], "though it became ready behind the bad one"
        await scene.complete(await scene.store.get_run("late"))
        assert list(_aside(scene)) == ["default/bad"]
        damage.allow("runs")
        scene.clock.advance(2)
        assert await _claimed(scene) == ["bad"]


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_a_run_that_cannot_be_passed_over_keeps_no_other_from_a_worker(
    tmp_path: Path, database: str
) -> None:
    """Its key's slot is taken, and to note that its row must be changed."""
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        await scene.start("holds", concurrency_key="k", concurrency_limit=1)
        await scene.start("bad", concurrency_key="k", concurrency_limit=1)
        assert await _claimed(scene) == ["holds"]
        damage.run("UPDATE runs SET blocked = 0", "UPDATE signoff.runs SET blocked = false")
        await scene.start("good")
        _spoil(damage, "refused")
        assert await _claimed(scene) == ["good"]
        assert list(_aside(scene)) == ["default/bad"]
        damage.allow("runs")
        scene.clock.advance(2)
        assert await _claimed(scene) == []
        assert await _claimed(scene) == []
        assert _aside(scene) == {}, "it is blocked, and waits for its slot"
        await scene.complete(await scene.store.get_run("holds"))
        assert await _claimed(scene) == ["bad"]


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_a_bad_run_takes_no_start_of_its_groups_rate(tmp_path: Path, database: str) -> None:
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        await scene.store.limit_group(GROUP, max_running=2, starts_per=Rate(2, 60.0))
        for id in ("bad", "one", "two", "three"):
            await scene.start(id)
        _spoil(damage, "refused")
        assert await _claimed(scene) == ["one", "two"]
        for id in ("one", "two"):
            await scene.complete(await scene.store.get_run(id))
        scene.clock.advance(30)
        assert await _claimed(scene) == ["three"]
        assert list(_aside(scene)) == ["default/bad"]


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_a_bad_suspect_keeps_no_other_suspect_from_a_worker(tmp_path: Path, database: str) -> None:
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        for id in ("bad", "other", "good"):
            await scene.start(id)
        for id, takeovers in (("bad", 4), ("other", 3)):
            damage.run(
                f"UPDATE runs SET takeovers = {takeovers} WHERE id = '{id}'",
                f"UPDATE signoff.runs SET takeovers = {takeovers} WHERE id = '{id}'",
            )
        _spoil(damage, "refused")
        assert await _claimed(scene) == ["other"]
        assert list(_aside(scene)) == ["default/bad"]


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_an_outage_is_no_fault_of_a_run(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        await scene.start("good")
        _spoil(damage, "refused", "id = 'good'")

        async def check_writable() -> None:
            raise StoreUnavailable("here", "it is down")

        async def fail(*_: object) -> None:
            raise StoreUnavailable("here", "the reply was lost")

        with monkeypatch.context() as patch:
            patch.setattr(scene.store, "check_writable", check_writable)
            patch.setattr(scene.store, "_write", fail)
            with pytest.raises(StoreUnavailable, match="it is down"):
                await scene.claim()
        assert _aside(scene) == {}


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_a_bad_run_that_is_not_ready_any_more_is_forgotten(tmp_path: Path, database: str) -> None:
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        await scene.start("bad")
        _spoil(damage, "refused")
        assert await _claimed(scene) == []
        assert list(_aside(scene)) == ["default/bad"]
        damage.allow("runs")
        await scene.store.cancel("bad")
        assert await _claimed(scene) == []
        assert _aside(scene) == {}


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_a_claim_that_is_repeated_returns_the_same_runs(tmp_path: Path, database: str) -> None:
    """A reply to a remote worker was lost, and a run is set aside."""
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        for id in ("bad", "good", "fine"):
            await scene.start(id)
        _spoil(damage, "refused")
        for _ in range(2):
            assert await _claimed(scene, limit=1, token="t") == ["good"]
        assert (await scene.store.get_run("good")).epoch == 1
        assert await _claimed(scene, limit=1, token="u") == ["fine"]
        assert list(_aside(scene)) == ["default/bad"]


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_a_remote_worker_runs_the_others_and_the_server_lists_the_bad_one(
    tmp_path: Path, database: str
) -> None:
    async with (
        damaged(database, tmp_path) as damage,
        Server(Signoff(damage.scene.store), port=0, require_auth=True) as server,
    ):
        scene = damage.scene
        for id in ("bad", "good", "fine"):
            await scene.start(id)
        _spoil(damage, "refused")
        keys = StoredKeys(scene.store)
        worker_key, _ = await keys.create_for_worker("far")
        key, _ = await keys.create_for_service("ops", [Role.OPERATOR])
        far = RemoteStore(server.url, key=worker_key)
        app = Signoff(far)

        @app.workflow(name=WORKFLOW)
        async def refund(ctx: Context) -> str:
            return "done"

        async with (
            _closed(far),
            app.worker(),
            httpx.AsyncClient(
                base_url=server.url, headers={"authorization": f"Bearer {key}"}, trust_env=False
            ) as http,
            asyncio.timeout(60),
        ):
            for id in ("good", "fine"):
                while (await scene.state(id)) is not RunState.SUCCEEDED:
                    await asyncio.sleep(0.01)
            [item] = (await http.get("/v1/set-aside")).json()["items"]
            assert (item["job"], item["id"], item["failures"]) == ("ready run", "bad", 1)
            assert "poisoned" in item["error"]
            damage.allow("runs")
            scene.clock.advance(2)
            while (await scene.state("bad")) is not RunState.SUCCEEDED:
                await asyncio.sleep(0.01)
            while (await http.get("/v1/set-aside")).json()["items"]:
                await asyncio.sleep(0.01)
