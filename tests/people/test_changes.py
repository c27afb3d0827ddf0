"""However many people and servers act on a question at once, on every store: each event happens once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from signoff import Quorum
from signoff.errors import AlreadySettled, InvalidValue, NotAllowed, NotFound, QuestionClaimed, QuestionTooNew
from signoff.people.questions.answers import answer
from signoff.people.questions.deadlines import serve_questions
from signoff.people.questions.policies import Escalation
from signoff.people.questions.question import Question
from signoff.people.questions.question_operations import claim, delegate
from signoff.people.questions.question_state import QuestionState
from signoff.records import (
    Amendment,
    AuditKind,
    NewPromise,
    Promise,
    PromiseKind,
    PromiseState,
    RunState,
    Settlement,
)
from signoff.records.responders import Responder
from signoff.stores.contract.leases import Write
from signoff.testing import VirtualClock
from tests.people.asked import ask, kinds
from tests.stores.scene import Scene, rule


@rule
async def test_of_many_votes_at_once_each_counts_once_and_one_settles(scene: Scene) -> None:
    question = await ask(scene, quorum=Quorum(2, of=3))
    said = await asyncio.gather(
        *(answer(scene.store, question.id, True, user_id=f"user{n % 32}") for n in range(64)),
        return_exceptions=True,
    )
    settled = await scene.store.get_promise(question.id)
    votes = json.loads(settled.value or "")["votes"]
    assert settled.state is PromiseState.RESOLVED
    assert len(votes) == 2
    assert len({vote["user_id"] for vote in votes}) == 2
    winners = [each for each in said if isinstance(each, Promise)]
    assert {
        QuestionState.of(each, 0.0).vote_of(Responder(votes[0]["user_id"])) is not None for each in winners
    } == {True}
    assert all(isinstance(each, Promise | AlreadySettled) for each in said)
    assert [each.state for each in winners].count(PromiseState.RESOLVED) == 1
    counted = await kinds(scene)
    assert (counted.count(AuditKind.VOTED), counted.count(AuditKind.RESOLVED)) == (2, 1)
    assert counted.count(AuditKind.REFUSED) == sum(isinstance(each, AlreadySettled) for each in said)
    assert len(await scene.messages()) == 1
    assert await scene.state() is RunState.READY


@rule
async def test_of_many_who_claim_at_once_one_has_it(scene: Scene) -> None:
    question = await ask(scene)
    said = await asyncio.gather(
        *(claim(scene.store, question.id, Responder(f"user{n}")) for n in range(16)), return_exceptions=True
    )
    assert sum(isinstance(each, Promise) for each in said) == 1
    assert (await kinds(scene)).count(AuditKind.CLAIMED) == 1


@rule
async def test_what_time_brings_happens_once_however_many_serve_it(scene: Scene) -> None:
    await ask(
        scene,
        assignees=["user:ana"],
        remind_every=60.0,
        escalations=[Escalation(90.0, ["user:bob"])],
        timeout_seconds=200.0,
        timeout_answer='{"approved": false}',
    )
    await ask(scene.within("other"), remind_every=60.0)
    for _ in range(5):
        await asyncio.gather(*(serve_questions(scene.store) for _ in range(6)))
        scene.clock.advance(50)
    await asyncio.gather(*(serve_questions(scene.store) for _ in range(6)))
    assert await kinds(scene) == [
        AuditKind.ASKED,
        AuditKind.ESCALATED,
        AuditKind.REMINDED,
        AuditKind.REMINDED,
        AuditKind.DEFAULTED,
        AuditKind.RESOLVED,
    ]
    assert (await kinds(scene.within("other"))).count(AuditKind.REMINDED) == 4
    assert (await scene.store.get_promise("r.0")).value == '{"approved": false}'
    assert await scene.state() is RunState.READY


@rule
async def test_serving_tells_when_there_is_something_to_do_next(scene: Scene) -> None:
    question = await ask(scene, remind_every=60.0)
    assert await serve_questions(scene.store) == question.created_at + 60
    scene.clock.advance(60)
    assert await serve_questions(scene.store) == question.created_at + 120
    await scene.store.settle("r.0", PromiseKind.QUESTION, Settlement(PromiseState.CANCELLED))
    assert await serve_questions(scene.store) is None


@rule
async def test_an_unreadable_question_stops_no_other(scene: Scene) -> None:
    run = await scene.run("broken")
    new = NewPromise(
        "broken.0",
        PromiseKind.QUESTION,
        "broken",
        0,
        data='{"policy": {"lottery": true}}',
        act_at=1_000_001.0,
    )
    assert await scene.store.pause(Write("broken", run.epoch, opens=[new]), wakes=0, wake_at=None)
    await ask(scene, remind_every=60.0)
    scene.clock.advance(61)
    await serve_questions(scene.store)
    assert (await kinds(scene)).count(AuditKind.REMINDED) == 1


@rule
async def test_an_answer_and_a_delegation_at_once_do_not_both_win(scene: Scene) -> None:
    question = await ask(scene, assignees=["user:ana"])
    answered, delegated = await asyncio.gather(
        answer(scene.store, question.id, True, user_id="ana"),
        delegate(scene.store, question.id, Responder("ana"), ["user:bob"]),
        return_exceptions=True,
    )
    outcome = await scene.store.get_promise(question.id)
    if isinstance(delegated, Promise):
        assert isinstance(answered, NotAllowed)
        assert (outcome.state, outcome.assignees) == (PromiseState.PENDING, ("user:bob",))
    else:
        assert isinstance(delegated, AlreadySettled)
        assert outcome.state is PromiseState.RESOLVED


class Slow:
    """A store on which another caller acts between a caller's read and its write."""

    def __init__(self, store: Any, meanwhile: Callable[[], Awaitable[Any]]) -> None:
        self._store = store
        self._meanwhile = [meanwhile]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def settle(self, *args: Any, **kwargs: Any) -> Any:
        while self._meanwhile:
            await self._meanwhile.pop()()
        return await self._store.settle(*args, **kwargs)


