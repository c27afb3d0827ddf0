"""Runs that have lost workers without progress are claimed apart: 100 at once, then 10, then alone."""

from __future__ import annotations

import pytest

from signoff.records import AuditKind, NewAuditEvent
from tests.stores.scene import Scene, entry, rule


async def names(scene: Scene, worker: str = "w", limit: int = 100, **more: object) -> list[str]:
    return [claim.run.id for claim in await scene.claim(worker=worker, limit=limit, **more)]  # type: ignore[arg-type]


async def lost(scene: Scene, *ids: str, times: int) -> None:
    """Have runs lose their worker together, so many times."""
    for id in ids:
        await scene.start(id)
    for _ in range(times):
        assert set(await names(scene)) == set(ids)
        assert await scene.store.release("w", dead=True) == len(ids)


@rule
async def test_suspects_are_claimed_without_others_and_before_them(scene: Scene) -> None:
    await scene.start("first", priority=9)
    await names(scene, "v")
    await scene.store.release("v", dead=True)
    await names(scene, "v")
    await lost(scene, "b", "a", times=2)
    await scene.store.release("v")  # it has lost one worker, no more
    await scene.start("new", priority=9)
    assert await names(scene) == ["b", "a"]
    assert await names(scene) == ["first", "new"]


@rule
async def test_a_worker_holds_ten_runs_that_lost_three_workers_until_progress(scene: Scene) -> None:
    ids = [f"r{n:02}" for n in range(12)]
    await lost(scene, *ids, times=3)
    claims = await scene.claim()
    assert [claim.run.id for claim in claims] == ids[:10]
    assert await names(scene) == []
    await scene.start("new")
    assert await names(scene) == ["new"]
    await scene.append(claims[3].run, entry(0))
    assert await names(scene) == ["r10"]
    assert await names(scene, "other") == ["r11"]


@rule
async def test_a_worker_holds_one_run_that_lost_four_workers_until_it_leaves(scene: Scene) -> None:
    await lost(scene, "a", "b", "c", "d", times=4)
    [claim] = await scene.claim()
    assert (claim.run.id, claim.run.takeovers) == ("a", 4)
    assert await names(scene) == []
    assert await names(scene, "other") == ["b"]
    await scene.complete(claim.run)
    [claim] = await scene.claim()
    assert claim.run.id == "c"
    assert await scene.pause(claim.run)
    assert await names(scene) == ["d"]


@rule
async def test_a_worker_holds_suspects_with_as_many_takeovers_only(scene: Scene) -> None:
    await lost(scene, "four", times=4)
    assert await names(scene, "v") == ["four"]
    await lost(scene, "two", times=2)
    assert await names(scene, "v") == []
    await scene.store.release("v")
    assert await names(scene) == ["four"]  # the fewest lives first
    assert await names(scene, "v") == ["two"]


@rule
@pytest.mark.parametrize("how", ["pause", "release"])
@pytest.mark.parametrize("grows", [True, False])
async def test_progress_clears_a_suspect(scene: Scene, how: str, grows: bool) -> None:
    await lost(scene, "r", times=3)
    [claim] = await scene.claim()
    if grows:
        await scene.append(claim.run, entry(0))
    if how == "release":
        await scene.store.release("w")
    else:
        assert await scene.pause(claim.run, wake_at=scene.clock.now() + 1)
        scene.clock.advance(1)
        await scene.store.due()
    await scene.start("new")
    assert await names(scene) == (["r", "new"] if grows else ["r"])
    assert (await scene.store.get_run("r")).takeovers == (0 if grows else 3)


@rule
async def test_a_lease_that_runs_out_makes_suspects_too(scene: Scene) -> None:
    await scene.start("r")
    for _ in range(2):
        assert await names(scene) == ["r"]
        scene.lease_clock.advance(60)
        await scene.store.due()
    await scene.start("new")
    assert await names(scene) == ["r"]


@rule
async def test_suspects_that_cannot_run_now_hide_no_others(scene: Scene) -> None:
    await scene.start("r", concurrency_key="k", concurrency_limit=1)
    for _ in range(2):
        assert await names(scene) == ["r"]
        await scene.store.release("w", dead=True)
    await scene.start("beside", concurrency_key="k", concurrency_limit=2)
    await scene.start("elsewhere", workflow="other")
    assert await names(scene, workflows=["other"]) == [
        "elsewhere"
    ]  # of a workflow that the worker does not have
    assert await names(scene, "v") == ["r"]
    assert await names(scene, "x") == ["beside"]
    await scene.store.release("v")
    await scene.start("new")
    assert await names(scene) == ["new"]  # the slots of its key are taken
    await scene.store.release("x")
    await scene.store.limit_group("default", max_running=2)  # as many as run
    assert await names(scene) == []
    await scene.store.limit_group("default", max_running=3)
    assert await names(scene) == ["r"]


@rule
async def test_a_run_that_an_operator_resumes_is_no_suspect_any_more(scene: Scene) -> None:
    await lost(scene, "r", times=4)
    event = NewAuditEvent("e", AuditKind.SUSPENDED, "", "r", "user:ana")
    await scene.store.suspend("r", event)
    await scene.store.resume("r", NewAuditEvent("f", AuditKind.RESUMED, "", "r", "user:ana"))
    await scene.start("new")
    assert await names(scene) == ["r", "new"]
    assert (await scene.store.get_run("r")).takeovers == 0
