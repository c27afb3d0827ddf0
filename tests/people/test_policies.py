"""A question's policy: assignees, quorum, and timed events. Time is virtual."""

from __future__ import annotations

import json
from typing import Any

import pytest

from signoff import (
    AlreadySettled,
    AlreadyVoted,
    Answer,
    Context,
    Escalation,
    NotAllowed,
    QuestionClaimed,
    Quorum,
    RunFailed,
    Signoff,
    SignoffError,
    WrongAnswer,
)
from signoff.errors import InvalidValue, RegistrationError, RequestConflict
from signoff.records import AuditKind, PromiseState
from signoff.testing import Environment, MemoryStore, environment
from tests.people.policy_runs import asking, kinds, opened, result
from tests.support import in_asyncio

HOUR = 3600.0


async def refused(env: Environment, id: str, value: Any = True, **who: Any) -> SignoffError:
    """Try to answer, and return why that is refused; the question must be as it was."""
    before = await env.store.get_promise(id)
    with pytest.raises(SignoffError) as caught:
        await env.client.answer(id, value, **who)
    assert await env.store.get_promise(id) == before
    return caught.value


# Who may answer


@in_asyncio
async def test_only_who_is_assigned_may_answer() -> None:
    async with asking(assignees=["user:ana", "group:finance", "role:lead"]) as (env, id):
        for who in ({}, {"user_id": "bob"}, {"user_id": "bob", "groups": ["ops"], "roles": ["finance"]}):
            assert isinstance(await refused(env, id, **who), NotAllowed)
        await env.client.answer(id, True, user_id="eva", groups=["finance"])
        answer = await result(env)
        assert (answer["approved"], answer["user_id"]) == (True, "eva")


@in_asyncio
@pytest.mark.parametrize(
    "who",
    [
        {"user_id": "ana"},
        {"user_id": "user:ana"},
        {"user_id": "x", "groups": ["finance"]},
        {"user_id": "x", "roles": ["lead"]},
    ],
)
async def test_a_user_a_group_or_a_role_is_enough(who: dict[str, Any]) -> None:
    async with asking(assignees=["user:ana", "group:finance", "role:lead"]) as (env, id):
        await env.client.answer(id, False, **who)
        assert (await result(env))["approved"] is False


@in_asyncio
async def test_a_requester_does_not_approve_whatever_groups_they_are_in() -> None:
    async with asking("user:ana", assignees=["group:finance"], exclude_requester=True) as (env, id):
        for name in ("ana", "user:ana"):
            error = await refused(env, id, user_id=name, groups=["finance"])
            assert isinstance(error, NotAllowed)
            assert "four eyes" in str(error)
        assert isinstance(await refused(env, id, groups=["finance"]), NotAllowed)
        await env.client.answer(id, True, user_id="bob", groups=["finance"])
        assert (await result(env))["user_id"] == "bob"


@in_asyncio
async def test_four_eyes_need_a_known_requester() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def ask(ctx: Context) -> Answer:
        return await ctx.wait_for_user("Deploy?", exclude_requester=True)

    async with environment(app) as env:
        with pytest.raises(RegistrationError, match="started_by"):
            await env.run(ask)


@in_asyncio
async def test_a_child_runs_requester_is_its_parents() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def child(ctx: Context) -> bool:
        answer = await ctx.wait_for_user("Deploy?", exclude_requester=True)
        return answer.approved is True

    @app.workflow
    async def parent(ctx: Context) -> bool:
        return await ctx.rfc(child)

    async with environment(app) as env:
        env.people.stay_silent("*")
        handle = await env.client.start(parent, id="p", started_by="user:ana")
        await env.sleep(0)
        [question] = await opened(env)
        with pytest.raises(NotAllowed):
            await env.client.answer(question.id, True, user_id="ana")
        await env.client.answer(question.id, True, user_id="bob")
        assert await handle.result() is True


@in_asyncio
async def test_no_user_answers_in_signoffs_own_name() -> None:
    async with asking() as (env, id):
        for name in ("signoff:timeout", "", " "):
            assert isinstance(await refused(env, id, user_id=name), InvalidValue)


# How many must agree