@rule
async def test_a_claim_during_an_answer_wins(scene: Scene) -> None:
    question = await ask(scene)
    slow = Slow(scene.store, lambda: claim(scene.store, question.id, Responder("ana")))
    with pytest.raises(QuestionClaimed):
        await answer(slow, question.id, True, user_id="bob")  # pyright: ignore[reportArgumentType]
    assert (await scene.store.get_promise(question.id)).state is PromiseState.PENDING


@rule
@pytest.mark.parametrize(
    "policy", [{"needs_mfa": True}, {"escalations": [{"after_seconds": 1, "to": ["user:a"], "by": "fax"}]}]
)
async def test_no_answer_passes_a_policy_that_this_version_does_not_know(
    scene: Scene, policy: dict[str, Any]
) -> None:
    data = Question.make("Deploy?").to_json()
    new = NewPromise("q", PromiseKind.QUESTION, data=json.dumps({**json.loads(data), "policy": policy}))
    await scene.store.create_promise(new)
    for attempt in (
        answer(scene.store, "q", True, user_id="ana"),
        claim(scene.store, "q", Responder("ana")),
    ):
        with pytest.raises(QuestionTooNew, match="upgrade"):
            await attempt
    assert (await scene.store.get_promise("q")).state is PromiseState.PENDING


@rule
async def test_progress_of_a_newer_version_is_not_written_over(scene: Scene) -> None:
    question = await ask(scene)
    newer = Amendment(0, '{"seals": 2}', (), None)
    await scene.store.amend(question.id, newer)
    with pytest.raises(QuestionTooNew):
        await answer(scene.store, question.id, True, user_id="ana")
    assert (await scene.store.get_promise(question.id)).progress == '{"seals": 2}'


@rule
async def test_many_unreadable_questions_delay_no_other(scene: Scene) -> None:
    for n in range(150):
        await scene.store.create_promise(
            NewPromise(
                f"q{n}", PromiseKind.QUESTION, data='{"policy": {"lottery": true}}', act_at=1_000_001.0
            )
        )
    question = await ask(scene, remind_every=60.0)
    scene.clock.advance(61)
    await serve_questions(scene.store)
    assert (await kinds(scene)).count(AuditKind.REMINDED) == 1
    assert (await scene.store.get_promise(question.id)).act_at == question.created_at + 120


class Lagging:
    """A store whose clock is behind its database's."""

    def __init__(self, store: Any, seconds: float) -> None:
        self._store = store
        self.clock = VirtualClock(store.clock.now() - seconds)
        self.looks = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def within(self, namespace: str) -> Lagging:
        return self

    async def due_questions(self, limit: int) -> Any:
        self.looks += 1
        return await self._store.due_questions(limit)


@rule
async def test_a_process_whose_clock_lags_does_not_look_again_and_again(scene: Scene) -> None:
    await ask(scene, remind_every=60.0)
    scene.clock.advance(61)
    lagging = Lagging(scene.store, 5)
    assert await serve_questions(lagging) is None  # pyright: ignore[reportArgumentType]
    assert lagging.looks == 1
    assert AuditKind.REMINDED not in await kinds(scene)


@rule
async def test_nothing_is_done_with_what_is_no_question_of_this_namespace(scene: Scene) -> None:
    await scene.store.create_promise(NewPromise("p"))
    await ask(scene.within("other"), "hidden")
    for id in ("p", "hidden.0", "none"):
        with pytest.raises(NotFound):
            await claim(scene.store, id, Responder("ana"))
        with pytest.raises(NotFound):
            await delegate(scene.store, id, Responder("ana"), ["user:bob"])
        with pytest.raises(NotFound):
            await answer(scene.store, id, True, user_id="ana")
    assert await kinds(scene) == []


@rule
async def test_no_user_acts_in_signoffs_own_name(scene: Scene) -> None:
    question = await ask(scene)
    with pytest.raises(InvalidValue):
        await answer(scene.store, question.id, True, user_id="signoff:timeout")
    with pytest.raises(InvalidValue):
        await claim(scene.store, question.id, Responder("signoff:x"))
