"""Comments on a question are kept, and change nothing about it."""

from __future__ import annotations

import asyncio
import json

import pytest

from signoff.errors import InvalidValue, NotFound, RequestConflict
from signoff.people.questions.answer_checks import LONGEST_NOTE
from signoff.people.questions.comments import comment
from signoff.records import AuditKind
from signoff.records.responders import Responder
from tests.people.policy_runs import asking, kinds, result
from tests.stores.scene import Scene, question, rule
from tests.support import in_asyncio


@in_asyncio
async def test_a_comment_leaves_the_question_unchanged_and_is_in_its_history() -> None:
    async with asking(assignees=["user:ana"]) as (env, id):
        before = await env.store.get_promise(id)
        said = await env.client.inbox.comment(id, "Is that  é?\n", user_id="ana")
        assert await env.store.get_promise(id) == before
        assert (said.kind, said.by, said.question_id) == (AuditKind.COMMENTED, "ana", id)
        assert json.loads(said.details or "")["text"] == "Is that  é?\n"
        assert (await env.client.inbox.history(question_id=id)).items[-1].id == said.id


@in_asyncio
async def test_a_closed_question_is_commented_on_too() -> None:
    async with asking() as (env, id):
        await env.client.answer(id, True, user_id="ana")
        assert (await result(env))["approved"] is True
        await env.client.inbox.comment(id, "too late, but still", user_id="bob")
        assert (await kinds(env))[-1] is AuditKind.COMMENTED


@in_asyncio
async def test_a_repeated_comment_counts_once_and_another_of_its_id_is_refused() -> None:
    async with asking() as (env, id):

        async def say(text: str, user: str = "ana") -> str:
            return (await env.client.inbox.comment(id, text, user_id=user, request_id="one")).id

        assert len(set(await asyncio.gather(*(say("why?") for _ in range(5))))) == 1
        for text, user in (("why not?", "ana"), ("why?", "bob")):
            with pytest.raises(RequestConflict):
                await say(text, user)
        assert (await kinds(env)).count(AuditKind.COMMENTED) == 1


@in_asyncio
@pytest.mark.parametrize("text", ["", " \n\t", "a\0", "\ud800", "x" * (LONGEST_NOTE + 1)])
async def test_what_no_store_keeps_or_says_nothing_is_refused(text: str) -> None:
    async with asking() as (env, id):
        with pytest.raises(InvalidValue):
            await env.client.inbox.comment(id, text, user_id="ana")
        assert AuditKind.COMMENTED not in await kinds(env)


@in_asyncio
async def test_what_is_not_there_is_not_commented_on() -> None:
    async with asking() as (env, _):
        with pytest.raises(NotFound):
            await env.client.inbox.comment("none", "why?", user_id="ana")


@rule
async def test_every_store_keeps_a_comment_once(scene: Scene) -> None:
    await scene.store.create_promise(question("r", id="q"))
    said = [await comment(scene.store, "q", Responder("ana"), "é?", "one") for _ in range(2)]
    assert said[0] == said[1]
    assert json.loads(said[0].details or "") == {"text": "é?", "request_id": "one"}