@in_asyncio
async def test_a_quorum_approves_with_the_last_vote_it_needs_and_tells_who_voted() -> None:
    async with asking(quorum=Quorum(2, of=3)) as (env, id):
        pending = await env.client.answer(id, True, user_id="ana", note="fine")
        assert pending.state is PromiseState.PENDING
        await env.client.answer(id, False, user_id="bob")
        settled = await env.client.answer(id, True, user_id="eva")
        assert settled.state is PromiseState.RESOLVED
        answer = await result(env)
        assert (answer["approved"], answer["user_id"]) == (True, "eva")
        assert [(vote["user_id"], vote["approved"], vote["note"]) for vote in answer["votes"]] == [
            ("ana", True, "fine"),
            ("bob", False, None),
            ("eva", True, None),
        ]
        assert await kinds(env) == [AuditKind.ASKED, *[AuditKind.VOTED] * 3, AuditKind.RESOLVED]


@in_asyncio
@pytest.mark.parametrize(
    ("quorum", "votes", "approved"),
    [
        (2, [True, True], True),
        (2, [False], False),
        (2, [True, False], False),
        (Quorum(2, of=3), [False, False], False),
        (Quorum(1, of=3), [False, False, False], False),
        (Quorum(1, of=3), [False, False, True], True),
        (Quorum(3, of=5), [False, True, False, True, True], True),
        (Quorum(3, of=5), [False, True, False, True, False], False),
    ],
)
async def test_a_quorum_is_decided_as_soon_as_no_vote_can_change_it(
    quorum: Quorum | int, votes: list[bool], approved: bool
) -> None:
    async with asking(quorum=quorum) as (env, id):
        for n, vote in enumerate(votes):
            assert (await env.store.get_promise(id)).state is PromiseState.PENDING
            await env.client.answer(id, vote, user_id=f"user{n}")
        assert (await result(env))["approved"] is approved
        assert isinstance(await refused(env, id, user_id="late"), AlreadySettled)


@in_asyncio
async def test_one_person_has_one_vote_and_does_not_change_it() -> None:
    async with asking(quorum=2) as (env, id):
        first = await env.client.answer(id, True, user_id="ana", request_id="a")
        assert await env.client.answer(id, True, user_id="user:ana", request_id="b") == first
        assert isinstance(await refused(env, id, False, user_id="ana"), AlreadyVoted)
        assert isinstance(await refused(env, id), NotAllowed)
        settled = await env.client.answer(id, True, user_id="bob", request_id="c")
        assert await env.client.answer(id, True, user_id="ana", request_id="a") == settled
        assert await env.client.answer(id, True, user_id="bob", request_id="c") == settled
        assert isinstance(await refused(env, id, user_id="ana", request_id="other"), AlreadySettled)


@pytest.mark.parametrize("quorum", [0, -1, True, 1.5, "2"])
def test_what_is_no_quorum_is_refused(quorum: Any) -> None:
    with pytest.raises(SignoffError):
        Quorum(quorum, 3)


# Claiming and delegating


@in_asyncio
async def test_only_the_claimant_answers_a_claimed_question() -> None:
    async with asking(assignees=["group:finance"]) as (env, id):
        inbox = env.client.inbox
        with pytest.raises(NotAllowed):
            await inbox.claim(id, user_id="bob")
        claimed = await inbox.claim(id, user_id="ana", groups=["finance"])
        assert await inbox.claim(id, user_id="ana", groups=["finance"]) == claimed
        with pytest.raises(QuestionClaimed, match="user:ana"):
            await inbox.claim(id, user_id="eva", groups=["finance"])
        assert isinstance(await refused(env, id, user_id="eva", groups=["finance"]), QuestionClaimed)
        with pytest.raises(NotAllowed):
            await inbox.release(id, user_id="eva")
        await inbox.release(id, user_id="ana")
        await env.client.answer(id, True, user_id="eva", groups=["finance"])
        with pytest.raises(AlreadySettled):
            await inbox.claim(id, user_id="ana", groups=["finance"])
        assert await kinds(env) == [
            AuditKind.ASKED,
            AuditKind.REFUSED,
            AuditKind.CLAIMED,
            *[AuditKind.REFUSED] * 3,
            AuditKind.RELEASED,
            AuditKind.RESOLVED,
            AuditKind.REFUSED,
        ]


