"""Standing approvals: what they approve in their maker's name, and what they never do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from signoff import (
    Action,
    Alike,
    Answer,
    Context,
    Escalation,
    NotAllowed,
    NotFound,
    Quorum,
    Signoff,
    SignoffError,
)
from signoff.errors import AlreadySettled, InvalidValue, RegistrationError
from signoff.people.questions.answers import answer
from signoff.people.questions.deadlines import serve_questions
from signoff.people.questions.policies import Policy
from signoff.people.questions.question import Question
from signoff.people.questions.question_state import QuestionState
from signoff.people.questions.standing_approvals import revoke
from signoff.records import AuditKind, NewPromise, Promise, PromiseKind, PromiseState, RunState
from signoff.records.paging import AuditFilter, RuleFilter
from signoff.stores.contract.leases import Write
from signoff.testing import Environment, MemoryStore, environment
from tests.stores.scene import Scene, rule
from tests.support import in_asyncio

HOUR = 3600.0
MAIL: dict[str, Any] = {"to": "bob", "text": "Hello", "lines": [{"n": 1}, {"n": 2}]}


@asynccontextmanager
async def mailing(
    *, started_by: str | None = None, about: Any = None, **policy: Any
) -> AsyncGenerator[tuple[Environment, str]]:
    """An environment in which run ``r`` asks to send a first mail, and a next one with each signal."""
    app = Signoff(MemoryStore())

    @app.workflow
    async def send(ctx: Context) -> list[Any]:
        answers: list[Answer] = []
        said: dict[str, Any] = {"arguments": MAIL, "about": about}
        while said:
            action = Action(said.get("tool", "send_mail"), said["arguments"], said.get("about"))
            answers.append(
                await ctx.wait_for_user("Send?", action=action, **(policy | said.get("policy", {})))
            )
            said = await ctx.wait_for_signal("next")
        return [(each.approved, each.user_id, each.rule is not None) for each in answers]

    async with environment(app) as env:
        env.people.stay_silent("*")
        await env.client.start(send, id="r", started_by=started_by)
        await env.sleep(0)
        yield env, "r.1"


async def ask_next(env: Environment, run_id: str = "r", **said: Any) -> Promise:
    """Have a run ask the next question, and return it once the search for rules is done."""
    await env.client.signal(run_id, "next", {"arguments": MAIL, **said})
    await env.sleep(1)
    found = [each for each in env.store.model.tables.promises.values() if each.run_id == run_id]  # type: ignore[attr-defined]
    return found[-1]


def is_open(question: Promise) -> bool:
    return question.state is PromiseState.PENDING


async def kinds(env: Environment, question_id: str) -> list[AuditKind]:
    return [event.kind for event in (await env.client.inbox.history(question_id=question_id)).items]


@in_asyncio
async def test_what_is_like_it_is_approved_in_the_name_of_who_said_so() -> None:
    async with mailing(assignees=["group:desk"]) as (env, id):
        await env.client.answer(id, True, user_id="user:ana", groups=["desk"], alike=Alike(HOUR), note="fine")
        [made] = (await env.client.rules.list()).items
        assert (made.by, made.tool, made.run_id, made.groups) == ("ana", "send_mail", "r", ("desk",))
        assert (json.loads(made.arguments), made.question_id) == ({"": MAIL}, id)
        question = await ask_next(env)
        assert (question.state, question.settled_by) == (PromiseState.RESOLVED, "ana")
        assert json.loads(question.value or "") == {"approved": True, "rule": made.id}
        await env.client.signal("r", "next", {})
        result = await (await env.client.get("r")).result()
        assert result == [[True, "user:ana", False], [True, "ana", True]]
        assert await kinds(env, id) == [AuditKind.ASKED, AuditKind.RULE_MADE, AuditKind.RESOLVED]
        assert await kinds(env, question.id) == [AuditKind.ASKED, AuditKind.RULE_USED, AuditKind.RESOLVED]
        used = (await env.client.inbox.history(question_id=question.id)).items[1]
        assert (used.by, json.loads(used.details or "")) == ("ana", {"rule": made.id})
        assert (await env.client.rules.list()).items[0].uses == 1


@in_asyncio
@pytest.mark.parametrize(
    ("alike", "arguments", "approved"),
    [
        (Alike(HOUR), MAIL, True),
        (Alike(HOUR), {**MAIL, "text": "Bye"}, False),
        (Alike(HOUR), {**MAIL, "more": 1}, False),
        (Alike(HOUR, same=["/to"]), {"to": "bob", "text": "Bye"}, True),
        (Alike(HOUR, same=["/to"]), {"to": "eve", "text": "Hello"}, False),
        (Alike(HOUR, same=["/to"]), {"text": "Hello"}, False),
        (Alike(HOUR, same=["/to", "/text"]), {"to": "bob", "text": "Bye"}, False),
        (Alike(HOUR, same=["/lines/1"]), {"lines": [0, {"n": 2}]}, True),
        (Alike(HOUR, same=["/lines/1/n"]), {"lines": [0, {"n": 2.0}]}, False),
        (Alike(HOUR, same=["/lines/0/n"]), {"lines": [{"n": True}]}, False),
        (Alike(HOUR, same=["/lines/1"]), {"lines": {"1": {"n": 2}}}, True),
        (Alike(HOUR, same=["/lines/1"]), {"lines": "ab"}, False),
        (Alike(HOUR, any_arguments=True), {}, True),
    ],
    ids=repr,
)
async def test_it_is_like_it_if_the_same_is_where_it_must_be(
    alike: Alike, arguments: dict[str, Any], approved: bool
) -> None:
    async with mailing() as (env, id):
        await env.client.answer(id, True, user_id="ana", alike=alike)
        assert is_open(await ask_next(env, arguments=arguments)) is not approved


@in_asyncio
@pytest.mark.parametrize("alike", [Alike(HOUR), Alike(HOUR, same=["/to"]), Alike(HOUR, any_arguments=True)])
@pytest.mark.parametrize("about", [None, {"warning": "it is late"}])
async def test_a_rule_approves_only_what_is_about_the_very_same(alike: Alike, about: Any) -> None:
    async with mailing(about=about) as (env, id):
        await env.client.answer(id, True, user_id="ana", alike=alike)
        for other in (None, {"warning": "it is late"}, {"warning": "he has left"}, "late"):
            question = await ask_next(env, about=other)
            assert is_open(question) is (other != about)
            if is_open(question):
                await env.client.answer(question.id, True, user_id="bob")
                await env.sleep(1)


@in_asyncio
async def test_another_tool_and_another_run_are_not_alike_unless_it_is_for_all() -> None:
    async with mailing() as (env, id):
        await env.client.answer(id, True, user_id="ana", alike=Alike(HOUR))
        await env.client.start("send", id="s")
        await env.sleep(1)
        assert is_open(await env.store.get_promise("s.1"))
        await env.client.answer("s.1", True, user_id="ana", alike=Alike(HOUR, everywhere=True))
        await env.client.start("send", id="t")
        await env.sleep(1)
        assert not is_open(await env.store.get_promise("t.1"))
        assert is_open(await ask_next(env, tool="send_letter"))


@in_asyncio
async def test_a_session_rule_applies_to_its_later_runs_and_no_others() -> None:
    async with mailing() as (env, _):
        first = await env.client.start("send", id="c1", session_id="c")
        await env.sleep(1)
        await env.client.answer("c1.1", True, user_id="ana", alike=Alike(session=True, same=["/to"]))
        [made] = (await env.client.rules.list(session_id="c")).items
        assert (made.session_id, made.run_id, made.expires_at) == ("c", None, None)
        assert not is_open(await ask_next(env, "c1"))
        await first.cancel()
        env.clock.advance(100 * 24 * HOUR)
        await env.client.start("send", id="c2", session_id="c")
        await env.client.start("send", id="d1", session_id="d")
        await env.client.start("send", id="e1")
        await env.sleep(1)
        assert not is_open(await env.store.get_promise("c2.1"))
        assert is_open(await env.store.get_promise("d1.1"))
        assert is_open(await env.store.get_promise("e1.1"))
        assert is_open(await ask_next(env, "c2", arguments={"to": "eve"}))
        assert (await env.client.rules.list(in_force=True)).items[0].uses == 2
        await env.client.answer((await env.client.questions(run_id="c2")).items[0].id, False, user_id="bob")
        await env.client.rules.revoke(made.id, by="ana")
        assert is_open(await ask_next(env, "c2"))


@in_asyncio
async def test_what_is_approved_for_a_session_ends_with_its_time_and_its_uses() -> None:
    async with mailing() as (env, _):
        await env.client.start("send", id="c1", session_id="c")
        await env.sleep(1)
        await env.client.answer("c1.1", True, user_id="ana", alike=Alike(session=True, max_uses=1))
        assert not is_open(await ask_next(env, "c1"))
        asked = await ask_next(env, "c1")
        assert is_open(asked)
        await env.client.answer(asked.id, True, user_id="ana", alike=Alike(HOUR, session=True))
        assert not is_open(await ask_next(env, "c1"))
        env.clock.advance(HOUR)
        assert is_open(await ask_next(env, "c1"))


@in_asyncio
async def test_a_rule_for_a_session_needs_one() -> None:
    async with mailing() as (env, id):
        with pytest.raises(InvalidValue, match="no run in a session"):
            await env.client.answer(id, True, user_id="ana", alike=Alike(session=True))
        assert is_open(await env.store.get_promise(id))
        assert not (await env.client.rules.list()).items


@in_asyncio
async def test_it_ends_with_its_time_with_its_uses_and_when_it_is_revoked() -> None:
    async with mailing() as (env, id):
        await env.client.answer(id, True, user_id="ana", alike=Alike(HOUR, max_uses=1))
        assert not is_open(await ask_next(env))
        asked = await ask_next(env)
        assert is_open(asked)
        await env.client.answer(asked.id, True, user_id="ana", alike=Alike(HOUR))
        assert not is_open(await ask_next(env))
        env.clock.advance(HOUR)
        asked = await ask_next(env)
        assert is_open(asked)
        await env.client.answer(asked.id, True, user_id="ana", alike=Alike(HOUR))
        [made] = (await env.client.rules.list(user_id="user:ana", tool="send_mail", in_force=True)).items
        gone = await env.client.rules.revoke(made.id, by="olga", reason="enough")
        assert (gone.revoked_by, await env.client.rules.revoke(made.id, by="eva")) == ("olga", gone)
        assert not (await env.client.rules.list(in_force=True)).items
        assert is_open(await ask_next(env))
        [told] = [
            each for each in (await env.client.inbox.history()).items if each.kind is AuditKind.RULE_REVOKED
        ]
        assert (told.by, told.question_id) == ("olga", asked.id)
        assert json.loads(told.details or "") == {"rule": made.id, "reason": "enough"}
        with pytest.raises(NotFound):
            await env.client.rules.revoke("nothing")


@in_asyncio
@pytest.mark.parametrize(
    "policy",
    [
        {"assignees": ["user:bob"]},
        {"assignees": ["group:heads"]},
        {"exclude_requester": True, "requester": "ana"},
        {"exclude_requester": True, "requester": "user:ana"},
        {"quorum": {"approvals": 2, "of": 3}},
    ],
    ids=repr,
)
async def test_what_its_maker_may_not_approve_alone_no_rule_of_theirs_does(policy: dict[str, Any]) -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def send(ctx: Context, policy: dict[str, Any]) -> bool | None:
        if "quorum" in policy:
            policy["quorum"] = Quorum(**policy["quorum"])
        return (await ctx.wait_for_user("Send?", action=Action("mail", MAIL), **policy)).approved

    async with environment(app) as env:
        env.people.stay_silent("*")
        await env.client.start(send, {}, id="r")
        await env.sleep(1)
        alike = Alike(HOUR, any_arguments=True, everywhere=True)
        await env.client.answer("r.1", True, user_id="ana", groups=["desk"], alike=alike)
        await env.client.start(send, policy, id="s")
        await env.client.start(send, {"assignees": ["group:desk"]}, id="t")
        await env.sleep(1)
        assert is_open(await env.store.get_promise("s.1"))
        assert not is_open(await env.store.get_promise("t.1"))


@in_asyncio
@pytest.mark.parametrize(
    ("value", "who", "alike", "error"),
    [
        (False, {"user_id": "ana"}, Alike(HOUR), InvalidValue),
        (True, {}, Alike(HOUR), NotAllowed),
        (True, {"user_id": "ana"}, Alike(HOUR, same=["/cc"]), InvalidValue),
        (True, {"user_id": "ana"}, Alike(HOUR, same=["/lines/2"]), InvalidValue),
        (True, {"user_id": "ana"}, Alike(HOUR, same=["/lines/01"]), InvalidValue),
        (True, {"user_id": "ana"}, Alike(HOUR, same=["/lines/-"]), InvalidValue),
        (True, {"user_id": "ana"}, Alike(HOUR, same=["to"]), InvalidValue),
    ],
    ids=repr,
)
async def test_a_rule_that_makes_no_sense_answers_nothing(
    value: bool, who: dict[str, Any], alike: Alike, error: type[SignoffError]
) -> None:
    async with mailing() as (env, id):
        with pytest.raises(error):
            await env.client.answer(id, value, **who, alike=alike)
        assert is_open(await env.store.get_promise(id))
        assert not (await env.client.rules.list()).items


@pytest.mark.parametrize(
    "terms",
    [
        {"seconds": 0},
        {"seconds": 24 * HOUR + 1},
        {"seconds": float("nan")},
        {"seconds": 1, "same": []},
        {"seconds": 1, "same": "/to"},
        {"seconds": 1, "same": ["/to"] * 101},
        {"seconds": 1, "same": ["/to"], "any_arguments": True},
        {"seconds": 1, "max_uses": 0},
        {},
        {"everywhere": True},
        {"session": True, "everywhere": True},
        {"session": True, "seconds": 24 * HOUR + 1},
    ],
    ids=repr,
)
def test_what_is_said_of_a_rule_makes_sense(terms: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        Alike(**terms)


@in_asyncio
async def test_who_may_not_answer_makes_no_rule() -> None:
    async with mailing(assignees=["user:bob"]) as (env, id):
        with pytest.raises(NotAllowed):
            await env.client.answer(id, True, user_id="ana", alike=Alike(HOUR))
        await env.client.answer(id, True, user_id="bob")
        with pytest.raises(AlreadySettled):
            await env.client.answer(id, True, user_id="bob", alike=Alike(HOUR))
        assert not (await env.client.rules.list()).items


@in_asyncio
async def test_several_who_decide_make_no_rule() -> None:
    async with mailing(quorum=2) as (env, id):
        with pytest.raises(InvalidValue):
            await env.client.answer(id, True, user_id="ana", alike=Alike(HOUR))
        assert QuestionState.of(await env.store.get_promise(id), 0.0).progress.votes == ()


@in_asyncio
async def test_an_answer_that_is_repeated_makes_its_rule_once() -> None:
    async with mailing() as (env, id):
        said = {"user_id": "ana", "request_id": "a", "alike": Alike(HOUR)}
        first = await env.client.answer(id, True, **said)
        assert await env.client.answer(id, True, **said) == first
        assert len((await env.client.rules.list()).items) == 1


@in_asyncio
async def test_an_edited_proposal_makes_no_rule_and_a_rule_edits_nothing() -> None:
    async with mailing() as (env, id):
        await env.client.answer(id, True, user_id="ana", alike=Alike(HOUR, same=["/to"]))
        other = {"to": "bob", "text": "Bye"}
        question = await ask_next(env, arguments=other, policy={"proposal": other})
        assert json.loads(question.value or "")["proposal"] == other
        strange = {"to": "eve"}
        question = await ask_next(env, arguments=strange, policy={"proposal": strange})
        with pytest.raises(InvalidValue, match="without edits"):
            await env.client.answer(
                question.id, {"approved": True, "edited": other}, user_id="ana", alike=Alike(HOUR)
            )
        await env.client.answer(question.id, {"approved": True, "edited": other}, user_id="ana")


@in_asyncio
async def test_people_are_asked_as_ever_where_no_rule_fits() -> None:
    async with mailing(
        assignees=["user:ana"],
        remind_every=60,
        escalations=[Escalation(90, ["user:bob"])],
        timeout_seconds=150,
        timeout_answer=False,
    ) as (env, id):
        await env.sleep(151)
        assert await kinds(env, id) == [
            AuditKind.ASKED,
            AuditKind.REMINDED,
            AuditKind.ESCALATED,
            AuditKind.REMINDED,
            AuditKind.DEFAULTED,
            AuditKind.RESOLVED,
        ]


@pytest.mark.parametrize(
    "said",
    [
        {"action": Action("", {})},
        {"action": Action(" mail", {})},
        {"action": Action("ma\nil", {})},
        {"action": Action("m" * 257, {})},
        {"action": Action("mail", [1])},  # type: ignore[arg-type]
        {"action": Action("mail", {"a": 1}), "proposal": {"a": 2}},
        {"action": Action("mail", {"a": 1}), "proposal": {"a": True}},
        {"action": Action("mail", {}), "input_type": "text"},
    ],
    ids=repr,
)
def test_an_action_that_makes_no_sense_is_refused_where_it_is_asked(said: dict[str, Any]) -> None:
    with pytest.raises(RegistrationError):
        Question.make("Send?", **said)


def test_what_is_done_is_a_part_of_what_is_seen() -> None:
    questions = [
        Question.make("Send?"),
        Question.make("Send?", action=Action("mail", {"a": 1})),
        Question.make("Send?", action=Action("mail", {"a": 2})),
        Question.make("Send?", action=Action("post", {"a": 1})),
    ]
    assert len({each.digest for each in questions}) == 4
    assert all(Question.from_json(each.to_json()) == each for each in questions)


# On every store, however many act at once


async def ask_in(scene: Scene, run_id: str, session_id: str | None = None) -> Promise:
    """Start a run that pauses on a question with an action."""
    question = Question.make("Send?", action=Action("mail", MAIL))
    run, now = await scene.run(run_id, session_id=session_id), scene.clock.now()
    data = question.to_json(Policy(asked_at=now))
    new = NewPromise(f"{run_id}.0", PromiseKind.QUESTION, run_id, 0, data=data, act_at=now)
    assert await scene.store.pause(Write(run_id, run.epoch, opens=[new]), wakes=0, wake_at=None)
    return await scene.store.get_promise(new.id)


@rule
async def test_a_rule_answers_each_question_once_however_many_look(scene: Scene) -> None:
    first = await ask_in(scene, "r")
    await asyncio.gather(*(serve_questions(scene.store) for _ in range(4)))
    alike = Alike(HOUR, everywhere=True, max_uses=2)
    await answer(scene.store, first.id, True, user_id="ana", alike=alike)
    await scene.claim()
    asked = [await ask_in(scene, f"s{n}") for n in range(4)]
    elsewhere = await ask_in(scene.within("other"), "s")
    await asyncio.gather(*(serve_questions(scene.store) for _ in range(6)))
    states = [(await scene.store.get_promise(each.id)).state for each in asked]
    assert sorted(states) == [PromiseState.PENDING] * 2 + [PromiseState.RESOLVED] * 2
    assert (await scene.within("other").store.get_promise(elsewhere.id)).state is PromiseState.PENDING
    trail = (await scene.store.list_audit(AuditFilter(), limit=1000)).items
    assert [event.kind for event in trail].count(AuditKind.RULE_USED) == 2
    [made] = (await scene.store.list_rules(RuleFilter())).items
    assert made.uses == 2
    assert await serve_questions(scene.store) is None  # there is no other search


@rule
async def test_of_a_person_and_a_rule_at_once_one_answers(scene: Scene) -> None:
    await ask_in(scene, "r")
    await answer(scene.store, "r.0", True, user_id="ana", alike=Alike(HOUR, everywhere=True))
    await scene.claim()
    for n in range(4):
        asked = await ask_in(scene, f"s{n}")
        said, _ = await asyncio.gather(
            answer(scene.store, asked.id, False, user_id="bob"),
            serve_questions(scene.store),
            return_exceptions=True,
        )
        assert isinstance(said, AlreadySettled | Promise)
        settled = await scene.store.get_promise(asked.id)
        assert (settled.settled_by == "bob") == isinstance(said, Promise)
        assert await scene.state(f"s{n}") is RunState.READY
        await scene.claim()


@rule
async def test_a_rule_that_is_revoked_meanwhile_answers_nothing(scene: Scene) -> None:
    await ask_in(scene, "r")
    await answer(scene.store, "r.0", True, user_id="ana", alike=Alike(HOUR, everywhere=True))
    await scene.claim()
    [made] = (await scene.store.list_rules(RuleFilter())).items
    await ask_in(scene, "s")
    await asyncio.gather(revoke(scene.store, made.id, "ana"), serve_questions(scene.store))
    found = await scene.store.get_rule(made.id)
    assert ((await scene.store.get_promise("s.0")).state is PromiseState.RESOLVED) == (found.uses == 1)
    await scene.claim()
    await ask_in(scene, "t")
    await serve_questions(scene.store)
    assert (await scene.store.get_promise("t.0")).state is PromiseState.PENDING


@in_asyncio
async def test_a_rule_of_a_service_approves_only_what_is_assigned_to_it_by_name() -> None:
    async with mailing(assignees=["user:service:bot"]) as (env, id):
        alike = Alike(HOUR, any_arguments=True, everywhere=True)
        await env.client.answer(id, True, user_id="service:bot", roles=["operator"], alike=alike)
        for assignees, approved in (([], False), (["role:operator"], False), (["user:service:bot"], True)):
            asked = await ask_next(env, policy={"assignees": assignees})
            assert (asked.state is PromiseState.RESOLVED) == approved, assignees
            if not approved:
                await env.client.answer(asked.id, False, user_id="ana", roles=["operator"])


@rule
async def test_a_session_rule_matches_no_session_of_another_namespace(scene: Scene) -> None:
    elsewhere = scene.within("other")
    await ask_in(scene, "r", "c")
    await answer(scene.store, "r.0", True, user_id="ana", alike=Alike(session=True))
    [claim] = await scene.claim()
    await ask_in(elsewhere, "r", "c")
    await ask_in(scene, "s", "d")
    await serve_questions(scene.store)
    assert (await elsewhere.store.get_promise("r.0")).state is PromiseState.PENDING
    assert (await scene.store.get_promise("s.0")).state is PromiseState.PENDING
    await scene.complete(claim.run)
    await ask_in(scene, "t", "c")
    await serve_questions(scene.store)
    assert (await scene.store.get_promise("t.0")).state is PromiseState.RESOLVED
