"""Rules of request ids: a request id is remembered for its execution, and a repetition answers nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from signoff.errors import NotAllowed, RequestConflict
from signoff.people.questions.answers import answer
from signoff.people.questions.policies import Policy, Quorum
from signoff.people.questions.question import Question
from signoff.records import AuditKind, NewAuditEvent, PromiseKind, PromiseState
from tests.stores.scene import NO, YES, Scene, entry, promise, question, rule

ONCE = replace(YES, request_id="webhook-42")


async def asking_twice(scene: Scene, id: str = "r", **more: str) -> None:
    """A run that waits for a question and for a promise."""
    run = await scene.run(id, **more)
    assert await scene.pause(run, opens=[question(id), promise(id, 1)])


@rule
async def test_a_repeated_request_answers_no_other_promise_of_the_execution(scene: Scene) -> None:
    await asking_twice(scene)
    await scene.settle("r.0", ONCE)
    for settlement in (ONCE, replace(NO, request_id="webhook-42"), replace(YES, request_id="webhook-42")):
        with pytest.raises(RequestConflict, match="'webhook-42' was already used for 'r.0'") as caught:
            await scene.settle("r.1", settlement, kind=PromiseKind.PROMISE)
        assert (caught.value.target, caught.value.used_for) == ("r.1", "r.0")
    assert (await scene.store.get_promise("r.1")).state is PromiseState.PENDING
    assert [each.name for each in await scene.messages()] == ["r.0"]
    assert await scene.settle("r.0", ONCE) == (await scene.store.get_promise("r.0"), False)
    await scene.settle("r.1", replace(ONCE, request_id="webhook-43"), kind=PromiseKind.PROMISE)


@rule
async def test_a_request_id_is_one_of_a_signal_or_of_an_answer(scene: Scene) -> None:
    await asking_twice(scene)
    await scene.settle("r.0", replace(YES, request_id="a"))
    with pytest.raises(RequestConflict):
        await scene.store.signal("r", "paid", "true", request_id="a")
    await scene.store.signal("r", "paid", "true", request_id="b")
    with pytest.raises(RequestConflict):
        await scene.settle("r.1", replace(YES, request_id="b"), kind=PromiseKind.PROMISE)
    assert (await scene.store.get_promise("r.1")).state is PromiseState.PENDING


@rule
async def test_a_request_id_is_remembered_through_the_generations_of_a_run(scene: Scene) -> None:
    await asking_twice(scene)
    await scene.settle("r.0", ONCE)
    [claim] = await scene.claim()
    taken = [message.id for message in claim.messages]
    await scene.append(claim.run, entry(0), taken=taken, first_seq=1)
    assert await scene.pause(
        await scene.store.get_run("r"), opens=[question("r", 5)], closes=["r.1"], taken=taken
    )
    with pytest.raises(RequestConflict):
        await scene.settle("r.5", ONCE)
    assert (await scene.store.get_promise("r.5")).state is PromiseState.PENDING


@rule
async def test_a_request_id_is_remembered_for_the_session(scene: Scene) -> None:
    await asking_twice(scene, "one", session_id="chat")
    await scene.settle("one.0", ONCE)
    [claim] = await scene.claim()
    await scene.complete(claim.run)
    await asking_twice(scene, "two", session_id="chat")
    with pytest.raises(RequestConflict) as caught:
        await scene.settle("two.0", ONCE)
    assert caught.value.used_for == "one.0"
    assert (await scene.store.get_promise("two.0")).state is PromiseState.PENDING
    await asking_twice(scene, "three", session_id="another")
    assert (await scene.settle("three.0", ONCE))[1]


@rule
async def test_executions_and_namespaces_do_not_share_request_ids(scene: Scene) -> None:
    there = scene.within("other")
    for each, id in ((scene, "r"), (scene, "s"), (there, "r")):
        await asking_twice(each, id)
    assert (await scene.settle("r.0", ONCE))[1]
    assert (await scene.settle("s.0", ONCE))[1]
    assert (await there.settle("r.0", ONCE))[1]


@rule
async def test_a_request_id_is_forgotten_with_its_run(scene: Scene) -> None:
    await asking_twice(scene)
    await scene.settle("r.0", ONCE)
    [claim] = await scene.claim()
    await scene.complete(claim.run)
    scene.clock.advance(10)
    assert await scene.store.delete_ended(scene.clock.now(), 10) == 1
    await asking_twice(scene)
    assert (await scene.settle("r.1", ONCE, kind=PromiseKind.PROMISE))[1]


@rule
async def test_a_refused_answer_takes_no_request_id(scene: Scene) -> None:
    run = await scene.run()
    asked = Question.make("Pay?").to_json(None)
    opens = [
        replace(question("r", 0), data=asked, assignees=("user:bob",)),
        replace(question("r", 1), data=asked),
    ]
    assert await scene.pause(run, opens=opens)
    with pytest.raises(NotAllowed):
        await answer(scene.store, "r.0", True, user_id="ana", request_id="w")
    settled = await answer(scene.store, "r.1", True, user_id="ana", request_id="w")
    assert settled.state is PromiseState.RESOLVED


@rule
async def test_a_repeated_vote_counts_for_no_other_question_of_the_execution(scene: Scene) -> None:
    run = await scene.run()
    asked = Question.make("Pay?").to_json(Policy(quorum=Quorum(2, of=3)))
    assert await scene.pause(run, opens=[replace(question("r", n), data=asked) for n in (0, 1)])
    for _ in range(2):
        voted = await answer(scene.store, "r.0", True, user_id="ana", request_id="w")
        assert voted.state is PromiseState.PENDING
    with pytest.raises(RequestConflict):
        await answer(scene.store, "r.1", True, user_id="ana", request_id="w")
    assert (await scene.store.get_promise("r.1")).progress is None
    settled = await answer(scene.store, "r.0", True, user_id="bob", request_id="w2")
    assert settled.state is PromiseState.RESOLVED
    for user, request in (("ana", "w"), ("bob", "w2")):  # and again, now that it is decided
        assert await answer(scene.store, "r.0", True, user_id=user, request_id=request) == settled


@rule
async def test_a_snapshot_keeps_the_request_ids_of_answers(scene: Scene) -> None:
    await asking_twice(scene)
    await scene.settle("r.0", ONCE)
    there = scene.within("there")
    saved = (await scene.store.save_run("r")).within("there")
    loaded = NewAuditEvent("e1", AuditKind.LOADED, "", "r", "user:ana", '{"digest": "d"}')
    await there.store.load_run(saved, loaded)
    assert (await there.store.save_run("r")).runs[0].requests == saved.runs[0].requests
    with pytest.raises(RequestConflict):
        await there.settle("r.1", ONCE, kind=PromiseKind.PROMISE)