@in_asyncio
async def test_a_claim_holds_without_any_policy() -> None:
    async with asking() as (env, id):
        await env.client.inbox.claim(id, user_id="ana")
        assert isinstance(await refused(env, id, user_id="bob"), QuestionClaimed)
        assert isinstance(await refused(env, id), QuestionClaimed)
        await env.client.answer(id, True, user_id="ana")
        assert (await result(env))["user_id"] == "ana"


@in_asyncio
async def test_who_it_is_delegated_to_answers_instead() -> None:
    async with asking("user:req", assignees=["group:finance"], exclude_requester=True) as (env, id):
        inbox = env.client.inbox
        with pytest.raises(NotAllowed):
            await inbox.delegate(id, ["user:bob"], user_id="mallory")
        for to in (["user:req"], [], ["bob"], ["team:x"]):
            with pytest.raises(InvalidValue):
                await inbox.delegate(id, to, user_id="ana", groups=["finance"])
        await inbox.claim(id, user_id="ana", groups=["finance"])
        await inbox.delegate(id, ["user:bob"], user_id="ana", groups=["finance"], note="away")
        assert [each.id for each in (await env.client.questions(user_id="bob")).items] == [id]
        assert not (await env.client.questions(user_id="eva", groups=["finance"])).items
        assert isinstance(await refused(env, id, user_id="ana", groups=["finance"]), NotAllowed)
        await env.client.answer(id, True, user_id="bob")
        assert (await result(env))["user_id"] == "bob"


@in_asyncio
async def test_a_vote_is_given_away_by_who_is_asked_by_name_and_only_once() -> None:
    async with asking(assignees=["user:ana", "user:bob", "group:board"], quorum=Quorum(2, of=3)) as (env, id):
        inbox = env.client.inbox
        with pytest.raises(NotAllowed, match="claim"):
            await inbox.claim(id, user_id="ana")
        with pytest.raises(NotAllowed, match="by name"):
            await inbox.delegate(id, ["user:eva"], user_id="kim", groups=["board"])
        for to in (["user:bob"], ["group:x"], ["user:x", "user:y"]):
            with pytest.raises(InvalidValue):
                await inbox.delegate(id, to, user_id="ana")
        await inbox.delegate(id, ["user:eva"], user_id="ana")
        assert (await env.store.get_promise(id)).assignees == ("user:eva", "user:bob", "group:board")
        assert isinstance(await refused(env, id, user_id="ana"), NotAllowed)
        await env.client.answer(id, True, user_id="eva")
        with pytest.raises(NotAllowed, match="voted"):
            await inbox.delegate(id, ["user:friend"], user_id="eva")
        await env.client.answer(id, True, user_id="bob")
        assert (await result(env))["approved"] is True


@in_asyncio
async def test_a_vote_with_the_request_id_of_another_is_a_conflict() -> None:
    async with asking(quorum=2) as (env, id):
        await env.client.answer(id, True, user_id="ana", request_id="a")
        assert isinstance(await refused(env, id, False, user_id="ana", request_id="a"), RequestConflict)
        await env.client.answer(id, True, user_id="bob", request_id="b")
        for user, request in (("ana", "a"), ("bob", "b")):
            error = await refused(env, id, False, user_id=user, request_id=request)
            assert isinstance(error, RequestConflict)


@in_asyncio
@pytest.mark.parametrize("again", ["ana", "user:ana"])
@pytest.mark.parametrize("alike", ["ana ", " ana", "user: ana", "an\u200ba", "ana\n", "user:user:ana"])
async def test_one_person_is_not_two_by_another_spelling(again: str, alike: str) -> None:
    async with asking(quorum=2) as (env, id):
        first = await env.client.answer(id, True, user_id="ana")
        assert await env.client.answer(id, True, user_id=again) == first
        assert isinstance(await refused(env, id, user_id=alike), InvalidValue)


