"""The rules of the store contract for questions, their inbox and the audit trail. Every store must pass all of them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from signoff.codec import decode_error
from signoff.errors import AlreadySettled, IdConflict, InvalidValue, NotFound
from signoff.records import (
    Amendment,
    AuditEvent,
    AuditKind,
    NewAuditEvent,
    NewPromise,
    NewSignal,
    PromiseKind,
    PromiseState,
    RunState,
    Seal,
    Settlement,
)
from signoff.records.paging import LOOKED_THROUGH, AuditFilter, PromiseFilter
from signoff.stores.contract.store import Change
from tests.stores.question_changes import amendment, ask, kinds, trail, voted
from tests.stores.scene import GROUP, NO, YES, Scene, entry, promise, question, rule, until


async def answerable(scene: Scene, *names: str, **more: Any) -> list[str]:
    which = PromiseFilter(PromiseKind.QUESTION, PromiseState.PENDING, answerable_by=frozenset(names))
    return [each.id for each in (await scene.store.list_promises(which, **more)).items]


BAD_EVENTS: list[tuple[str, dict[str, Any]]] = [
    ("details", {"details": "not json"}),
    ("details", {"details": ""}),
    ("details", {"details": "[1]"}),
    ("details", {"details": '"text"'}),
    ("details", {"details": '{"a":' + "[" * 100 + "]" * 100 + "}"}),
    ("details", {"details": '{"a":' + "[" * 9000 + "]" * 9000 + "}"}),
    ("details", {"details": '{"a":' + "9" * 4301 + "}"}),
    ("details", {"details": '{"a":NaN}'}),
    ("details", {"details": '{"a":1e999}'}),
    ("details", {"details": '{"a":"\\ud800"}'}),
    ("details", {"details": '{"a":"\ud800"}'}),
    ("details", {"details": '{"a":"' + "x" * 4 * 1024 * 1024 + '"}'}),
    *((name, {name: text}) for name in ("id", "question_id", "run_id", "by") for text in ("a\0", "\ud800")),
]


async def asked_by(scene: Scene, *, limit: int = 100, **which: Any) -> list[str]:
    """The pending questions of some runs, page by page."""
    found: list[str] = []
    after = None
    while True:
        page = await scene.store.list_promises(
            PromiseFilter(PromiseKind.QUESTION, PromiseState.PENDING, **which), after=after, limit=limit
        )
        assert len(page.items) <= limit
        found += [each.id for each in page.items]
        if page.next is None:
            return found
        after = page.next


@rule
async def test_an_unreadable_event_is_refused(scene: Scene) -> None:
    asked = await ask(scene)
    for field, change in BAD_EVENTS:
        bad = replace(voted("bad"), **change)
        with pytest.raises(InvalidValue, match=f"^{field}: "):
            await scene.store.record([voted("good"), bad])
        with pytest.raises(InvalidValue, match=f"^{field}: "):
            await scene.store.amend("r.0", amendment(asked, events=(voted("good"), bad)))
    assert await scene.store.get_promise("r.0") == asked
    assert await kinds(scene) == [AuditKind.ASKED]


@rule
async def test_an_event_keeps_what_was_decided_however_large_the_answer_is(scene: Scene) -> None:
    value = json.dumps("\xe9" * 500_000, ensure_ascii=False)
    details = json.dumps({"value": value, "deep": json.loads("[" * 99 + "]" * 99), "n": 10**4299})
    await scene.store.record([replace(voted("e"), details=details), replace(voted("f"), details=None)])
    assert [event.details for event in await trail(scene)] == [details, None]


@rule
async def test_only_the_store_records_its_own_events(scene: Scene) -> None:
    asked = await ask(scene)
    own = [AuditKind.ASKED, *(AuditKind(state.value) for state in PromiseState if state != "pending")]
    for kind in (*own, AuditKind("unheard-of")):
        forged = replace(voted("e"), kind=kind)
        with pytest.raises(InvalidValue, match="^kind: "):
            await scene.store.record([forged])
        with pytest.raises(InvalidValue, match="^kind: "):
            await scene.store.amend("r.0", amendment(asked, events=(forged,)))
    assert await kinds(scene) == [AuditKind.ASKED]


# Amending


@rule
async def test_a_question_keeps_who_may_answer_and_when_to_act(scene: Scene) -> None:
    asked = await ask(scene, assignees=("user:ana", "group:finance"), act_at=1_000_060.5)
    assert (asked.assignees, asked.act_at, asked.version, asked.progress) == (
        ("user:ana", "group:finance"),
        1_000_060.5,
        0,
        None,
    )
    listed = await scene.store.list_promises(PromiseFilter(run_id="r"))
    assert listed.items == (asked,)


@rule
async def test_an_amendment_changes_what_a_question_keeps_and_records_it(scene: Scene) -> None:
    asked = await ask(scene, assignees=("user:ana",))
    change = amendment(
        asked,
        progress='{"votes":1}',
        assignees=("user:bob",),
        act_at=1_000_100.0,
        events=(voted("e1"), voted("e2")),
    )
    amended, done = await scene.store.amend("r.0", change)
    assert done
    assert amended == await scene.store.get_promise("r.0")
    assert amended == replace(
        asked, version=1, progress='{"votes":1}', assignees=("user:bob",), act_at=1_000_100.0
    )
    assert await kinds(scene) == [AuditKind.ASKED, AuditKind.VOTED, AuditKind.VOTED]
    assert await scene.state() is RunState.PAUSED


@rule
async def test_of_two_amendments_made_for_one_version_one_is_done(scene: Scene) -> None:
    asked = await ask(scene)
    made = [amendment(asked, progress=str(n), events=(voted(f"e{n}"),)) for n in range(8)]
    results = await asyncio.gather(*(scene.store.amend("r.0", each) for each in made))
    assert [done for _, done in results].count(True) == 1
    assert (await scene.store.get_promise("r.0")).version == 1
    assert await kinds(scene) == [AuditKind.ASKED, AuditKind.VOTED]


@rule
async def test_an_amendment_that_settles_wakes_the_run_in_the_same_step(scene: Scene) -> None:
    asked = await ask(scene)
    settled, done = await scene.store.amend(
        "r.0", amendment(asked, progress="2", settlement=replace(YES, note="fine", request_id="q1"))
    )
    assert done
    assert settled == await scene.store.get_promise("r.0")
    assert (settled.state, settled.value, settled.settled_by, settled.note, settled.request_id) == (
        PromiseState.RESOLVED,
        "true",
        "user:ana",
        "fine",
        "q1",
    )
    assert (settled.version, settled.progress) == (1, "2")
    assert await scene.state() is RunState.READY
    [message] = await scene.messages()
    assert (message.n, message.value, message.by, message.note) == (0, "true", "user:ana", "fine")


@rule
async def test_a_settlement_that_was_made_for_another_version_is_not_done(scene: Scene) -> None:
    asked = await ask(scene, due_at=1_000_010.0)
    amended, _ = await scene.store.amend("r.0", amendment(asked, progress="1"))
    assert await scene.settle("r.0", replace(YES, version=0)) == (amended, False)
    assert await scene.messages() == []
    settled, done = await scene.settle("r.0", replace(YES, version=1, request_id="q"))
    assert (settled.state, done) == (PromiseState.RESOLVED, True)
    assert await scene.settle("r.0", replace(YES, version=1, request_id="q")) == (settled, False)
    with pytest.raises(AlreadySettled):
        await scene.settle("r.0", replace(NO, version=0))


@rule
async def test_a_late_settlement_times_out_whatever_version_it_was_made_for(scene: Scene) -> None:
    await ask(scene, due_at=1_000_010.0)
    scene.clock.advance(10)
    with pytest.raises(AlreadySettled):
        await scene.settle("r.0", replace(YES, version=7))
    assert (await scene.store.get_promise("r.0")).state is PromiseState.TIMED_OUT


@rule
async def test_a_settled_question_is_not_amended(scene: Scene) -> None:
    asked = await ask(scene)
    settled, _ = await scene.settle("r.0")
    found, done = await scene.store.amend("r.0", amendment(asked, progress="1", settlement=NO))
    assert (found, done) == (settled, False)
    assert await kinds(scene) == [AuditKind.ASKED, AuditKind.RESOLVED]


@rule
async def test_an_amendment_after_the_deadline_times_the_question_out(scene: Scene) -> None:
    asked = await ask(scene, due_at=1_000_010.0)
    scene.clock.advance(10)
    found, done = await scene.store.amend("r.0", amendment(asked, settlement=YES, events=(voted("e"),)))
    assert (found.state, done) == (PromiseState.TIMED_OUT, False)
    assert await kinds(scene) == [AuditKind.ASKED, AuditKind.TIMED_OUT]
    [message] = await scene.messages()
    assert message.state == PromiseState.TIMED_OUT


@rule
async def test_an_amendment_that_is_sent_again_is_done_once(scene: Scene) -> None:
    asked = await ask(scene)
    change = amendment(asked, progress="1", events=(voted("e"),))
    first = await scene.store.amend("r.0", change, token="t")
    assert await scene.store.amend("r.0", change, token="t") == first
    assert first[1]
    assert await scene.store.amend("r.0", change, token="u") == (first[0], False)
    last = amendment(first[0], settlement=YES)
    settled = await scene.store.amend("r.0", last, token="v")
    assert await scene.store.amend("r.0", last, token="v") == settled
    assert await kinds(scene) == [AuditKind.ASKED, AuditKind.VOTED, AuditKind.RESOLVED]
    assert len(await scene.messages()) == 1


@rule
async def test_a_repeated_amendment_is_recognized_after_other_amendments(scene: Scene) -> None:
    asked = await ask(scene)
    mine, theirs = amendment(asked, progress="1"), amendment(asked, version=1, progress="2")
    assert (await scene.store.amend("r.0", mine, token="mine"))[1]
    assert (await scene.store.amend("r.0", theirs, token="theirs"))[1]
    found, done = await scene.store.amend("r.0", mine, token="mine")
    assert (found.version, found.progress, done) == (2, "2", True)
    await scene.settle("r.0")
    assert (await scene.store.amend("r.0", mine, token="mine"))[1]


@rule
async def test_a_deleted_question_leaves_its_id_without_amendments(scene: Scene) -> None:
    run = await scene.run()
    await scene.append(run, opens=[question("r")])
    first = Amendment(0, "1", (), None)
    assert (await scene.store.amend("r.0", first, token="t"))[1]
    await scene.complete(run)
    scene.clock.advance(1)
    assert await scene.store.delete_ended(1_000_000.5, 10) == 1
    asked = await ask(scene)
    assert (asked.version, asked.progress) == (0, None)
    assert await scene.store.amend("r.0", first, token="t") == (replace(asked, version=1, progress="1"), True)


@rule
async def test_only_questions_are_amended(scene: Scene) -> None:
    await scene.store.create_promise(NewPromise("p"))
    await scene.within("other").store.create_promise(NewPromise("q", PromiseKind.QUESTION))
    change = Amendment(0, None, (), None)
    for id in ("p", "q", "none"):
        with pytest.raises(NotFound):
            await scene.store.amend(id, change)
    asked = await ask(scene)
    with pytest.raises(InvalidValue):
        await scene.store.amend("r.0", amendment(asked, settlement=Settlement(PromiseState.PENDING)))
    for version in (0, 1):
        with pytest.raises(InvalidValue, match=r"^settlement\.version: "):
            await scene.store.amend("r.0", amendment(asked, settlement=replace(YES, version=version)))
    assert await scene.store.get_promise("r.0") == asked


@rule
async def test_listeners_get_amendments_and_earlier_due_times(scene: Scene) -> None:
    asked = await ask(scene)
    heard: list[Change] = []
    stop = await scene.listen(heard)
    await scene.store.amend("r.0", amendment(asked, act_at=1_000_001.0))
    await until(lambda: any("r" in (change.runs or ()) and change.due for change in heard))
    stop()


@rule
@pytest.mark.parametrize("theirs", ["a caller's", "another run's", "another call's", "a caller's promise"])
async def test_a_run_waits_for_no_question_but_its_own(scene: Scene, theirs: str) -> None:
    run = await scene.run()
    if theirs == "another run's":
        await scene.append(await scene.run("other"), opens=[question("other", id="q")])
    elif theirs == "another call's":
        await scene.append(run, opens=[question("r", 1, id="q")])
    else:
        kind = PromiseKind.PROMISE if theirs == "a caller's promise" else PromiseKind.QUESTION
        await scene.store.create_promise(NewPromise("q", kind))
    before = await scene.store.get_promise("q")
    for _ in range(2):
        assert not await scene.pause(run, opens=[question("r", 2, id="q", assignees=("user:ana",))])
    assert await scene.store.get_promise("q") == before
    await scene.settle("q", YES, kind=before.kind)
    told = [message for message in await scene.messages() if message.n == 2]
    assert [(message.name, message.state, message.value) for message in told] == [("q", "rejected", None)]
    assert isinstance(decode_error(told[0].error or ""), IdConflict)


# When policies have something to do


@rule
async def test_questions_are_due_at_their_time_in_order_and_in_every_namespace(scene: Scene) -> None:
    assert await scene.store.due_questions(10) == ([], None)
    await ask(scene, "late", act_at=1_000_020.0)
    await ask(scene, "soon", act_at=1_000_010.0)
    await ask(scene.within("other"), "far", act_at=1_000_015.0)
    await ask(scene, "never")
    assert await scene.store.due_questions(10) == ([], 1_000_010.0)
    scene.clock.advance(15)
    due, next_at = await scene.store.due_questions(10)
    assert [(each.namespace, each.id) for each in due] == [("default", "soon.0"), ("other", "far.0")]
    assert next_at == 1_000_010.0
    assert [each.id for each in (await scene.store.due_questions(1))[0]] == ["soon.0"]


@rule
async def test_a_settled_question_is_never_due(scene: Scene) -> None:
    await ask(scene, act_at=1_000_010.0)
    await scene.settle("r.0")
    scene.clock.advance(60)
    assert await scene.store.due_questions(10) == ([], None)


@rule
@pytest.mark.parametrize("only", [{"act_at": 1_000_000.0}, {"assignees": ("user:ana",)}])
async def test_a_plain_promise_is_in_no_inbox(scene: Scene, only: dict[str, Any]) -> None:
    run = await scene.run()
    [field] = only
    with pytest.raises(InvalidValue, match=f"^{field}: "):
        await scene.store.create_promise(NewPromise("p", **only))
    with pytest.raises(InvalidValue, match=f"^{field}: "):
        await scene.append(run, entry(0), opens=[promise("r", id="p", **only)])
    with pytest.raises(NotFound):
        await scene.store.get_promise("p")
    assert await scene.journal() == []


# The inbox


@rule
async def test_an_inbox_has_questions_for_its_names_and_for_any_user(scene: Scene) -> None:
    await ask(scene, "a", assignees=("user:ana",))
    await ask(scene, "b", assignees=("group:finance", "user:ana", "user:ana"))
    await ask(scene, "c")
    await ask(scene, "d", assignees=("user:bob",))
    await ask(scene.within("other"), "e", assignees=("user:ana",))
    await scene.store.create_promise(NewPromise("free", PromiseKind.QUESTION, assignees=("user:ana",)))
    assert await answerable(scene, "user:ana", "group:finance") == ["a.0", "b.0", "c.0", "free"]
    assert await answerable(scene, "user:bob") == ["c.0", "d.0"]
    assert await answerable(scene) == ["c.0"]
    assert await answerable(scene.within("other"), "user:ana") == ["e.0"]


@rule
async def test_an_inbox_is_paged_and_no_question_is_in_it_twice(scene: Scene) -> None:
    for n in range(7):
        await ask(scene, f"r{n}", assignees=("user:ana", "group:finance") if n % 2 else ())
    which = PromiseFilter(
        PromiseKind.QUESTION,
        PromiseState.PENDING,
        answerable_by=frozenset(("user:ana", "group:finance")),
    )
    found: list[str] = []
    after = None
    while True:
        page = await scene.store.list_promises(which, after=after, limit=2)
        assert len(page.items) <= 2
        found += [each.id for each in page.items]
        if page.next is None:
            break
        after = page.next
    assert found == [f"r{n}.0" for n in range(7)]


@rule
async def test_an_inbox_follows_who_may_answer_and_what_is_settled(scene: Scene) -> None:
    asked = await ask(scene, assignees=("user:ana",))
    await scene.store.amend("r.0", amendment(asked, assignees=("user:bob",)))
    assert (await answerable(scene, "user:ana"), await answerable(scene, "user:bob")) == ([], ["r.0"])
    again = await scene.store.get_promise("r.0")
    await scene.store.amend("r.0", amendment(again, assignees=()))
    assert await answerable(scene, "user:ana") == ["r.0"]
    await scene.settle("r.0")
    assert await answerable(scene, "user:ana", "user:bob") == []


@rule
@pytest.mark.parametrize("end", ["time", "close", "run"])
async def test_a_question_leaves_the_inbox_however_it_ends(scene: Scene, end: str) -> None:
    run = await scene.run()
    await scene.append(run, opens=[question("r", assignees=("user:ana",), due_at=1_000_010.0)])
    assert await answerable(scene, "user:ana") == ["r.0"]
    if end == "time":
        scene.clock.advance(10)
        await scene.store.due()
    elif end == "close":
        await scene.append(run, entry(0), closes=["r.0"])
    else:
        await scene.complete(run)
    assert await answerable(scene, "user:ana") == []
    assert await kinds(scene) == [
        AuditKind.ASKED,
        AuditKind.TIMED_OUT if end == "time" else AuditKind.CANCELLED,
    ]


@rule
async def test_an_inbox_is_asked_for_pending_questions_only(scene: Scene) -> None:
    names = frozenset(("user:ana",))
    for which in (
        PromiseFilter(answerable_by=names),
        PromiseFilter(PromiseKind.PROMISE, PromiseState.PENDING, answerable_by=names),
        PromiseFilter(PromiseKind.QUESTION, PromiseState.RESOLVED, answerable_by=names),
        PromiseFilter(PromiseKind.QUESTION, PromiseState.PENDING, "r", answerable_by=names),
    ):
        with pytest.raises(InvalidValue):
            await scene.store.list_promises(which)


@rule
async def test_lists_take_no_more_names_than_a_person_has_and_only_texts(scene: Scene) -> None:
    await ask(scene, assignees=("group:199",))
    groups = [f"group:{n}" for n in range(201)]
    assert await answerable(scene, *groups[:200]) == ["r.0"]
    with pytest.raises(InvalidValue, match="^answerable_by: "):
        await answerable(scene, *groups)
    for bad in ("a\0", "\ud800"):
        with pytest.raises(InvalidValue, match="^answerable_by: "):
            await answerable(scene, "user:ana", bad)
        with pytest.raises(InvalidValue, match="^run_id: "):
            await scene.store.list_promises(PromiseFilter(run_id=bad))
        with pytest.raises(InvalidValue, match="^question_id: "):
            await trail(scene, question_id=bad)
        with pytest.raises(InvalidValue, match="^run_id: "):
            await trail(scene, run_id=bad)


@rule
async def test_questions_are_listed_by_workflow_and_group_of_the_asking_run(scene: Scene) -> None:
    await ask(scene, "a", assignees=("user:ana",))
    await ask(scene, "b", workflow="another", assignees=("user:ana", "user:bob"))
    await ask(scene, "c", workflow="another")
    await scene.start("d", workflow="another", group="elsewhere")
    [claim] = await scene.claim(workflows=["another"], group="elsewhere")
    await scene.append(claim.run, opens=[question("d", assignees=("user:bob",))])
    await scene.store.create_promise(NewPromise("free", PromiseKind.QUESTION))
    await ask(scene.within("other"), "e", workflow="another")
    of_another = {"workflow": "another"}
    assert await asked_by(scene, **of_another) == ["b.0", "c.0", "d.0"]
    assert await asked_by(scene, group="elsewhere") == ["d.0"]
    assert await asked_by(scene, **of_another, group=GROUP) == ["b.0", "c.0"]
    assert await asked_by(scene, **of_another, run_id="b") == ["b.0"]
    assert await asked_by(scene, **of_another, run_id="a") == []
    assert await asked_by(scene, **of_another, answerable_by=frozenset(("user:bob", "user:ana"))) == [
        "b.0",
        "c.0",
        "d.0",
    ]
    assert await asked_by(scene, **of_another, answerable_by=frozenset()) == ["c.0"]
    assert await asked_by(scene, group="elsewhere", answerable_by=frozenset(("user:ana",))) == []
    assert await asked_by(scene, workflow="unknown") == []
    await scene.settle("c.0")
    assert await asked_by(scene, **of_another) == ["b.0", "d.0"]


@rule
@pytest.mark.parametrize("names", [None, frozenset(("user:ana",))])
async def test_questions_of_a_workflow_are_found_behind_any_number_of_others(
    scene: Scene, names: frozenset[str] | None
) -> None:
    run = await scene.run("first", workflow="another")
    await scene.append(run, opens=[replace(question("first"), assignees=("user:ana",))])
    crowd = await scene.run("crowd")
    others = [replace(question("crowd"), id=f"crowd.{n}", n=n) for n in range(LOOKED_THROUGH + 3)]
    await scene.append(crowd, opens=others)
    for n in range(3):
        await ask(scene, f"r{n}", workflow="another")
    expected = ["first.0", "r0.0", "r1.0", "r2.0"]
    for limit in (1, 2, 3, 100):
        assert await asked_by(scene, workflow="another", answerable_by=names, limit=limit) == expected


@rule
async def test_only_pending_questions_are_listed_by_what_asks(scene: Scene) -> None:
    for which in (
        PromiseFilter(workflow="refund"),
        PromiseFilter(PromiseKind.PROMISE, PromiseState.PENDING, workflow="refund"),
        PromiseFilter(PromiseKind.QUESTION, PromiseState.RESOLVED, workflow="refund"),
        PromiseFilter(PromiseKind.QUESTION, PromiseState.PENDING, workflow="a\0"),
    ):
        with pytest.raises(InvalidValue, match="^workflow: "):
            await scene.store.list_promises(which)
    with pytest.raises(InvalidValue, match="^group: "):
        await scene.store.list_promises(PromiseFilter(group="default"))
    with pytest.raises(InvalidValue, match="^group: "):
        await scene.store.list_promises(
            PromiseFilter(PromiseKind.QUESTION, PromiseState.PENDING, group="\ud800")
        )


# Runs know who asked for them


@rule
async def test_a_run_keeps_who_started_it_first(scene: Scene) -> None:
    run = await scene.start(started_by="user:ana")
    assert run.started_by == "user:ana"
    assert (await scene.start(started_by="user:bob")).started_by == "user:ana"
    [claim] = await scene.claim()
    assert claim.run.started_by == "user:ana"
    assert (await scene.store.get_run("r")).started_by == "user:ana"
    assert (await scene.start("s")).started_by is None


# The audit trail


@rule
async def test_what_is_asked_and_how_it_is_settled_is_recorded_with_it(scene: Scene) -> None:
    await ask(scene, data='{"text": "Refund?"}', assignees=("user:ana",), due_at=1_000_500.0)
    scene.clock.advance(5)
    await scene.settle("r.0", replace(NO, note="too much", request_id="q"))
    first, last = await trail(scene)
    assert (first.kind, first.question_id, first.run_id, first.by, first.at) == (
        AuditKind.ASKED,
        "r.0",
        "r",
        None,
        1_000_000.0,
    )
    assert json.loads(first.details or "") == {
        "data": '{"text": "Refund?"}',
        "assignees": ["user:ana"],
        "due_at": 1_000_500.0,
    }
    assert (last.kind, last.question_id, last.by, last.at) == (
        AuditKind.RESOLVED,
        "r.0",
        "user:bob",
        1_000_005.0,
    )
    assert json.loads(last.details or "") == {"value": "false", "note": "too much", "request_id": "q"}
    assert first.id != last.id
    assert (first.seq, first.hash) == (None, None)


@rule
async def test_promises_and_refused_answers_leave_no_trail_of_the_store(scene: Scene) -> None:
    await scene.store.create_promise(NewPromise("p"))
    await scene.store.settle("p", PromiseKind.PROMISE, YES)
    assert await trail(scene) == []


@rule
async def test_an_event_recorded_twice_is_there_once(scene: Scene) -> None:
    await scene.store.record([voted("e1"), voted("e2")])
    await scene.store.record([voted("e2"), voted("e3")])
    assert [event.id for event in await trail(scene)] == ["e1", "e2", "e3"]
    assert (await trail(scene))[0] == AuditEvent(
        "default",
        "e1",
        1_000_000.0,
        AuditKind.VOTED,
        "r.0",
        "r",
        "user:ana",
        '{"value":"true"}',
        origin=scene.origin,
    )


@rule
async def test_an_event_of_another_namespace_takes_no_id_here(scene: Scene) -> None:
    other = scene.within("other")
    await other.store.record([voted("e")])
    assert await other.store.seal([Seal(0, "e", "theirs")])
    await scene.store.record([voted("e")])
    assert [(event.id, event.hash) for event in await trail(scene)] == [("e", None)]
    assert await scene.store.seal([Seal(0, "e", "ours")])
    assert [event.hash for event in await trail(scene)] == ["ours"]
    [(seal, event)] = await scene.store.read_chain()
    assert event is not None
    assert (seal.hash, event.namespace, event.hash) == ("ours", "default", "ours")


@rule
async def test_the_trail_is_listed_by_question_by_run_and_in_pages(scene: Scene) -> None:
    for n in range(5):
        await scene.store.record([voted(f"a{n}", "x.0"), voted(f"b{n}", "y.0")])
    await scene.store.record([NewAuditEvent("c", AuditKind.REFUSED, "x.0", "other")])
    await scene.within("other").store.record([voted("hidden", "x.0")])
    assert [event.id for event in await trail(scene, question_id="x.0")] == [
        "a0",
        "a1",
        "a2",
        "a3",
        "a4",
        "c",
    ]
    assert [event.id for event in await trail(scene, run_id="other")] == ["c"]
    assert [event.id for event in await trail(scene, question_id="x.0", run_id="r")] == [
        "a0",
        "a1",
        "a2",
        "a3",
        "a4",
    ]
    first = await scene.store.list_audit(AuditFilter(question_id="y.0"), limit=3)
    second = await scene.store.list_audit(AuditFilter(question_id="y.0"), after=first.next, limit=3)
    assert [event.id for event in (*first.items, *second.items)] == ["b0", "b1", "b2", "b3", "b4"]
    assert second.next is None


@rule
async def test_the_trail_outlives_its_run(scene: Scene) -> None:
    run = await scene.run()
    await scene.append(run, opens=[question("r")])
    await scene.complete(run)
    scene.clock.advance(100)
    assert await scene.store.delete_ended(1_000_050.0, 10) == 1
    assert await kinds(scene, run_id="r") == [AuditKind.ASKED, AuditKind.CANCELLED]


@rule
async def test_seals_put_events_into_the_chain_of_their_namespace(scene: Scene) -> None:
    store, other = scene.store, scene.within("other").store
    await store.record([voted("e1"), voted("e2"), voted("e3")])
    await other.record([voted("o1")])
    assert [event.id for event in await store.unsealed(10)] == ["e1", "e2", "e3", "o1"]
    assert [event.id for event in await store.unsealed(2)] == ["e1", "e2"]
    assert await store.last_seal() is None
    assert await store.seal([Seal(0, "e2", "h0"), Seal(1, "e1", "h1")])
    assert await other.seal([Seal(0, "o1", "g0")])
    assert [event.id for event in await store.unsealed(10)] == ["e3"]
    assert (await store.last_seal(), await other.last_seal()) == (Seal(1, "e1", "h1"), Seal(0, "o1", "g0"))
    assert [(seal, event and event.id) for seal, event in await store.read_chain()] == [
        (Seal(0, "e2", "h0"), "e2"),
        (Seal(1, "e1", "h1"), "e1"),
    ]
    [(_, event)] = await store.read_chain(after=0, limit=1)
    assert event is not None
    assert (event.id, event.seq, event.hash) == ("e1", 1, "h1")
    assert {event.id: event.hash for event in await trail(scene)} == {"e1": "h1", "e2": "h0", "e3": None}
    assert [seal.event_id for seal, _ in await other.read_chain()] == ["o1"]


@rule
@pytest.mark.parametrize(
    "seals",
    [
        [Seal(0, "e2", "h")],
        [Seal(2, "e2", "h")],
        [Seal(1, "e2", "h"), Seal(3, "e3", "h")],
        [Seal(1, "e1", "h")],
        [Seal(1, "e2", "h"), Seal(2, "e1", "h")],
        [Seal(1, "e2", "h"), Seal(2, "e2", "h")],
        [Seal(1, "o1", "h")],
        [Seal(1, "none", "h")],
    ],
)
async def test_a_chain_has_no_hole_no_fork_and_no_event_twice(scene: Scene, seals: list[Seal]) -> None:
    await scene.store.record([voted("e1"), voted("e2"), voted("e3")])
    await scene.within("other").store.record([voted("o1")])
    assert await scene.store.seal([Seal(0, "e1", "h0")])
    assert not await scene.store.seal(seals)
    assert [seal for seal, _ in await scene.store.read_chain()] == [Seal(0, "e1", "h0")]
    assert [event.id for event in await scene.store.unsealed(10)] == ["e2", "e3", "o1"]


@rule
async def test_of_two_who_seal_at_once_one_does(scene: Scene) -> None:
    await scene.store.record([voted(f"e{n}") for n in range(4)])
    done = await asyncio.gather(*(scene.store.seal([Seal(0, f"e{n}", f"h{n}")]) for n in range(4)))
    assert done.count(True) == 1
    assert len(await scene.store.read_chain()) == 1


SIGNAL = NewSignal("r", "context", '{"tenant":"t2"}', "ana")


async def told(scene: Scene, *run_ids: str) -> list[tuple[str, str, Any]]:
    """What runs were told, oldest first of each."""
    messages = await scene.store.read_messages(run_ids)
    return [(each.run_id, each.kind.value, each.name) for each, _ in messages]


@rule
async def test_a_signal_that_comes_with_an_answer_is_there_before_it(scene: Scene) -> None:
    asked = await ask(scene)
    assert (await scene.store.amend("r.0", amendment(asked, act_at=None, settlement=YES, signal=SIGNAL)))[1]
    assert await scene.state("r") is RunState.READY
    [claim] = await scene.claim()
    assert await told(scene, "r") == [("r", "signal", "context"), ("r", "settled", "r.0")]
    signal = claim.messages[0]
    assert (json.loads(signal.value or ""), signal.by) == ({"tenant": "t2"}, "ana")


@rule
async def test_a_signal_is_not_left_without_what_it_comes_with(scene: Scene) -> None:
    asked = await ask(scene)
    change = amendment(asked, act_at=None, settlement=YES, signal=SIGNAL)
    assert not (await scene.store.amend("r.0", replace(change, version=7)))[1]
    assert await told(scene, "r") == []
    assert await scene.state("r") is RunState.PAUSED
    assert (await scene.store.amend("r.0", change, token="t"))[1]
    assert (await scene.store.amend("r.0", change, token="t"))[1]
    assert not (await scene.store.amend("r.0", change))[1]
    assert len(await told(scene, "r")) == 2


@rule
async def test_a_signal_reaches_another_run_without_an_end_but_no_ended_run(
    scene: Scene,
) -> None:
    asked = await ask(scene)
    await ask(scene, "other")
    for_other = replace(SIGNAL, run_id="other")
    asked, done = await scene.store.amend("r.0", amendment(asked, signal=for_other))
    assert done
    assert [await scene.state(id) for id in ("r", "other")] == [RunState.PAUSED, RunState.READY]
    assert await told(scene, "r", "other") == [("other", "signal", "context")]
    [claim] = await scene.claim()
    await scene.complete(claim.run)
    last = amendment(asked, act_at=None, settlement=YES, signal=for_other)
    assert (await scene.store.amend("r.0", last))[1]
    assert await told(scene, "r", "other") == [("r", "settled", "r.0")]
    with pytest.raises(InvalidValue):
        await scene.store.amend("r.0", replace(last, signal=replace(SIGNAL, name="nul \0")))
