"""The store's rules for deleting old data."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from signoff.errors import NotFound
from signoff.records import Amendment, NewPromise, NewRun, RunState
from signoff.records.paging import AuditFilter, PromiseFilter
from signoff.stores.contract.store import Store
from signoff.stores.postgres.store import PostgresStore
from tests.stores.scene import (
    FAILURE,
    GROUP,
    KEPT_FAILURE,
    SUCCESS,
    WORKFLOW,
    Scene,
    entry,
    postgres_scene,
    question,
    rule,
    sqlite_scene,
)
from tests.support import in_asyncio

LONG = 1_000_000.5  # after everything that ends as a test begins


@rule
async def test_what_ended_before_is_deleted_and_nothing_else(scene: Scene) -> None:
    for name, outcome in (("good", SUCCESS), ("bad", FAILURE), ("kept", KEPT_FAILURE)):
        await scene.complete(await scene.run(name), outcome)
    await scene.start("gone")
    await scene.store.cancel("gone")
    await scene.paused("paused")
    scene.clock.advance(10)
    await scene.complete(await scene.run("later"))
    await scene.start("ready")
    assert await scene.store.delete_ended(1_000_000.0, 100) == 0
    assert await scene.store.delete_ended(LONG, 100) == 3
    assert await scene.store.delete_ended(LONG, 100) == 0
    assert sorted(await scene.listed()) == ["kept", "later", "paused", "ready"]


@rule
async def test_it_goes_in_batches_the_earliest_first(scene: Scene) -> None:
    for name in ("b", "a", "c"):
        await scene.complete(await scene.run(name))
        scene.clock.advance(1)
    assert await scene.store.delete_ended(2_000_000.0, 2) == 2
    assert await scene.listed() == ["c"]
    assert await scene.store.delete_ended(2_000_000.0, 2) == 1


@rule
async def test_everything_of_a_deleted_run_is_gone_and_its_ids_are_free(scene: Scene) -> None:
    run = await scene.run()
    await scene.store.signal("r", "go", "1", request_id="q")
    await scene.append(run, entry(0), opens=[question("r")])
    await scene.complete(run)
    assert await scene.store.delete_ended(LONG, 100) == 1
    for missing in (
        scene.store.get_run("r"),
        scene.store.get_promise("r.0"),
        scene.store.signal("r", "go", "1"),
    ):
        with pytest.raises(NotFound):
            await missing
    assert await scene.journal() == []
    again = await scene.run(arguments='{"args": ["other"]}')
    assert (again.epoch, again.wakes) == (1, 0)
    assert await scene.store.signal("r", "go", "1", request_id="q")
    await scene.append(again, entry(0), opens=[question("r")])
    assert (await scene.settle("r.0"))[1]


@rule
async def test_nothing_of_other_runs_and_namespaces_is_deleted(scene: Scene) -> None:
    for each in (scene, scene.within("acme")):
        for name in ("r", "other"):
            await each.append(await each.run(name), entry(0), opens=[question(name)])
            await each.store.signal(name, "go", "1", request_id="q")
    await scene.complete(await scene.store.get_run("r"))
    assert await scene.store.delete_ended(LONG, 100) == 1
    for each, name in ((scene, "other"), (scene.within("acme"), "r"), (scene.within("acme"), "other")):
        assert len(await each.journal(name)) == 1
        assert len(await each.messages(name)) == 1
        assert (await each.settle(f"{name}.0"))[1]
        assert not await each.store.signal(name, "go", "1", request_id="q")


@rule
async def test_a_child_is_kept_while_its_parent_is_there_and_goes_after_it(scene: Scene) -> None:
    parent = await scene.run("p")
    children = [NewRun(name, "child", GROUP, "{}", "p", n) for n, name in enumerate(("c0", "c1", "c2"))]
    await scene.pause(parent, starts=children)
    for claim in (await scene.claim(workflows=["child"]))[:2]:
        await scene.complete(claim.run)
    scene.clock.advance(1)
    assert await scene.store.delete_ended(2_000_000.0, 100) == 0
    [claim] = await scene.claim()
    await scene.complete(claim.run)
    assert await scene.store.delete_ended(LONG, 100) == 0, "the parent ended later"
    assert await scene.store.delete_ended(2_000_000.0, 1) == 1
    assert await scene.store.delete_ended(2_000_000.0, 100) == 2
    last = await scene.store.get_run("c2")
    assert (last.state, last.parent_id, last.parent_n) == (RunState.RUNNING, None, None)
    await scene.complete(last)
    assert await scene.store.delete_ended(2_000_000.0, 100) == 1


@rule
async def test_a_run_that_joined_a_deleted_one_was_notified(scene: Scene) -> None:
    target = await scene.run("target")
    await scene.append(target, opens=[NewPromise("shared", run_id="target", n=0)])
    waiter = await scene.run("waiter")
    joined = [NewRun("target", WORKFLOW, GROUP, '{"args": []}', "waiter", 7)]
    assert await scene.pause(waiter, starts=joined, opens=[NewPromise("shared", run_id="waiter", n=8)])
    await scene.complete(target)
    assert await scene.store.delete_ended(LONG, 100) == 1
    [claim] = await scene.claim()
    assert {message.n for message in claim.messages} == {7, 8}
    await scene.complete(claim.run)
    assert await scene.store.delete_ended(LONG, 100) == 1


@pytest.mark.parametrize("scene_of", [sqlite_scene, postgres_scene])
@in_asyncio
async def test_a_deleted_run_leaves_no_row_but_what_is_recorded_of_its_questions(
    tmp_path: Path, scene_of: Callable[[Path], AbstractAsyncContextManager[Scene]]
) -> None:
    async with scene_of(tmp_path) as scene:
        target = await scene.run("target")
        await scene.append(target, opens=[question("target", id="shared")])
        await scene.store.create_promise(NewPromise("of nobody"))
        run = await scene.run("r")
        await scene.append(run, opens=[NewPromise("of nobody", run_id="r", n=9)])
        await scene.store.signal("r", "go", "1", request_id="q")
        joined = [NewRun("target", WORKFLOW, GROUP, '{"args": []}', "r", 7)]
        await scene.append(run, entry(0), opens=[question("r"), question("r", 8, id="shared")], starts=joined)
        assert (await scene.store.amend("r.0", Amendment(0, "1", ("user:ana",), None), token="t"))[1]
        await scene.complete(run)
        await scene.complete(target)
        assert await scene.store.delete_ended(LONG, 100) == 2
        assert _filled_tables(scene.store, tmp_path) == {"promises", "audit", "unsealed"}
        [promise] = (await scene.store.list_promises(PromiseFilter())).items
        assert promise.id == "of nobody"
        events = (await scene.store.list_audit(AuditFilter())).items
        assert [(event.question_id, event.kind.value) for event in events] == [
            ("shared", "asked"),
            ("r.0", "asked"),
            ("r.0", "cancelled"),
            ("shared", "cancelled"),
        ]


def _filled_tables(store: Store, folder: Path) -> set[str]:
    """Return the tables that have rows."""
    if isinstance(store, PostgresStore):
        with psycopg.connect(store.conninfo) as connection:
            found = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'signoff' AND tablename <> 'migrations'"
            )
            looking = SQL("SELECT FROM signoff.{} LIMIT 1")
            return {
                name
                for (name,) in found.fetchall()
                if connection.execute(looking.format(Identifier(name))).rowcount
            }
    with closing(sqlite3.connect(folder / "signoff.db")) as file:
        names = [row[0] for row in file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {name for name in names if file.execute(f"SELECT 1 FROM {name}").fetchone()}