@in_asyncio
@pytest.mark.parametrize(
    "who", ["", " ", "ana ", "group:finance", "Group:finance", "User:ana", "signoff:x", "a\x00"]
)
async def test_a_run_has_a_starter_or_none_is_known(who: str) -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def ask(ctx: Context) -> Answer:
        return await ctx.wait_for_user("Deploy?", exclude_requester=True)

    async with environment(app) as env:
        with pytest.raises(InvalidValue):
            await env.client.start(ask, started_by=who)


@in_asyncio
async def test_what_who_looks_at_a_question_has_seen_is_recorded() -> None:
    async with asking(assignees=["user:ana"]) as (env, id):
        with pytest.raises(NotAllowed):
            await env.client.inbox.view(id, user_id="bob")
        seen = await env.client.inbox.view(id, user_id="ana")
        [asked, refusal, viewed] = (await env.client.inbox.history(question_id=id)).items
        assert (refusal.kind, refusal.by) == (AuditKind.REFUSED, "bob")
        assert (viewed.kind, viewed.by) == (AuditKind.VIEWED, "ana")
        assert json.loads(viewed.details or "") == {"digest": json.loads(seen.data or "")["digest"]}
        assert asked.kind is AuditKind.ASKED


# What time brings


@in_asyncio
async def test_overdue_escalations_count_even_if_no_process_was_running() -> None:
    async with asking(assignees=["user:ana"], escalations=[Escalation(HOUR, ["group:leads"])]) as (env, id):
        env.clock.advance(HOUR)
        await env.client.answer(id, True, user_id="lea", groups=["leads"])
        assert (await result(env))["user_id"] == "lea"
        assert AuditKind.REFUSED not in await kinds(env)


@in_asyncio
async def test_people_are_reminded_until_there_is_an_answer() -> None:
    async with asking(remind_every=HOUR) as (env, id):
        await env.sleep(3.5 * HOUR)
        assert await kinds(env) == [AuditKind.ASKED, *[AuditKind.REMINDED] * 3]
        events = (await env.client.inbox.history(question_id=id)).items
        assert [event.at - events[0].at for event in events] == [0, HOUR, 2 * HOUR, 3 * HOUR]
        await env.client.answer(id, True)
        await env.sleep(3 * HOUR)
        assert (await kinds(env)).count(AuditKind.REMINDED) == 3


@in_asyncio
async def test_others_are_asked_if_there_is_no_answer() -> None:
    levels = [Escalation(2 * HOUR, ["user:boss"], replace=True), Escalation(HOUR, ["group:leads"])]
    async with asking(assignees=["user:ana"], escalations=levels) as (env, id):
        await env.client.inbox.claim(id, user_id="ana")
        assert isinstance(await refused(env, id, user_id="x", groups=["leads"]), NotAllowed)
        await env.sleep(HOUR)
        assert (await env.store.get_promise(id)).assignees == ("user:ana", "group:leads")
        assert [each.id for each in (await env.client.questions(groups=["leads"])).items] == [id]
        await env.client.inbox.claim(id, user_id="lea", groups=["leads"])  # ana's claim has ended
        await env.sleep(HOUR)
        assert (await env.store.get_promise(id)).assignees == ("user:boss",)
        assert isinstance(await refused(env, id, user_id="ana"), NotAllowed)
        await env.sleep(24 * HOUR)
        await env.client.answer(id, True, user_id="boss")
        assert (await kinds(env)).count(AuditKind.ESCALATED) == 2
        assert (await result(env))["user_id"] == "boss"


@in_asyncio
async def test_escalating_an_open_question_excludes_no_one() -> None:
    async with asking(escalations=[Escalation(HOUR, ["group:leads"])]) as (env, id):
        await env.sleep(HOUR)
        assert (await env.store.get_promise(id)).assignees == ()
        await env.client.answer(id, True)
        assert (await result(env))["approved"] is True


@in_asyncio
@pytest.mark.parametrize(("value", "approved"), [(True, True), (False, False), ({"approved": False}, False)])
async def test_the_deadline_brings_the_answer_that_the_workflow_gave_for_it(
    value: Any, approved: bool
) -> None:
    async with asking(timeout_seconds=HOUR, timeout_answer=value) as (env, id):
        began = env.now()
        answer = await result(env)
        assert (answer["approved"], answer["timed_out"], answer["user_id"]) == (approved, True, None)
        assert (env.now() - began).total_seconds() == HOUR
        assert isinstance(await refused(env, id), AlreadySettled)
        assert await kinds(env) == [
            AuditKind.ASKED,
            AuditKind.DEFAULTED,
            AuditKind.RESOLVED,
            AuditKind.REFUSED,
        ]


