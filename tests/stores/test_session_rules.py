"""The rules of the store contract for sessions. Every store must pass all of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from signoff.errors import IdConflict, InvalidValue, NotFound
from signoff.records import MessageKind, NewRun, RunState, Session
from signoff.records.paging import RunFilter
from signoff.stores.contract.leases import Outcome, Write
from signoff.stores.contract.store import Change
from tests.stores.scene import FAILURE, KEPT_FAILURE, SUCCESS, WORKFLOW, YES, Scene, rule, until


async def start(scene: Scene, *ids: str, session: str = "c", **more: Any) -> None:
    for id in ids:
        await scene.start(id, session_id=session, **more)


async def claimed(scene: Scene, *, worker: str = "w") -> list[str]:
    return [claim.run.id for claim in await scene.claim(worker=worker)]


async def end(scene: Scene, id: str) -> None:
    await scene.complete(await scene.store.get_run(id))


async def active(scene: Scene, session: str = "c") -> str | None:
    return (await scene.store.get_session(session)).active_run_id


@rule
async def test_runs_of_a_session_have_positions_and_only_the_first_is_claimed(scene: Scene) -> None:
    await start(scene, "a", "b", "d")
    runs = [await scene.store.get_run(id) for id in "abd"]
    assert [(run.session_id, run.position) for run in runs] == [("c", 1), ("c", 2), ("c", 3)]
    assert [run.state for run in runs] == [RunState.READY, RunState.PAUSED, RunState.PAUSED]
    assert [run.awaits_turn for run in runs] == [False, True, True]
    assert await claimed(scene) == ["a"]
    assert await claimed(scene) == []


@rule
async def test_a_run_that_waits_for_a_person_holds_its_session(scene: Scene) -> None:
    await scene.paused("a", session_id="c")
    await start(scene, "b")
    assert await claimed(scene) == []
    await scene.settle("a.0", YES)
    assert await claimed(scene) == ["a"]


@pytest.mark.parametrize("outcome", [SUCCESS, FAILURE], ids=["succeeded", "failed"])
@rule
async def test_the_end_of_a_run_gives_the_turn_to_the_next(scene: Scene, outcome: Outcome) -> None:
    await start(scene, "a", "b", "d")
    for id in "abd":
        assert await active(scene) == id
        [claim] = await scene.claim()
        assert claim.run.id == id
        await scene.complete(claim.run, outcome)
    assert await active(scene) is None


@rule
async def test_workers_are_notified_of_the_next_turn(scene: Scene) -> None:
    await start(scene, "a", "b")
    [claim] = await scene.claim()
    heard: list[Change] = []
    stop = await scene.listen(heard)
    await scene.complete(claim.run)
    await until(lambda: any(change.ready for change in heard))
    stop()


@rule
async def test_a_waiting_run_may_be_cancelled_and_is_passed_over(scene: Scene) -> None:
    await start(scene, "a", "b", "d")
    assert (await scene.store.cancel("b")).state is RunState.CANCELLED
    assert await claimed(scene) == ["a"]
    await end(scene, "a")
    assert await claimed(scene) == ["d"]
    await start(scene, "e")
    assert (await scene.store.get_run("e")).position == 4


@rule
async def test_cancelling_the_run_that_has_the_turn_before_it_began_passes_it_on(scene: Scene) -> None:
    await start(scene, "a", "b")
    await scene.store.cancel("a")
    assert await claimed(scene) == ["b"]


@rule
async def test_a_cancelled_run_that_has_begun_keeps_the_turn_until_it_ends(scene: Scene) -> None:
    await start(scene, "a", "b")
    [claim] = await scene.claim()
    await scene.store.cancel("a")
    assert await claimed(scene) == []
    await scene.complete(claim.run)
    assert await claimed(scene) == ["b"]


@rule
async def test_input_for_a_waiting_run_is_kept_and_does_not_start_it(scene: Scene) -> None:
    await start(scene, "a", "b")
    await scene.store.signal("b", "hello", "1")
    assert (await scene.store.get_run("b")).awaits_turn
    assert await claimed(scene) == ["a"]
    await end(scene, "a")
    [claim] = await scene.claim()
    assert [message.kind for message in claim.messages] == [MessageKind.SIGNAL]


@rule
async def test_a_deadline_ends_a_waiting_run_and_the_next_one_takes_its_turn(scene: Scene) -> None:
    await start(scene, "a")
    await start(scene, "b", deadline_at=scene.clock.now() + 5)
    await start(scene, "c")
    assert await claimed(scene) == ["a"]
    scene.clock.advance(6)
    await scene.store.due()
    assert await claimed(scene) == []
    assert await scene.state("b") is RunState.FAILED
    await scene.store.heartbeat("w", {"a": 1})
    await end(scene, "a")
    assert await claimed(scene) == ["c"]


@rule
async def test_a_lease_that_ran_out_leaves_the_turn_where_it_is(scene: Scene) -> None:
    await start(scene, "a", "b")
    [claim] = await scene.claim()
    scene.lease_clock.advance(60)
    await scene.store.due()
    assert await claimed(scene, worker="x") == ["a"]
    assert await claimed(scene, worker="x") == []
    assert claim.run.epoch == 1


@rule
async def test_a_released_run_keeps_the_turn(scene: Scene) -> None:
    await start(scene, "a", "b")
    await claimed(scene)
    await scene.store.release("w")
    assert await claimed(scene, worker="x") == ["a"]


@rule
async def test_a_run_that_may_be_retried_keeps_the_turn(scene: Scene) -> None:
    await start(scene, "a", "b")
    [claim] = await scene.claim()
    await scene.complete(claim.run, KEPT_FAILURE)
    assert await active(scene) == "a"
    assert await claimed(scene) == []
    await start(scene, "d")
    assert (await scene.store.get_run("d")).awaits_turn
    await scene.store.retry("a")
    assert await claimed(scene) == ["a"]
    await end(scene, "a")
    assert await claimed(scene) == ["b"]


@rule
async def test_giving_up_a_run_that_may_be_retried_passes_the_turn_on(scene: Scene) -> None:
    await start(scene, "a", "b")
    [claim] = await scene.claim()
    await scene.complete(claim.run, KEPT_FAILURE)
    await scene.store.cancel("a")
    assert await claimed(scene) == ["b"]


@rule
async def test_a_delayed_run_holds_its_session_until_it_started_and_ended(scene: Scene) -> None:
    await start(scene, "a", start_at=scene.clock.now() + 10)
    await start(scene, "b")
    assert await claimed(scene) == []
    scene.clock.advance(11)
    await scene.store.due()
    assert await claimed(scene) == ["a"]
    await end(scene, "a")
    assert await claimed(scene) == ["b"]


@rule
async def test_a_turn_that_comes_before_its_start_waits_for_that(scene: Scene) -> None:
    await start(scene, "a")
    await start(scene, "b", start_at=scene.clock.now() + 10)
    assert await claimed(scene) == ["a"]
    heard: list[Change] = []
    stop = await scene.listen(heard)
    await end(scene, "a")
    await until(lambda: any(change.due for change in heard))
    stop()
    assert (await scene.store.get_run("b")).wake_at == scene.clock.now() + 10
    assert await claimed(scene) == []
    scene.clock.advance(11)
    await scene.store.due()
    assert await claimed(scene) == ["b"]


@rule
async def test_a_start_that_passed_while_the_run_waited_starts_it_at_its_turn(scene: Scene) -> None:
    await start(scene, "a")
    await start(scene, "b", start_at=scene.clock.now() + 10)
    assert await claimed(scene) == ["a"]
    scene.clock.advance(11)
    await scene.store.due()
    assert await claimed(scene) == []
    await end(scene, "a")
    assert await claimed(scene) == ["b"]


@rule
async def test_priorities_do_not_reorder_a_session(scene: Scene) -> None:
    await start(scene, "a")
    await start(scene, "b")
    await start(scene, "d", priority=9)
    for id in "abd":
        assert await claimed(scene) == [id]
        await end(scene, id)


@rule
async def test_groups_and_workflows_of_a_session_may_differ(scene: Scene) -> None:
    await start(scene, "a", group="one")
    await start(scene, "b", group="two", workflow="other")
    assert await scene.claim(group="two", workflows=["other"]) == []
    [claim] = await scene.claim(group="one")
    await scene.complete(claim.run)
    assert [each.run.id for each in await scene.claim(group="two", workflows=["other"])] == ["b"]


@rule
async def test_a_paused_group_holds_the_session(scene: Scene) -> None:
    await start(scene, "a", group="one")
    await start(scene, "b")
    await scene.store.pause_group("one")
    assert await scene.claim(group="one") == []
    assert await claimed(scene) == []


@rule
async def test_a_turn_lines_up_for_the_slots_of_its_key(scene: Scene) -> None:
    key: dict[str, Any] = {"concurrency_key": "k", "concurrency_limit": 1}
    await start(scene, "a")
    await start(scene, "b", **key)
    await scene.start("x", **key)
    assert sorted(await claimed(scene)) == ["a", "x"]
    await end(scene, "a")
    assert await claimed(scene) == []
    await end(scene, "x")
    assert await claimed(scene) == ["b"]


@rule
async def test_waiting_runs_take_no_slots_of_their_key(scene: Scene) -> None:
    key: dict[str, Any] = {"concurrency_key": "k", "concurrency_limit": 1}
    await start(scene, "a")
    await start(scene, "b", **key)
    await scene.start("x", **key)
    assert "x" in await claimed(scene)
    await end(scene, "x")
    await scene.start("y", **key)
    assert await claimed(scene) == ["y"]


@rule
async def test_sessions_of_one_namespace_do_not_hold_each_other(scene: Scene) -> None:
    await start(scene, "a", session="one")
    await start(scene, "b", session="two")
    assert await claimed(scene) == ["a", "b"]


@rule
async def test_namespaces_may_use_the_same_session_id(scene: Scene) -> None:
    other = scene.within("other")
    await start(scene, "a")
    await start(other, "a", "b")
    assert await claimed(scene) == ["a"]
    assert await claimed(other) == ["a"]
    await end(scene, "a")
    assert await claimed(other) == []
    assert (await scene.store.get_session("c")).last_position == 1
    assert (await other.store.get_session("c")).last_position == 2
    with pytest.raises(NotFound):
        await scene.within("third").store.get_session("c")
    assert (await scene.within("third").store.list_sessions()).items == ()


@rule
async def test_a_known_id_takes_no_position_and_another_session_is_a_conflict(scene: Scene) -> None:
    await start(scene, "a")
    await start(scene, "a")
    for session in ("d", None):
        with pytest.raises(IdConflict):
            await scene.store.create_run(NewRun("a", WORKFLOW, "default", '{"args": []}', session_id=session))
    await start(scene, "b")
    assert (await scene.store.get_run("b")).position == 2
    with pytest.raises(NotFound):
        await scene.store.get_session("d")


@rule
async def test_a_repeated_start_says_where_it_is(scene: Scene) -> None:
    await start(scene, "a")
    new = NewRun("b", WORKFLOW, "default", '{"args": []}', session_id="c")
    first = await scene.store.create_run(new, token="t")
    assert await scene.store.create_run(new, token="t") == first
    assert first[1]
    assert first[0].awaits_turn


@rule
async def test_runs_created_at_once_have_positions_without_holes(scene: Scene) -> None:
    ids = [f"r{number}" for number in range(40)]
    await asyncio.gather(*(scene.start(id, session_id=f"c{len(id)}") for id in ids))
    for session in ("c2", "c3"):
        page = await scene.store.list_runs(RunFilter(session_id=session))
        assert sorted(run.position or 0 for run in page.items) == list(range(1, len(page.items) + 1))
        assert sum(not run.awaits_turn for run in page.items) == 1


@rule
async def test_a_child_of_a_session_waits_for_its_turn(scene: Scene) -> None:
    parent = await scene.run("p")
    await start(scene, "a")
    child = NewRun("k", WORKFLOW, "default", "{}", parent_id="p", parent_n=0, session_id="c")
    await scene.store.append(Write("p", parent.epoch, starts=[child]))
    assert (await scene.store.get_run("k")).awaits_turn
    assert (await scene.store.get_run("k")).position == 2


@rule
async def test_a_child_that_is_a_run_of_another_session_is_refused(scene: Scene) -> None:
    await scene.run("k", session_id="c")
    parent = await scene.run("p")
    child = NewRun("k", WORKFLOW, "default", '{"args": []}', parent_id="p", parent_n=0)
    await scene.store.append(Write("p", parent.epoch, starts=[child]))
    [message] = await scene.messages("p")
    assert message.state == RunState.FAILED


@rule
async def test_a_cancelled_child_passes_the_turn_on(scene: Scene) -> None:
    parent = await scene.run("p")
    child = NewRun("k", WORKFLOW, "default", "{}", parent_id="p", parent_n=0, session_id="c")
    await scene.store.append(Write("p", parent.epoch, starts=[child]))
    await start(scene, "b")
    await scene.store.append(Write("p", parent.epoch, cancels=["k"]))
    assert await claimed(scene) == ["b"]


@rule
async def test_deleted_runs_leave_their_positions_used(scene: Scene) -> None:
    await start(scene, "a", "b")
    for id in "ab":
        assert await claimed(scene) == [id]
        await end(scene, id)
    assert await scene.store.delete_ended(scene.clock.now() + 1, 10) == 2
    await start(scene, "d")
    assert (await scene.store.get_run("d")).position == 3
    assert await claimed(scene) == ["d"]


@rule
async def test_a_session_says_what_is_known_of_it(scene: Scene) -> None:
    began = scene.clock.now()
    await start(scene, "a")
    scene.clock.advance(5)
    await start(scene, "b")
    assert await scene.store.get_session("c") == Session("default", "c", began, began + 5, 2, "a")
    with pytest.raises(NotFound):
        await scene.store.get_session("d")


@rule
async def test_sessions_are_listed_by_when_a_run_was_last_started(scene: Scene) -> None:
    for number, session in enumerate(["one", "two", "three", "one"]):
        await start(scene, f"r{number}", session=session)
    page = await scene.store.list_sessions(limit=2)
    assert [session.id for session in page.items] == ["one", "three"]
    page = await scene.store.list_sessions(after=page.next, limit=2)
    assert [session.id for session in page.items] == ["two"]
    assert page.next is None


@rule
async def test_runs_are_listed_by_session(scene: Scene) -> None:
    await start(scene, "a", "b")
    await scene.start("x")
    await start(scene.within("other"), "y")
    page = await scene.store.list_runs(RunFilter(session_id="c"))
    assert [run.id for run in page.items] == ["b", "a"]
    page = await scene.store.list_runs(RunFilter(frozenset({RunState.PAUSED}), session_id="c"))
    assert [run.id for run in page.items] == ["b"]


@rule
async def test_a_session_id_that_not_every_store_could_keep_is_refused(scene: Scene) -> None:
    with pytest.raises(InvalidValue):
        await start(scene, "a", session="\0")
