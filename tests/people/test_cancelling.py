"""Questions that are withdrawn, by the workflow or from outside, or reassigned. Time is virtual."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from signoff import (
    AlreadySettled,
    Context,
    PromiseCancelled,
    QuestionCancelled,
    Quorum,
    SignalTimeout,
    Signoff,
    SignoffError,
)
from signoff.errors import InvalidValue, NotAllowed, NotFound, RequestConflict
from signoff.people.questions.answers import answer
from signoff.people.questions.question_operations import cancel, move_deadline, reassign
from signoff.records import AuditKind, Promise, PromiseState, RunState
from signoff.testing import MemoryStore, environment
from tests.people.asked import ask as ask_in
from tests.people.asked import kinds as kinds_in
from tests.people.policy_runs import asking, kinds, opened, result
from tests.stores.scene import Scene, question, rule
from tests.support import in_asyncio, journal, rebuilt

Workflow = Callable[[Context], Awaitable[Any]]

# By the workflow


async def waits_for(ctx: Context) -> str:
    try:
        await asyncio.wait_for(ctx.wait_for_user("Old?"), 60)
    except TimeoutError:
        return (await ctx.wait_for_user("New?", input_type="text")).value
    return "old"


async def is_cancelled(ctx: Context) -> str:
    task = asyncio.ensure_future(ctx.wait_for_user("Old?"))
    await asyncio.sleep(60)
    task.cancel()
    return (await ctx.wait_for_user("New?", input_type="text")).value


async def fails_beside(ctx: Context) -> str:
    async def ask() -> None:
        await ctx.wait_for_user("Old?")

    async def fail() -> None:
        await asyncio.sleep(60)
        raise ValueError("something else went wrong")

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(ask())
            group.create_task(fail())
    except* ValueError:
        pass
    return (await ctx.wait_for_user("New?", input_type="text")).value


@in_asyncio
@pytest.mark.parametrize("workflow", [waits_for, is_cancelled, fails_beside])
async def test_a_question_abandoned_by_its_workflow_leaves_the_inbox_on_record(
    workflow: Workflow,
) -> None:
    app = Signoff(MemoryStore())
    app.workflow(workflow)
    async with environment(app) as env:
        env.people.stay_silent("*")
        await env.client.start(workflow, id="r")
        await env.sleep(0)
        [old] = await opened(env)
        await env.sleep(61)
        [new] = await opened(env)
        assert '"New?"' in (new.data or "")
        with pytest.raises(AlreadySettled):
            await env.client.answer(old.id, True, user_id="ana")
        history = (await env.client.inbox.history(question_id=old.id)).items
        assert [each.kind for each in history] == [AuditKind.ASKED, AuditKind.CANCELLED, AuditKind.REFUSED]
        run, entries = await env.store.get_run("r"), await journal(app, "r")
        for length in range(1, len(entries) + 1):  # a replay from any moment on comes to the same place
            async with rebuilt(app, run, entries[:length]) as again:
                assert again.failure is None
        await env.client.answer(new.id, "replaced")
        assert await result(env) == "replaced"


# From outside


@in_asyncio
async def test_a_question_withdrawn_from_outside_tells_its_workflow_who_and_why() -> None:
    async with asking(assignees=["user:ana"]) as (env, id):
        cancelled = await env.client.inbox.cancel(id, by="olga", reason="asked by mistake")
        assert (cancelled.state, cancelled.settled_by, cancelled.note) == (
            PromiseState.CANCELLED,
            "olga",
            "asked by mistake",
        )
        assert not await opened(env)
        with pytest.raises(QuestionCancelled) as caught:
            await result(env)
        assert (caught.value.promise_id, caught.value.by, caught.value.reason) == (
            id,
            "olga",
            "asked by mistake",
        )
        assert str(caught.value) == f"question {id!r} was cancelled by olga: asked by mistake"
        with pytest.raises(AlreadySettled, match="olga"):
            await env.client.answer(id, True, user_id="ana")
        assert await kinds(env) == [AuditKind.ASKED, AuditKind.CANCELLED, AuditKind.REFUSED]


@in_asyncio
async def test_a_workflow_may_catch_that_and_ask_otherwise() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def ask(ctx: Context) -> list[Any]:
        try:
            answer = await ctx.wait_for_user("Old?")
        except PromiseCancelled as cancelled:  # also by its old name
            answer = await ctx.wait_for_user(f"New, since {cancelled.args[0]}?")
        return [answer.approved]

    async with environment(app) as env:
        env.people.stay_silent("*")
        await env.client.start(ask, id="r")
        await env.sleep(0)
        await env.client.inbox.cancel("r.1")
        await env.sleep(0)
        [new] = await opened(env)
        assert "was cancelled?" in (new.data or "")
        await env.client.answer(new.id, True)
        assert await result(env) == [True]


@in_asyncio
async def test_withdrawing_is_repeated_without_effect_by_its_request_id_alone() -> None:
    async with asking() as (env, id):
        cancelled = await env.client.inbox.cancel(id, by="olga", request_id="c")
        assert await env.client.inbox.cancel(id, by="olga", request_id="c") == cancelled
        with pytest.raises(AlreadySettled):
            await env.client.inbox.cancel(id, by="olga")
        with pytest.raises(RequestConflict):
            await env.client.answer(id, True, request_id="c")


@in_asyncio
@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"by": "signoff:timeout"}, InvalidValue),
        ({"by": ""}, InvalidValue),
        ({"reason": "a" * 10_001}, InvalidValue),
        ({"reason": "nul \0"}, InvalidValue),
    ],
)
async def test_what_cannot_be_kept_withdraws_nothing(said: dict[str, str], error: type[SignoffError]) -> None:
    async with asking() as (env, id):
        with pytest.raises(error):
            await env.client.inbox.cancel(id, **said)
        with pytest.raises(NotFound):
            await env.client.inbox.cancel("nothing")
        assert (await env.store.get_promise(id)).state is PromiseState.PENDING


@in_asyncio
async def test_overdue_events_happen_before_a_question_is_withdrawn() -> None:
    async with asking(timeout_seconds=60, timeout_answer=False) as (env, id):
        env.clock.advance(61)
        with pytest.raises(AlreadySettled, match="resolved"):
            await env.client.inbox.cancel(id)
        assert (await result(env))["timed_out"] is True


@rule
async def test_of_a_concurrent_answer_and_withdrawal_one_wins(scene: Scene) -> None:
    for n in range(4):
        question = await ask_in(scene, f"r{n}", assignees=["user:ana"])
        both = [
            answer(scene.store, question.id, True, user_id="ana"),
            cancel(scene.store, question.id, "olga"),
        ]
        said = await asyncio.gather(*(both if n % 2 else reversed(both)), return_exceptions=True)
        assert sorted(type(each) for each in said if not isinstance(each, Promise)) == [AlreadySettled]
        [won] = [each for each in said if isinstance(each, Promise)]
        assert await scene.store.get_promise(question.id) == won
        assert len(await scene.messages(f"r{n}")) == 1
        assert await scene.state(f"r{n}") is RunState.READY
        await scene.claim()  # out of the way of the next


# Others are to answer


@in_asyncio
async def test_an_operator_reassigns_any_question() -> None:
    async with asking(assignees=["user:ana"]) as (env, id):
        await env.client.inbox.claim(id, user_id="ana")
        changed = await env.client.inbox.reassign(id, ["group:desk"], by="olga", reason="ana is ill")
        assert changed.assignees == ("group:desk",)
        with pytest.raises(NotAllowed):
            await env.client.answer(id, True, user_id="ana")
        await env.client.answer(id, True, user_id="bob", groups=["desk"])
        [told] = [
            each for each in (await env.client.inbox.history()).items if each.kind is AuditKind.REASSIGNED
        ]
        assert told.by == "olga"
        assert told.details == '{"to": ["group:desk"], "from": ["user:ana"], "reason": "ana is ill"}'
        assert (await result(env))["user_id"] == "bob"


@in_asyncio
@pytest.mark.parametrize("to", [[], ["bob"], ["user:req"], ["user:eva"], "user:bob"], ids=repr)
async def test_who_may_not_answer_or_are_too_few_are_not_assigned(to: Any) -> None:
    async with asking("user:req", quorum=Quorum(2, of=3), exclude_requester=True) as (env, id):
        before = await env.store.get_promise(id)
        with pytest.raises(InvalidValue):
            await env.client.inbox.reassign(id, to)
        assert await env.store.get_promise(id) == before


@in_asyncio
async def test_who_has_said_no_is_not_counted_on_when_others_are_asked() -> None:
    async with asking(quorum=Quorum(2, of=3)) as (env, id):
        await env.client.answer(id, False, user_id="ana")
        with pytest.raises(InvalidValue, match="1 person who may still vote cannot give the 2 approvals"):
            await env.client.inbox.reassign(id, ["user:ana", "user:bob"])
        await env.client.inbox.reassign(id, ["user:bob", "user:eva"])


@in_asyncio
async def test_votes_stay_when_others_are_asked() -> None:
    async with asking(quorum=2, assignees=["user:ana", "user:bob"]) as (env, id):
        await env.client.answer(id, True, user_id="ana")
        await env.client.inbox.reassign(id, ["user:eva"], by="olga")
        await env.client.answer(id, True, user_id="eva")
        assert [vote["user_id"] for vote in (await result(env))["votes"]] == ["ana", "eva"]


@rule
async def test_of_many_who_assign_at_once_each_is_done_after_the_other(scene: Scene) -> None:
    question = await ask_in(scene, assignees=["user:ana"])
    await asyncio.gather(*(reassign(scene.store, question.id, [f"user:u{n}"]) for n in range(8)))
    assert (await kinds_in(scene)).count(AuditKind.REASSIGNED) == 8


# Until another time


@in_asyncio
async def test_an_operator_has_people_answer_until_another_time() -> None:
    async with asking(assignees=["user:ana"], timeout_seconds=60) as (env, id):
        moved = await env.client.inbox.move_deadline(id, 600, by="olga", reason="a holiday")
        assert moved.due_at == env.clock.now() + 600
        await env.sleep(599)
        assert (await env.store.get_promise(id)).state is PromiseState.PENDING
        await env.client.inbox.move_deadline(id, 10)
        await env.sleep(10)
        with pytest.raises(SignalTimeout):
            await result(env)
        assert await kinds(env) == [AuditKind.ASKED, *[AuditKind.DEADLINE_MOVED] * 2, AuditKind.TIMED_OUT]
        told = (await env.client.inbox.history()).items[1]
        details = json.loads(told.details or "")
        assert (told.by, details["reason"], details["to"] - details["from"]) == ("olga", "a holiday", 540)


@in_asyncio
async def test_the_answer_that_a_deadline_brings_comes_when_it_was_moved_to() -> None:
    policy = {"timeout_seconds": 60, "timeout_answer": False, "remind_every": 100}
    async with asking(**policy) as (env, id):
        await env.client.inbox.move_deadline(id, 250)
        await env.sleep(249)
        assert (await env.store.get_promise(id)).state is PromiseState.PENDING
        await env.sleep(1)
        assert (await result(env))["timed_out"] is True
        assert await kinds(env) == [
            AuditKind.ASKED,
            AuditKind.DEADLINE_MOVED,
            *[AuditKind.REMINDED] * 2,
            AuditKind.DEFAULTED,
            AuditKind.RESOLVED,
        ]


@in_asyncio
@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
async def test_what_is_no_time_moves_no_deadline(seconds: float) -> None:
    async with asking(timeout_seconds=60) as (env, id):
        before = await env.store.get_promise(id)
        with pytest.raises(InvalidValue):
            await env.client.inbox.move_deadline(id, seconds)
        assert await env.store.get_promise(id) == before


@in_asyncio
async def test_a_deadline_is_neither_added_nor_moved_after_it_has_passed() -> None:
    async with asking() as (env, id):
        with pytest.raises(InvalidValue, match="no deadline"):
            await env.client.inbox.move_deadline(id, 60)
    async with asking(timeout_seconds=60) as (env, id):
        env.clock.advance(61)
        with pytest.raises(AlreadySettled):
            await env.client.inbox.move_deadline(id, 60)


@rule
async def test_a_deadline_is_where_it_was_moved_to_on_every_store(scene: Scene) -> None:
    run, now = await scene.run(), scene.clock.now()
    assert await scene.pause(run, opens=[question("r", due_at=now + 60)])
    moved = await move_deadline(scene.store, "r.0", 600)
    assert moved.due_at == pytest.approx(
        now + 600, abs=10
    )  # a remote store reads the server's clock from afar
    scene.clock.advance(580)
    assert await scene.store.due() == moved.due_at
    assert (await scene.store.get_promise("r.0")).state is PromiseState.PENDING
    scene.clock.advance(40)
    await scene.store.due()
    assert (await scene.store.get_promise("r.0")).state is PromiseState.TIMED_OUT