@in_asyncio
async def test_an_answer_before_the_deadline_is_the_answer() -> None:
    async with asking(timeout_seconds=HOUR, timeout_answer=False) as (env, id):
        await env.sleep(HOUR - 1)
        await env.client.answer(id, True, user_id="ana")
        answer = await result(env)
        assert (answer["approved"], answer["timed_out"]) == (True, False)


@in_asyncio
async def test_a_late_answer_loses_even_if_no_process_saw_the_deadline() -> None:
    async with asking(timeout_seconds=HOUR, timeout_answer=False) as (env, id):
        env.clock.advance(HOUR)
        error = await refused_late(env, id)
        assert isinstance(error, AlreadySettled)
        assert (await result(env))["approved"] is False


async def refused_late(env: Environment, id: str) -> SignoffError:
    with pytest.raises(SignoffError) as caught:
        await env.client.answer(id, True, user_id="ana")
    return caught.value


@in_asyncio
async def test_what_was_missed_while_nothing_ran_happens_once() -> None:
    levels = [Escalation(HOUR, ["user:a"]), Escalation(2 * HOUR, ["user:b"])]
    async with asking(assignees=["user:z"], remind_every=HOUR, escalations=levels) as (env, id):
        env.clock.advance(10.5 * HOUR)
        await env.sleep(0)
        assert await kinds(env) == [
            AuditKind.ASKED,
            AuditKind.ESCALATED,
            AuditKind.ESCALATED,
            AuditKind.REMINDED,
        ]
        question = await env.store.get_promise(id)
        assert question.assignees == ("user:z", "user:a", "user:b")
        assert question.act_at == question.created_at + 11 * HOUR


# What makes no sense


@in_asyncio
@pytest.mark.parametrize(
    "policy",
    [
        {"assignees": ["ana"]},
        {"assignees": ["user:"]},
        {"assignees": "user:ana"},
        {"assignees": ["team:x"]},
        {"quorum": 0},
        {"quorum": "2"},
        {"quorum": 2, "input_type": "text"},
        {"timeout_answer": True},
        {"timeout_answer": "perhaps", "timeout_seconds": 10},
        {"timeout_answer": None, "timeout_seconds": 10},
        {"escalations": [(1, ["user:a"])]},
        {"escalations": "user:a"},
        {"timeout_seconds": "1h"},
        {"timeout_seconds": True},
        {"timeout_seconds": "1h", "timeout_answer": True},
        {"remind_every": "1h"},
        {"remind_every": 0},
        {"remind_every": float("nan")},
        {"timeout_answer": True, "timeout_seconds": float("inf")},
        {"timeout_answer": True, "timeout_seconds": float("nan")},
        {"timeout_answer": True, "timeout_seconds": -1},
        {"quorum": 3, "assignees": ["user:ana", "user:bob"]},
        {"quorum": 2, "skippable": True},
        {"quorum": 2, "assignees": ["user:ana", "user:ana"]},
        {"quorum": 2, "assignees": ["user:ana", "user:Ana"]},
        {
            "quorum": 2,
            "assignees": ["user:ana", "user:bob"],
            "requester": "Bob",
            "exclude_requester": True,
        },
        {
            "quorum": 2,
            "assignees": ["user:ana", "user:bob"],
            "escalations": [Escalation(60, ["user:c"], replace=True)],
        },
        {"quorum": 2, "escalations": [Escalation(60, ["user:c"], replace=True), Escalation(90, ["user:c"])]},
        {
            "requester": "user:boss",
            "exclude_requester": True,
            "escalations": [Escalation(60, ["user:boss"], replace=True)],
        },
        {
            "quorum": 3,
            "assignees": ["group:all"],
            "escalations": [Escalation(60, ["user:a", "user:b"], replace=True), Escalation(30, ["user:c"])],
        },
        {"timeout_seconds": 60, "escalations": [Escalation(60, ["group:leads"], replace=True)]},
        {"timeout_seconds": "1h", "escalations": [Escalation(60, ["group:leads"])]},
        {"requester": "group:x", "exclude_requester": True},
        {"requester": "user:ana", "exclude_requester": "false"},
        {"hours": "9-17"},
        {"requester": "user:ana", "exclude_requester": True, "assignees": ["user:ana"]},
    ],
)
async def test_a_policy_that_makes_no_sense_is_refused_where_it_is_written(policy: dict[str, Any]) -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def ask(ctx: Context) -> None:
        await ctx.wait_for_user("Deploy?", **policy)

    async with environment(app) as env:
        with pytest.raises((RegistrationError, InvalidValue, RunFailed)):
            await env.run(ask)
        assert not await opened(env)


