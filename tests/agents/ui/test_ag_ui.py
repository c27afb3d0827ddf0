"""A conversation over AG-UI, with the protocol's client from npm."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from signoff import AlreadySettled, AsyncClient, NotAllowed, RetryPolicy
from signoff.agents import ask
from tests.agents.chats import Chats
from tests.agents.ui.chat_clients import Client, Node, approve, deny, kinds, said, serving_web
from tests.support import in_asyncio

Open = Callable[..., Client]


@asynccontextmanager
async def place(
    folder: Path, node: Node, *, chats: Chats | None = None, **options: Any
) -> AsyncIterator[tuple[Chats, AsyncClient, Open, str]]:
    """A worker with the agent, a web service, and a way to open chats there."""
    chats = chats or Chats(folder)
    async with chats.running(), serving_web(chats.app, "support", **options) as url:

        def opened(user: str = "ana", thread: str = "t") -> Client:
            return Client(node, kind="ag-ui", url=f"{url}/agent", thread=thread, user=user)

        yield chats, chats.client, opened, url


def body(text: str = "hello", *, message: str = "m-1", thread: str = "t", **more: Any) -> dict[str, Any]:
    return {
        "threadId": thread,
        "runId": "run-1",
        "messages": [{"id": message, "role": "user", "content": text}],
        **more,
    }


async def posted(url: str, given: Any, user: str = "ana", **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=60) as http:
        return await http.post(f"{url}/agent", json=given, headers={"x-user": user, **headers})


@in_asyncio
async def test_a_reload_shows_the_whole_history_and_the_same_interrupts(tmp_path: Path, node: Node) -> None:
    async with place(tmp_path, node) as (chats, _, opened, _):
        tab = opened()
        first = await tab.do("say", id="m-1", text="hello")
        assert said(first) == [("user", "hello"), ("assistant", "heard hello")]
        assert first["events"][-1]["outcome"] == {"type": "success"}
        second = await tab.do("say", id="m-2", text="rm a cat:b c")
        assert [each["reason"] for each in second["pending"]] == ["tool_call"] * 2
        assert [each["metadata"]["arguments"] for each in second["pending"]] == [{"path": "a"}, {"path": "c"}]
        reloaded = await opened().do("connect")
        assert reloaded["failed"] is None
        assert reloaded["pending"] == second["pending"]
        assert said(reloaded) == said(second)
        assert ("tool", "text of b") in said(second)
        calls = [call["id"] for each in second["messages"] for call in each.get("toolCalls", ())]
        assert [each["toolCallId"] for each in second["pending"]] == [calls[0], calls[2]]
        assert chats.removed == []


@in_asyncio
async def test_decisions_in_the_chat_count_once_and_run_what_was_approved(tmp_path: Path, node: Node) -> None:
    async with place(tmp_path, node) as (chats, client, opened, _):
        tab = opened()
        asked = await tab.do("say", id="m-1", text="rm a b c")
        a, b, c = asked["pending"]
        entries = [approve(a), deny(b, "not b"), approve(c, editedArgs={"path": "z"})]
        ended = await tab.do("answer", entries=entries)
        assert sorted(chats.removed) == ["a", "z"]
        assert ended["pending"] == []
        assert said(ended)[-1][1].startswith("did: removed a, not b, removed z")
        assert [role for role, _ in said(ended)].count(
            "user"
        ) == 1  # notes to the model are no words of the user
        answers = [await client.promises.get(each["metadata"]["questionId"]) for each in (a, b, c)]
        assert [each.settled_by for each in answers] == ["ana"] * 3
        assert sorted(said(await opened().do("connect"))) == sorted(said(ended))


@in_asyncio
async def test_interrupts_can_be_answered_one_at_a_time(tmp_path: Path, node: Node) -> None:
    async with place(tmp_path, node) as (chats, _, opened, _):
        tab = opened()
        asked = await tab.do("say", id="m-1", text="rm a b")
        await tab.do("forget")
        half = await tab.do("answer", entries=[approve(asked["pending"][1])])
        assert [each["id"] for each in half["pending"]] == [asked["pending"][0]["id"]]
        assert chats.removed == ["b"]


@in_asyncio
async def test_a_following_chat_sees_the_answer_of_the_inbox(tmp_path: Path, node: Node) -> None:
    async with place(tmp_path, node) as (chats, client, opened, _):
        asked = await opened().do("say", id="m-1", text="rm a")
        [question] = asked["pending"]
        following = asyncio.create_task(opened().do("connect", props={"follow": True}))
        await asyncio.sleep(0.1)
        assert not following.done()
        await client.answer(question["metadata"]["questionId"], True, user_id="bob")
        seen = await following
        assert seen["failed"] is None
        assert kinds(seen).count("RUN_STARTED") == 2
        assert seen["pending"] == []
        assert said(seen)[-1] == ("assistant", "did: removed a")
        assert chats.removed == ["a"]


@in_asyncio
async def test_a_late_answer_is_told_whose_counts_and_shows_the_rest(tmp_path: Path, node: Node) -> None:
    async with place(tmp_path, node) as (chats, client, opened, _):
        tab = opened()
        [question] = (await tab.do("say", id="m-1", text="rm a"))["pending"]
        await client.answer(question["metadata"]["questionId"], False, user_id="bob", note="keep it")
        late = await tab.do("answer", entries=[approve(question)])
        [told] = [each["value"] for each in late["events"] if each["type"] == "CUSTOM"]
        assert "bob" in told["by"]
        assert told["interruptId"] == question["id"]
        assert said(late)[-1] == ("assistant", "did: keep it")
        assert chats.removed == []


@in_asyncio
async def test_of_the_chat_and_the_inbox_at_once_one_wins(tmp_path: Path, node: Node) -> None:
    async with place(tmp_path, node) as (chats, client, opened, _):
        for turn in range(5):
            tab = opened(thread=f"t-{turn}")
            [question] = (await tab.do("say", id="m-1", text=f"rm {turn}"))["pending"]

            async def inbox(id: str = question["metadata"]["questionId"]) -> bool:
                try:
                    await client.answer(id, False, user_id="bob")
                except AlreadySettled:
                    return False
                return True

            shown, inbox_won = await asyncio.gather(tab.do("answer", entries=[approve(question)]), inbox())
            assert ("CUSTOM" in kinds(shown)) is inbox_won
            assert (str(turn) in chats.removed) is not inbox_won
            assert shown["pending"] == []


@in_asyncio
async def test_one_post_many_times_begins_one_turn(tmp_path: Path, node: Node) -> None:
    async with place(tmp_path, node) as (chats, client, _, url):
        answers = await asyncio.gather(*(posted(url, body("cat a")) for _ in range(4)))
        assert {each.status_code for each in answers} == {200}
        assert all("RUN_FINISHED" in each.text and "did: text of a" in each.text for each in answers)
        assert chats.read == ["a"]
        assert len((await client.list()).items) == 1
        other = await posted(url, body("cat b"))
        assert '"code":"IdConflict"' in other.text
        assert chats.read == ["a"]


@in_asyncio
async def test_an_answer_sent_twice_counts_once_and_is_not_late(tmp_path: Path, node: Node) -> None:
    async with place(tmp_path, node) as (chats, _, opened, _):
        tab, other = opened(), opened()
        [question] = (await tab.do("say", id="m-1", text="rm a"))["pending"]
        await other.do("connect")
        for each in (tab, other):
            ended = await each.do("answer", entries=[approve(question)])
            assert "CUSTOM" not in kinds(ended)
            assert said(ended)[-1] == ("assistant", "did: removed a")
        assert chats.removed == ["a"]


@in_asyncio
async def test_a_foreign_thread_is_empty_and_its_questions_unknown(tmp_path: Path, node: Node) -> None:
    async with place(tmp_path, node) as (chats, _, opened, _):
        [question] = (await opened().do("say", id="m-1", text="rm a"))["pending"]
        stranger = opened(user="eve")
        assert (await stranger.do("connect"))["messages"] == []
        for payload in ({"approved": True}, {"approved": "?"}):
            tried = await stranger.do("answer", entries=[{"interruptId": question["id"], "payload": payload}])
            assert tried["events"][-1]["code"] == "NotFound"
        assert chats.removed == []


@in_asyncio
async def test_a_thread_that_the_caller_may_not_use_is_not_found(tmp_path: Path, node: Node) -> None:
    def shared(caller: Any, thread: str) -> str | None:
        return thread if caller.user_id in ("ana", "bob") else None

    async with place(tmp_path, node, session_of=shared) as (_, _, opened, url):
        await opened().do("say", id="m-1", text="hello")
        assert said(await opened(user="bob").do("connect"))[-1] == ("assistant", "heard hello")
        assert (await posted(url, body(), user="eve")).status_code == 404


@in_asyncio
async def test_requests_that_are_no_chat_of_a_known_user_are_refused(tmp_path: Path, node: Node) -> None:
    async with place(tmp_path, node) as (chats, client, _, url):
        assert (await posted(url, body(), user="")).status_code == 401
        assert (await posted(url, {"threadId": "t"})).status_code == 422
        assert (await posted(url, body(thread=""))).status_code == 422
        plain = await posted(url, body(), **{"content-type": "text/plain"})
        assert plain.status_code == 415
        for message in ("", "x" * 201):
            assert '"code":"InvalidValue"' in (await posted(url, body(message=message))).text
        assert '"code":"InvalidValue"' in (await posted(url, body(""))).text
        many = [{"id": f"m-{number}", "role": "user", "content": "hello"} for number in range(21)]
        assert '"code":"InvalidValue"' in (await posted(url, body() | {"messages": many})).text
        entries = [{"interruptId": f"x~{number}", "status": "cancelled"} for number in range(101)]
        assert '"code":"InvalidValue"' in (await posted(url, body(resume=entries))).text
        assert not (await client.list()).items
        assert chats.model.seen == []


@pytest.mark.parametrize(
    "payload",
    [
        None,
        {},
        {"approved": "true"},
        {"approved": 1},
        {"approved": None},
        {"approve": True},
        "approved",
        True,
        {"approved": True, "edited_args": {"path": "b"}},
        {"approved": True, "userId": "boss"},
    ],
)
@in_asyncio
async def test_an_unclear_decision_is_refused_and_the_question_stays(
    tmp_path: Path, node: Node, payload: Any
) -> None:
    async with place(tmp_path, node) as (chats, _, opened, _):
        tab = opened()
        [question] = (await tab.do("say", id="m-1", text="rm a"))["pending"]
        tried = await tab.do("answer", entries=[{"interruptId": question["id"], "payload": payload}])
        assert tried["events"][-1]["code"] == "WrongAnswer"
        assert [each["id"] for each in tried["pending"]] == [question["id"]]
        assert chats.removed == []


@in_asyncio
async def test_a_cancelled_approval_is_a_denial(tmp_path: Path, node: Node) -> None:
    async with place(tmp_path, node) as (chats, _, opened, _):
        tab = opened()
        [question] = (await tab.do("say", id="m-1", text="rm a"))["pending"]
        ended = await tab.do("answer", entries=[{"interruptId": question["id"], "status": "cancelled"}])
        assert said(ended)[-1] == ("assistant", "did: Cancelled by the user.")
        assert chats.removed == []


@in_asyncio
async def test_only_the_assignees_answer_whoever_chats(tmp_path: Path, node: Node) -> None:
    chats = Chats(tmp_path, durable={"approvals": {"rm": ask("Remove?", assignees=["group:finance"])}})
    async with place(tmp_path, node, chats=chats) as (_, client, opened, _):
        tab = opened()
        [question] = (await tab.do("say", id="m-1", text="rm a"))["pending"]
        assert question["message"] == "Remove?"
        assert question["metadata"]["assignees"] == ["group:finance"]
        tried = await tab.do("answer", entries=[approve(question)])
        assert tried["events"][-1]["code"] == "NotAllowed"
        with pytest.raises(NotAllowed):
            await client.answer(question["metadata"]["questionId"], True, user_id="ana")
        assert chats.removed == []


@in_asyncio
async def test_an_answer_about_another_content_is_refused(tmp_path: Path, node: Node) -> None:
    async with place(tmp_path, node) as (chats, _, opened, _):
        tab = opened()
        a, b = (await tab.do("say", id="m-1", text="rm a b"))["pending"]
        forged = a["id"].split("~")[0] + "~" + b["id"].split("~")[1]
        for id, code in ((forged, "WrongAnswer"), (a["id"].split("~")[0], "NotFound")):
            await tab.do("forget")
            tried = await tab.do("answer", entries=[{"interruptId": id, "payload": {"approved": True}}])
            assert tried["events"][-1]["code"] == code
        assert chats.removed == []


@in_asyncio
async def test_a_lost_connection_stops_nothing(tmp_path: Path, node: Node) -> None:
    async with place(tmp_path, node) as (chats, _, opened, _):
        tab = opened()
        talking = asyncio.create_task(tab.do("say", id="m-1", text="cat slow"))
        await chats.slow.wait()
        await tab.do("drop")
        await talking
        chats.hangs = False
        watching = asyncio.create_task(opened().do("connect"))
        await asyncio.sleep(0.1)
        await chats.client.cancel((await chats.client.list()).items[0].id, reason="enough")
        seen = await watching
        assert seen["events"][-1]["message"] == "This turn was aborted: enough"
        assert seen["events"][-1]["code"] == "TurnAborted"


@in_asyncio
async def test_a_failed_turn_is_told_without_its_details(tmp_path: Path, node: Node) -> None:
    chats = Chats(tmp_path, durable={"retry": RetryPolicy(max_attempts=1)})
    async with place(tmp_path, node, chats=chats) as (_, _, opened, _):
        tab = opened()
        failed = await tab.do("say", id="m-1", text="break")
        assert failed["events"][-1]["type"] == "RUN_ERROR"
        assert failed["events"][-1]["code"] == "TurnFailed"
        assert "the model is broken" not in str(failed["events"])
        after = await tab.do("say", id="m-2", text="hello")
        assert said(after)[-1] == ("assistant", "heard hello")
        assert "the model is broken" not in str(after)
