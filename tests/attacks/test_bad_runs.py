"""A run whose row the database refuses to change costs no other run its lease."""

from __future__ import annotations

from pathlib import Path

import pytest

from signoff.records import RunState
from signoff.server import Server
from signoff.server.auth.stored_keys import StoredKeys
from signoff.stores.remote.store import RemoteStore
from tests.attacks.damage import DATABASES, damaged
from tests.stores.scene import Scene, entry
from tests.support import in_asyncio

LEASE_SECONDS = 10.0


async def _hold_three(scene: Scene) -> dict[str, int]:
    for id in ("bad", "good", "fine"):
        await scene.start(id)
    return {claim.run.id: claim.run.epoch for claim in await scene.claim()}


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_a_lease_that_cannot_be_extended_costs_no_other_run_its_lease(
    tmp_path: Path, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        held = await _hold_three(scene)
        damage.refuse("runs", when="id = 'bad'")
        for _ in range(4):
            scene.lease_clock.advance(LEASE_SECONDS / 2)
            assert await scene.store.heartbeat("w", held) == {"bad"}
        assert "run bad of namespace default cannot be extended" in caplog.text
        await scene.store.due()
        assert await scene.state("good") is RunState.RUNNING
        good = await scene.store.get_run("good")
        await scene.append(good, entry(0))
        damage.allow("runs")
        assert await scene.store.heartbeat("w", {"good": held["good"], "fine": held["fine"]}) == set()


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_a_remote_lease_that_cannot_be_extended_costs_no_other_lease(
    tmp_path: Path, database: str
) -> None:
    async with damaged(database, tmp_path) as damage, Server(damage.scene.store, port=0) as server:
        held = await _hold_three(damage.scene)
        damage.refuse("runs", when="id = 'bad'")
        key, _ = await StoredKeys(damage.scene.store).create_for_worker("far")
        far = RemoteStore(server.url, key=key)
        await far.open()
        try:
            assert await far.heartbeat("w", held) == {"bad"}
        finally:
            await far.close()
        good = await damage.scene.store.get_run("good")
        assert good.lease_until is not None
        await damage.scene.append(good, entry(0))


@pytest.mark.parametrize("dead", [False, True])
@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_a_run_that_cannot_be_let_go_keeps_no_other_run_of_its_worker(
    tmp_path: Path, database: str, dead: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        await _hold_three(scene)
        damage.refuse("runs", when="id = 'bad'")
        assert await scene.store.release("w", dead=dead) == 2
        assert await scene.state("bad") is RunState.RUNNING
        assert await scene.state("good") is RunState.READY
        assert (await scene.store.get_run("good")).takeovers == int(dead)
        assert "run bad of namespace default cannot be released" in caplog.text
        assert await scene.store.list_workers() == []
        assert {claim.run.id for claim in await scene.claim(worker="v")} == {"good", "fine"}
