"""The store's rules for deleting settled promises that belong to no run."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from signoff.errors import InvalidValue, NotFound
from signoff.records import NewPromise, PromiseKind, PromiseState, Settlement
from signoff.records.paging import AuditFilter, PromiseFilter
from signoff.records.tasks import NewInvocation, TaskLease, TaskRef
from tests.stores.scene import Scene, promise, question, rule, sqlite_scene
from tests.support import in_asyncio

TARGET = "poll://any@workers"
DONE = Settlement(PromiseState.RESOLVED, value='"done"')


async def opened(scene: Scene, id: str, *, target: str | None = None, parent: str | None = None) -> None:
    await scene.store.open_invocation(NewInvocation(NewPromise(id), target, parent=parent))


async def settled(scene: Scene, *ids: str) -> None:
    """Settle these promises, one after the other, and create those that do not exist."""
    for id in ids:
        await opened(scene, id)
        await scene.store.settle(id, PromiseKind.PROMISE, DONE)
        scene.clock.advance(1)


async def ids(scene: Scene) -> list[str]:
    return sorted(each.id for each in (await scene.store.list_promises(PromiseFilter())).items)


async def deleted(scene: Scene, *, after_seconds: float = 0.0) -> int:
    """Delete promises that were settled so long ago. Returns how many."""
    count, after = await scene.store.delete_settled(scene.clock.now() - after_seconds, 100)
    assert after is None
    return count


@rule
async def test_settled_promises_are_deleted_by_age_and_pending_ones_never(scene: Scene) -> None:
    await settled(scene, "old")
    scene.clock.advance(100)
    await settled(scene, "new")
    await opened(scene, "pending")
    await settled(scene.within("acme"), "old")
    assert await deleted(scene, after_seconds=50) == 1
    assert await ids(scene) == ["new", "pending"]
    assert await ids(scene.within("acme")) == ["old"]
    assert await deleted(scene) == 1
    assert await ids(scene) == ["pending"]


@rule
async def test_they_are_examined_in_pages_the_earliest_first(scene: Scene) -> None:
    await settled(scene, "c", "a", "root.1", "b")
    await opened(scene, "root")
    count, after = await scene.store.delete_settled(scene.clock.now(), 2)
    assert (count, await ids(scene)) == (2, ["b", "root", "root.1"])
    count, after = await scene.store.delete_settled(scene.clock.now(), 1, after=after)
    assert (count, await ids(scene)) == (0, ["b", "root", "root.1"])
    count, after = await scene.store.delete_settled(scene.clock.now(), 2, after=after)
    assert (count, after, await ids(scene)) == (1, None, ["root", "root.1"])


@rule
async def test_a_deleted_promise_leaves_nothing_and_its_id_is_free(scene: Scene) -> None:
    store = scene.store
    await opened(scene, "t", target=TARGET)
    await store.acquire_task(TaskRef("t", 0), TaskLease("process", 10_000))
    await store.listen_promise("t", TARGET)
    await settled(scene, "t")
    assert await deleted(scene) == 1
    with pytest.raises(NotFound):
        await store.get_promise("t")
    with pytest.raises(NotFound):
        await store.get_task("t")
    scene.clock.advance(60)
    assert await store.take_task_messages([TARGET], 10) == []
    await opened(scene, "t", target=TARGET)
    assert (await store.get_task("t")).version == 0
    assert (await store.get_promise("t")).state is PromiseState.PENDING


@rule
async def test_a_call_is_kept_while_its_caller_is_pending(scene: Scene) -> None:
    await opened(scene, "root", target=TARGET)
    await opened(scene, "by tag", parent="root")
    await opened(scene, "root.1.2")
    await opened(scene, "rooted")
    await settled(scene, "by tag", "root.1.2", "rooted")
    scene.clock.advance(100)
    assert await deleted(scene) == 1
    assert await ids(scene) == ["by tag", "root", "root.1.2"]
    await settled(scene, "root")
    scene.clock.advance(10)
    assert await deleted(scene, after_seconds=5) == 3


@rule
async def test_a_promise_is_kept_while_a_run_has_joined_it_or_has_its_id(scene: Scene) -> None:
    await opened(scene, "joined")
    run = await scene.run("r")
    assert await scene.pause(run, opens=[NewPromise("joined", run_id="r", n=0)])
    await settled(scene, "joined", "called")
    await scene.start("called")
    scene.clock.advance(100)
    assert await deleted(scene) == 0
    [claim] = await scene.claim(limit=1, workflows=[run.workflow])
    assert claim.run.id in ("r", "called")
    for id in ("r", "called"):
        await scene.store.cancel(id)
        for each in await scene.claim(workflows=[run.workflow]):
            await scene.complete(each.run)
    if claim.run.id:
        await scene.complete(claim.run)
    scene.clock.advance(100)
    while await scene.store.delete_ended(scene.clock.now(), 10):
        pass
    assert await deleted(scene) == 2


@rule
async def test_promises_of_runs_are_left_to_their_runs(scene: Scene) -> None:
    run = await scene.run("r")
    await scene.append(run, opens=[promise("r")])
    await scene.store.settle("r.0", PromiseKind.PROMISE, DONE)
    scene.clock.advance(100)
    assert await deleted(scene) == 0
    assert await ids(scene) == ["r.0"]


@rule
async def test_of_a_deleted_question_the_audit_trail_is_kept(scene: Scene) -> None:
    await scene.store.create_promise(question("r", id="q"))
    await scene.settle("q")
    scene.clock.advance(100)
    assert await deleted(scene) == 1
    events = (await scene.store.list_audit(AuditFilter())).items
    assert [(event.question_id, event.kind.value) for event in events] == [("q", "asked"), ("q", "resolved")]


@rule
async def test_only_a_place_of_an_earlier_page_is_continued_after(scene: Scene) -> None:
    for after in ("", "x", "1", "nan 1", "-1.0 1", "inf 1", "1.0 -1", f"1.0 {2**63}"):
        with pytest.raises(InvalidValue):
            await scene.store.delete_settled(1.0, 1, after=after)


@in_asyncio
async def test_a_promise_that_cannot_be_deleted_keeps_no_other(tmp_path: Path) -> None:
    async with sqlite_scene(tmp_path) as scene:
        await settled(scene, "a", "bad", "c")
        with closing(sqlite3.connect(tmp_path / "signoff.db")) as file:
            file.execute(
                "CREATE TRIGGER refuses BEFORE DELETE ON promises WHEN old.id = 'bad' "
                "BEGIN SELECT raise(ABORT, 'no'); END"
            )
        assert await deleted(scene) == 2
        assert await ids(scene) == ["bad"]
        with closing(sqlite3.connect(tmp_path / "signoff.db")) as file:
            file.execute("DROP TRIGGER refuses")
        scene.clock.advance(3600)
        assert await deleted(scene) == 1