@pytest.mark.parametrize(
    "policy",
    [
        {"quorum": 2, "assignees": ["user:ana"], "escalations": [Escalation(60, ["user:bob"])]},
        {"quorum": 3, "escalations": [Escalation(60, ["group:leads", "user:bob"], replace=True)]},
        {
            "quorum": 2,
            "assignees": ["user:ana", "user:bob"],
            "escalations": [Escalation(60, ["user:c"], replace=True), Escalation(90, ["user:d"])],
        },
        {"timeout_seconds": 61, "escalations": [Escalation(60, ["group:leads"], replace=True)]},
    ],
)
@in_asyncio
async def test_a_quorum_that_enough_people_can_reach_in_the_end_is_accepted(policy: dict[str, Any]) -> None:
    async with asking(**policy) as (env, id):
        assert (await env.store.get_promise(id)).state is PromiseState.PENDING


@in_asyncio
async def test_a_vote_is_lost_as_soon_as_those_who_are_left_are_too_few() -> None:
    """2 of at most 3 votes, of whom only two are asked: one yes and one no would wait for a third permanently."""
    async with asking(assignees=["user:ana", "user:bob"], quorum=Quorum(2, of=3)) as (env, id):
        await env.client.answer(id, True, user_id="ana")
        settled = await env.client.answer(id, False, user_id="bob")
        assert settled.state is PromiseState.RESOLVED
        assert (await result(env))["approved"] is False


@in_asyncio
async def test_a_vote_waits_for_those_who_are_asked_later() -> None:
    levels = [Escalation(HOUR, ["user:carl"])]
    async with asking(assignees=["user:ana", "user:bob"], quorum=Quorum(2, of=3), escalations=levels) as (
        env,
        id,
    ):
        await env.client.answer(id, True, user_id="ana")
        pending = await env.client.answer(id, False, user_id="bob")
        assert pending.state is PromiseState.PENDING
        await env.sleep(HOUR)
        await env.client.answer(id, True, user_id="carl")
        assert (await result(env))["approved"] is True


@in_asyncio
async def test_a_vote_is_lost_when_an_escalation_leaves_too_few() -> None:
    """Before any vote ben and dan could approve it together; ben has said no by then."""
    levels = [Escalation(HOUR, ["user:ben", "user:dan"], replace=True)]
    people = ["user:ana", "user:ben", "user:cleo"]
    async with asking(assignees=people, quorum=Quorum(2, of=3), escalations=levels) as (env, id):
        await env.client.answer(id, False, user_id="ben", note="no")
        assert (await env.store.get_promise(id)).state is PromiseState.PENDING
        await env.sleep(HOUR)
        assert (await env.store.get_promise(id)).state is PromiseState.RESOLVED
        answer = await result(env)
        assert (answer["approved"], answer["user_id"], len(answer["votes"])) == (False, "ben", 1)
        assert AuditKind.ESCALATED in await kinds(env)


@in_asyncio
async def test_a_deadline_that_options_move_before_an_escalation_is_refused() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def ask(ctx: Context) -> None:
        levels = [Escalation(HOUR, ["user:boss"], replace=True)]
        await ctx.wait_for_user("Go?", escalations=levels).options(timeout_seconds=60)

    async with environment(app) as env:
        with pytest.raises(RegistrationError, match="never escalates after 3600 s"):
            await env.run(ask)


