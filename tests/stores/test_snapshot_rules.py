"""The rules of the store contract for snapshots. Every store must pass all of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from signoff.errors import NotFound, SnapshotRefused
from signoff.records import (
    AuditKind,
    EntryKind,
    MessageKind,
    NewAuditEvent,
    NewPromise,
    NewRun,
    PromiseKind,
    PromiseState,
    RunState,
    Settlement,
)
from signoff.records.paging import AuditFilter, PromiseFilter
from signoff.records.workers import WorkerInfo
from signoff.stores.contract.leases import Write
from signoff.stores.contract.snapshots import Saved, SavedRun
from tests.stores.scene import GROUP, SUCCESS, WORKFLOW, YES, Scene, entry, promise, question, rule

THERE = "there"


def loaded(id: str = "e1", run_id: str = "r") -> NewAuditEvent:
    return NewAuditEvent(id, AuditKind.LOADED, "", run_id, "user:ana", '{"digest": "d"}')


async def load(scene: Scene, saved: Saved, event: NewAuditEvent | None = None) -> None:
    await scene.store.load_run(saved.within(scene.store.namespace), event or loaded())


async def moved(scene: Scene, id: str = "r") -> Scene:
    """Load a run, as it is, into the next namespace."""
    there = scene.within(THERE)
    await load(there, await scene.store.save_run(id))
    return there


def as_kept(saved: SavedRun) -> SavedRun:
    """Return a run without what a store says of it anew."""
    return replace(
        saved,
        run=replace(
            saved.run, namespace="", state=RunState.READY, worker_id=None, lease_until=None, wake_at=None
        ),
        promises=tuple(replace(each, namespace="") for each in saved.promises),
    )


@rule
async def test_what_is_loaded_is_what_was_saved(scene: Scene) -> None:
    await scene.start(
        priority=3,
        deadline_at=1_000_900.0,
        traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        started_by="user:req",
        concurrency_key="k",
        concurrency_limit=2,
        arguments='{"args": ["ä", 1.5]}',
    )
    [claim] = await scene.claim()
    opens = [
        question("r", 0, due_at=1_000_500.5, act_at=1_000_100.0, assignees=("user:ana",), data='{"q": 1}'),
        promise("r", 1),
    ]
    assert await scene.pause(
        claim.run, entry(0), entry(1, details='{"a": 1}'), opens=opens, wake_at=1_000_700.0
    )
    await scene.settle("r.1", replace(YES, note="why", request_id="q"), kind=PromiseKind.PROMISE)
    await scene.store.signal("r", "paid", "[1]", by="user:bob", request_id="s-1")
    await scene.store.cancel("r", reason="stop", by="user:ana")
    saved = await scene.store.save_run("r")
    there = await moved(scene)
    again = await there.store.save_run("r")
    assert list(map(as_kept, again.runs)) == list(map(as_kept, saved.runs))
    assert [message.kind for message in again.runs[0].messages] == [
        MessageKind.SETTLED,
        MessageKind.SIGNAL,
        MessageKind.CANCEL,
    ]
    assert await scene.state() is RunState.READY


@rule
async def test_a_running_run_is_loaded_as_ready_and_continues_in_both_places(scene: Scene) -> None:
    run = await scene.run()
    await scene.append(run, entry(0))
    there = await moved(scene)
    [claim] = await there.claim(worker="x")
    assert (claim.run.epoch, claim.run.state) == (2, RunState.RUNNING)
    await there.append(claim.run, entry(1))
    await scene.append(run, entry(1), entry(2))
    await there.complete(claim.run)
    await scene.complete(run)
    assert len(await there.journal()) == 2
    assert len(await scene.journal()) == 3


@rule
async def test_a_run_that_was_paused_is_looked_at_where_it_is_loaded(scene: Scene) -> None:
    await scene.paused(wake_at=1_000_700.0)
    there = await moved(scene)
    assert (await there.store.get_run("r")).wake_at is None
    [claim] = await there.claim()
    assert await there.pause(claim.run, wake_at=1_000_700.0)
    scene.clock.advance(700.0)
    await there.store.due()
    assert await there.state() is RunState.READY


@rule
async def test_a_question_is_asked_and_answered_where_it_is_loaded(scene: Scene) -> None:
    run = await scene.run()
    opens = [question("r", due_at=1_000_500.0, act_at=1_000_100.0, assignees=("user:ana",))]
    assert await scene.pause(run, opens=opens)
    there = await moved(scene)
    asked = await there.store.list_promises(
        PromiseFilter(PromiseKind.QUESTION, PromiseState.PENDING, answerable_by=frozenset({"user:ana"}))
    )
    assert [each.id for each in asked.items] == ["r.0"]
    scene.clock.advance(100.0)
    due, _ = await there.store.due_questions(10)
    assert {(each.namespace, each.id) for each in due} >= {(THERE, "r.0")}
    await there.settle("r.0", YES)
    [message] = await there.messages()
    assert (message.n, message.state) == (0, PromiseState.RESOLVED)
    assert (await scene.store.get_promise("r.0")).state is PromiseState.PENDING


@rule
async def test_the_deadline_of_a_question_passes_where_it_is_loaded(scene: Scene) -> None:
    run = await scene.run(deadline_at=1_000_900.0)
    assert await scene.pause(run, entry(0), opens=[question("r", due_at=1_000_500.0)])
    there = await moved(scene)
    await there.store.enlist(WorkerInfo("w", "host", 10, 1.5, GROUP, THERE))
    scene.clock.advance(1_000.0)
    await there.store.due()
    kinds = [(message.kind, message.state) for message in await there.messages()]
    assert sorted(kinds, key=str) == [
        (MessageKind.DEADLINE, None),
        (MessageKind.SETTLED, PromiseState.TIMED_OUT),
    ]


@rule
async def test_the_trail_says_that_a_run_was_loaded_and_what_it_asks(scene: Scene) -> None:
    await scene.paused()
    there = await moved(scene)
    events = (await there.store.list_audit(AuditFilter(run_id="r"))).items
    assert [(event.kind, event.question_id) for event in events] == [
        (AuditKind.ASKED, "r.0"),
        (AuditKind.LOADED, ""),
    ]
    assert (events[1].by, events[1].details) == ("user:ana", '{"digest": "d"}')


@rule
async def test_a_run_is_loaded_once(scene: Scene) -> None:
    await scene.paused()
    saved = await scene.store.save_run("r")
    with pytest.raises(SnapshotRefused, match="in this store"):
        await load(scene, saved)
    there = await moved(scene)
    with pytest.raises(SnapshotRefused):
        await load(there, saved, loaded("e2"))
    events = (await there.store.list_audit(AuditFilter())).items
    assert [event.kind for event in events] == [AuditKind.ASKED, AuditKind.LOADED]


@rule
async def test_of_several_who_load_at_once_one_does(scene: Scene) -> None:
    await scene.paused()
    saved = await scene.store.save_run("r")
    there = scene.within(THERE)
    done = await asyncio.gather(
        *(load(there, saved, loaded(f"e{number}")) for number in range(8)), return_exceptions=True
    )
    assert [type(each) for each in done if each is not None] == [SnapshotRefused] * 7
    assert len(await there.claim()) == 1


@rule
async def test_a_load_that_is_repeated_changes_nothing(scene: Scene) -> None:
    await scene.paused()
    saved = await scene.store.save_run("r")
    there = scene.within(THERE)
    for _ in range(2):
        await load(there, saved)
    assert await there.listed() == ["r"]
    [claim] = await there.claim()
    await load(there, saved)
    assert (await there.store.get_run("r")).epoch == claim.run.epoch


@rule
async def test_a_run_that_was_deleted_may_be_loaded_again(scene: Scene) -> None:
    run = await scene.run()
    saved = await scene.store.save_run("r")
    await scene.complete(run)
    scene.clock.advance(10.0)
    assert await scene.store.delete_ended(scene.clock.now(), 10) == 1
    await load(scene, saved)
    assert await scene.state() is RunState.READY


@rule
async def test_open_children_come_along_and_tell_their_parent(scene: Scene) -> None:
    run = await scene.run()
    starts = [
        NewRun(f"c{n}", WORKFLOW, "default", '{"args": []}', parent_id="r", parent_n=n) for n in range(3)
    ]
    assert await scene.pause(run, starts=[*starts, NewRun("d", WORKFLOW, "default", "{}", parent_id="r")])
    claims = {claim.run.id: claim.run for claim in await scene.claim()}
    await scene.complete(claims["c0"])
    grand = NewRun("g", WORKFLOW, "default", '{"args": []}', parent_id="c1", parent_n=0)
    assert await scene.pause(claims["c1"], starts=[grand])
    saved = await scene.store.save_run("r")
    assert [each.id for each in saved.runs] == ["r", "c1", "c2", "g"]
    there = await moved(scene)
    runs = {claim.run.id: claim for claim in await there.claim()}
    assert set(runs) == {"r", "c1", "c2", "g"}
    assert [(message.n, message.state) for message in runs["r"].messages] == [(0, "succeeded")]
    await there.complete(runs["g"].run)
    assert [message.name for message in await there.messages("c1")] == ["g"]
    await there.complete(runs["c2"].run)
    assert [message.name for message in await there.messages("r")][-1] == "c2"


@rule
async def test_a_child_that_lives_there_refuses_the_whole_snapshot(scene: Scene) -> None:
    run = await scene.run()
    assert await scene.pause(
        run, starts=[NewRun("c", WORKFLOW, "default", '{"args": []}', parent_id="r", parent_n=0)]
    )
    there = scene.within(THERE)
    await there.start("c")
    with pytest.raises(SnapshotRefused, match="'c'"):
        await moved(scene)
    assert await there.listed() == ["c"]
    with pytest.raises(NotFound):
        await there.store.get_run("r")
    assert not (await there.store.list_audit(AuditFilter())).items


@rule
async def test_an_awaited_promise_without_a_run_is_in_the_snapshot(scene: Scene) -> None:
    await scene.store.create_promise(NewPromise("shared", PromiseKind.PROMISE, data="1"))
    run = await scene.run()
    assert await scene.pause(run, opens=[promise("r", 4, id="shared")])
    there = await moved(scene)
    await scene.settle("shared", YES, kind=PromiseKind.PROMISE)
    assert await there.messages() == []
    await there.settle("shared", YES, kind=PromiseKind.PROMISE)
    assert [(message.n, message.name) for message in await there.messages()] == [(4, "shared")]


@rule
async def test_a_promise_that_is_there_already_refuses_the_snapshot(scene: Scene) -> None:
    run = await scene.run()
    assert await scene.pause(run, opens=[promise("r", 0, id="order-7")])
    there = scene.within(THERE)
    await there.store.create_promise(NewPromise("order-7", PromiseKind.PROMISE))
    with pytest.raises(SnapshotRefused, match="'order-7'"):
        await moved(scene)
    assert await there.listed() == []


@rule
async def test_a_repeated_signal_is_known_where_it_is_loaded(scene: Scene) -> None:
    await scene.paused()
    await scene.store.signal("r", "paid", '{"cents": 7}', request_id="bank-1")
    there = await moved(scene)
    assert not await there.store.signal("r", "paid", '{ "cents": 7 }', request_id="bank-1")
    assert len(await there.messages()) == 1


@rule
async def test_a_delayed_run_starts_at_its_time_where_it_is_loaded(scene: Scene) -> None:
    await scene.start(start_at=1_000_060.0)
    there = await moved(scene)
    assert await there.claim() == []
    scene.clock.advance(60.0)
    await there.store.due()
    [claim] = await there.claim()
    assert claim.run.epoch == 1


@rule
async def test_a_run_of_a_session_comes_behind_those_that_ended_there(scene: Scene) -> None:
    await scene.start("first", session_id="c")
    there = scene.within(THERE)
    for id in ("a", "b"):
        await there.complete(await there.run(id, session_id="c"))
    await load(there, await scene.store.save_run("first"))
    assert (await there.store.get_run("first")).position == 3
    session = await there.store.get_session("c")
    assert (session.active_run_id, session.last_position) == ("first", 3)
    await there.start("next", session_id="c")
    assert [claim.run.id for claim in await there.claim()] == ["first"]


@rule
async def test_a_session_that_is_busy_there_refuses_the_snapshot(scene: Scene) -> None:
    await scene.start("mine", session_id="c")
    there = scene.within(THERE)
    await there.start("theirs", session_id="c")
    with pytest.raises(SnapshotRefused, match="session 'c'"):
        await moved(scene, "mine")
    assert await there.listed() == ["theirs"]


@rule
async def test_a_concurrency_key_holds_what_is_loaded(scene: Scene) -> None:
    there = scene.within(THERE)
    await there.run("theirs", concurrency_key="k", concurrency_limit=1)
    await scene.start(concurrency_key="k", concurrency_limit=1)
    await moved(scene)
    assert await there.claim() == []
    await there.complete(await there.store.get_run("theirs"))
    assert [claim.run.id for claim in await there.claim()] == ["r"]


@pytest.mark.parametrize(
    "outcome", [SUCCESS, replace(SUCCESS, state=RunState.FAILED, retryable=True)], ids=str
)
@rule
async def test_a_run_that_ended_is_loaded_as_it_ended(scene: Scene, outcome: Any) -> None:
    await scene.complete(await scene.run(), outcome)
    there = await moved(scene)
    run = await there.store.get_run("r")
    assert (run.state, run.result, run.retryable) == (outcome.state, outcome.result, outcome.retryable)
    assert await there.claim() == []
    if outcome.retryable:
        await there.store.retry("r")
        assert EntryKind.RETRIED in await there.journal()


@pytest.mark.long
@rule
async def test_a_run_of_twenty_thousand_entries_is_saved_and_loaded(scene: Scene) -> None:
    run = await scene.run()
    for first in range(0, 20_000, 1_000):
        await scene.append(run, *(entry(seq) for seq in range(first, first + 1_000)))
    there = await moved(scene)
    assert [each.seq for each in await there.store.read_journal("r")] == list(range(20_000))


@rule
async def test_an_unknown_run_is_not_saved(scene: Scene) -> None:
    with pytest.raises(NotFound):
        await scene.store.save_run("r")
    await scene.start()
    with pytest.raises(NotFound):
        await scene.within(THERE).store.save_run("r")


@rule
async def test_listeners_hear_of_what_is_loaded(scene: Scene) -> None:
    await scene.start()
    there = scene.within(THERE)
    saved = await scene.store.save_run("r")
    heard: list[Any] = []
    stop = await there.listen(heard)
    await load(there, saved)
    async with asyncio.timeout(60):
        while not any(change.runs and "r" in change.runs and change.ready for change in heard):
            await asyncio.sleep(0.001)
    stop()


@rule
async def test_a_settled_question_is_kept_as_it_was_settled(scene: Scene) -> None:
    run = await scene.run()
    assert await scene.pause(run, opens=[question("r")])
    await scene.settle("r.0", Settlement(PromiseState.RESOLVED, "true", "user:ana", "fine", "q-1"))
    there = await moved(scene)
    settled = await there.store.get_promise("r.0")
    assert (settled.value, settled.settled_by, settled.note) == ("true", "user:ana", "fine")
    _, is_new = await there.settle(
        "r.0", Settlement(PromiseState.RESOLVED, "true", "user:ana", request_id="q-1")
    )
    assert not is_new
    [claim] = await there.claim()
    await there.store.append(Write("r", claim.run.epoch, taken=[message.id for message in claim.messages]))
    assert await there.messages() == []