@in_asyncio
async def test_letter_case_does_not_evade_four_eyes_or_votes() -> None:
    async with asking("user:req", exclude_requester=True, quorum=2) as (env, id):
        assert isinstance(await refused(env, id, user_id="Req"), NotAllowed)
        await env.client.answer(id, True, user_id="ana")
        assert isinstance(await refused(env, id, False, user_id="ANA"), AlreadyVoted)
        again = await env.client.answer(id, True, user_id="Ana")
        assert again.state is PromiseState.PENDING


@in_asyncio
async def test_a_vote_is_not_given_to_who_has_voted() -> None:
    async with asking(assignees=["user:bob", "group:board"], quorum=2) as (env, id):
        await env.client.answer(id, True, user_id="carl", groups=["board"])
        with pytest.raises(InvalidValue, match="user:carl has voted"):
            await env.client.inbox.delegate(id, ["user:carl"], user_id="bob")


@pytest.mark.parametrize(
    "wrong", [(-1, ["user:a"]), (float("inf"), ["user:a"]), (1, []), (1, ["a"]), (1, "user:a")]
)
def test_an_escalation_has_assignees_and_a_delay(wrong: Any) -> None:
    with pytest.raises(InvalidValue):
        Escalation(*wrong)


# The trail


@in_asyncio
async def test_every_refused_attempt_is_recorded_with_who_and_why() -> None:
    async with asking(assignees=["user:ana"]) as (env, id):
        await refused(env, id, user_id="mallory")
        await refused(env, id, "banana", user_id="ana")
        await refused(env, id, user_id="ana", digest="x")
        await env.client.answer(id, True, user_id="ana")
        await refused(env, id, user_id="ana")
        events = (await env.client.inbox.history(question_id=id)).items
        assert [(event.kind, event.by) for event in events] == [
            (AuditKind.ASKED, None),
            (AuditKind.REFUSED, "mallory"),
            (AuditKind.REFUSED, "ana"),
            (AuditKind.REFUSED, "ana"),
            (AuditKind.RESOLVED, "ana"),
            (AuditKind.REFUSED, "ana"),
        ]
        assert [
            (event.details or "").split('"')[3] for event in events if event.kind is AuditKind.REFUSED
        ] == [
            NotAllowed.__name__,
            WrongAnswer.__name__,
            WrongAnswer.__name__,
            AlreadySettled.__name__,
        ]


@pytest.mark.parametrize(
    ("attempt", "error"),
    [
        ("view", NotAllowed),
        ("claim", NotAllowed),
        ("release", NotAllowed),
        ("delegate", NotAllowed),
        ("reassign", InvalidValue),
        ("move_deadline", InvalidValue),
        ("cancel", AlreadySettled),
    ],
)
@in_asyncio
async def test_other_refused_actions_on_a_question_are_recorded_with_the_attempt(
    attempt: str, error: type[SignoffError]
) -> None:
    async with asking(assignees=["user:ana"]) as (env, id):
        inbox = env.client.inbox
        await inbox.claim(id, user_id="ana")
        if attempt == "cancel":
            await inbox.cancel(id, by="ana")
        wanted = {
            "view": lambda: inbox.view(id, user_id="eve"),
            "claim": lambda: inbox.claim(id, user_id="eve"),
            "release": lambda: inbox.release(id, user_id="eve"),
            "delegate": lambda: inbox.delegate(id, ["user:bob"], user_id="eve"),
            "reassign": lambda: inbox.reassign(id, [], by="eve"),
            "move_deadline": lambda: inbox.move_deadline(id, 60.0, by="eve"),
            "cancel": lambda: inbox.cancel(id, by="eve"),
        }
        with pytest.raises(error):
            await wanted[attempt]()
        event = (await inbox.history(question_id=id)).items[-1]
        told = json.loads(event.details or "")
        assert (event.kind, event.by, told["error"]) == (AuditKind.REFUSED, "eve", error.__name__)
        assert told["attempt"] == attempt
        assert event.origin is not None


@pytest.mark.parametrize("replace", ["false", 0, None])
def test_only_true_and_false_say_whether_an_escalation_replaces_others(replace: Any) -> None:
    with pytest.raises(InvalidValue, match="replace: .* is neither True nor False"):
        Escalation(60, ["user:boss"], replace=replace)
