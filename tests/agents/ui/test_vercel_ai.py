"""A conversation for the Vercel AI SDK, with its own client from npm."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from signoff import AlreadySettled, AsyncClient, RetryPolicy
from signoff.agents import ask
from tests.agents.chats import Chats
from tests.agents.ui.chat_clients import Client, Node, parts, serving_web
from tests.support import in_asyncio

Open = Callable[..., Client]


@asynccontextmanager
async def place(
    folder: Path, node: Node, *, chats: Chats | None = None, **options: Any
) -> AsyncIterator[tuple[Chats, AsyncClient, Open, str]]:
    """A worker with the agent, a web service, and a way to open chats there."""
    chats = chats or Chats(folder)
    async with chats.running(), serving_web(chats.app, "support", **options) as url:

        def opened(user: str = "ana", thread: str = "t", **more: Any) -> Client:
            return Client(node, kind="vercel", url=f"{url}/chat", thread=thread, user=user, **more)

        yield chats, chats.client, opened, url


def asked(state: dict[str, Any]) -> list[str]:
    """Return the ids of the open approvals in the last message."""
    return [each["approval"]["id"] for each in parts(state, "tool-") if each["state"] == "approval-requested"]


def text(state: dict[str, Any]) -> str:
    return "".join(each["text"] for each in parts(state, "text"))


def states(state: dict[str, Any]) -> list[str]:
    return [each["state"] for each in parts(state, "tool-")]


async def posted(url: str, given: dict[str, Any], user: str = "ana") -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=60) as http:
        return await http.post(f"{url}/chat", json=given, headers={"x-user": user})


def body(words: str = "hello", *, id: str = "m-1", **more: Any) -> dict[str, Any]:
    message = {"id": id, "role": "user", "parts": [{"type": "text", "text": words}]}
    return {"id": "t", "trigger": "submit-message", "messages": [message], **more}


@in_asyncio
async def test_approvals_run_the_tools_once_and_the_message_goes_on(tmp_path: Path, node: Node) -> None:
    async with place(tmp_path, node) as (chats, client, opened, _):
        tab = opened()
        first = await tab.do("say", id="m-1", text="rm a cat:b c")
        assert states(first) == ["approval-requested", "output-available", "approval-requested"]
        a, c = asked(first)
        decisions = [{"id": a, "approved": True}, {"id": c, "approved": False, "reason": "not c"}]
        ended = await tab.do("answer", decisions=decisions)
        assert ended["failed"] is None
        assert chats.removed == ["a"]
        assert states(ended) == ["output-available", "output-available", "output-denied"]
        assert text(ended) == "did: removed a, text of b, not c"
        assert len(ended["messages"]) == 2
        settled = await client.promises.get(a.split("~")[0])
        assert settled.settled_by == "ana"
        loaded = await opened().do("load")
        assert [each["id"] for each in loaded["messages"]][1:] == [each["id"] for each in ended["messages"]][
            1:
        ]
        assert (text(loaded), states(loaded)) == (text(ended), states(ended))


@in_asyncio
async def test_a_reload_shows_the_whole_history_and_the_same_approvals(tmp_path: Path, node: Node) -> None:
    async with place(tmp_path, node) as (chats, _, opened, _):
        tab = opened()
        await tab.do("say", id="m-1", text="hello")
        shown = await tab.do("say", id="m-2", text="rm a b")
        again = opened()
        loaded = await again.do("load")
        assert asked(loaded) == asked(shown)
        resumed = await again.do("resume")
        assert resumed["failed"] is None
        assert asked(resumed) == asked(shown)
        assert [each["role"] for each in resumed["messages"]] == ["user", "assistant"] * 2
        assert [part["type"] for part in parts(resumed)] == [part["type"] for part in parts(shown)]
        decisions = [{"id": id, "approved": True} for id in asked(resumed)]
        assert text(await again.do("answer", decisions=decisions)) == "did: removed a, removed b"
        assert sorted(chats.removed) == ["a", "b"]


@in_asyncio
async def test_the_inbox_first_is_seen_and_a_late_answer_is_told(tmp_path: Path, node: Node) -> None:
    async with place(tmp_path, node) as (chats, client, opened, _):
        tab = opened()
        [question] = asked(await tab.do("say", id="m-1", text="rm a"))
        await client.answer(question.split("~")[0], False, user_id="bob", note="keep it")
        late = await tab.do("answer", decisions=[{"id": question, "approved": True}])
        assert [(each["type"], each["data"]["by"]) for each in late["data"]] == [("data-late-answer", "bob")]
        assert text(late) == "did: keep it"
        assert states(late) == ["output-denied"]
        assert chats.removed == []
        other = opened()
        await other.do("load")
        assert text(await other.do("resume")) == "did: keep it"


@in_asyncio
async def test_a_stale_tab_gets_each_word_once(tmp_path: Path, node: Node) -> None:
    async with place(tmp_path, node) as (chats, _, opened, _):
        stale, tab = opened(), opened()
        a, b = asked(await stale.do("say", id="m-1", text="rm a b"))
        await tab.do("load")
        await tab.do("answer", decisions=[{"id": a, "approved": True}])
        ended = await stale.do("answer", decisions=[{"id": b, "approved": True}])
        assert text(ended) == "did: removed a, removed b"
        assert states(ended) == ["output-available"] * 2
        assert sorted(chats.removed) == ["a", "b"]


@in_asyncio
async def test_of_two_tabs_at_once_one_wins(tmp_path: Path, node: Node) -> None:
    async with place(tmp_path, node) as (chats, client, opened, _):
        tab = opened()
        [question] = asked(await tab.do("say", id="m-1", text="rm a"))

        async def inbox() -> bool:
            try:
                await client.answer(question.split("~")[0], False, user_id="bob")
            except AlreadySettled:
                return False
            return True

        shown, inbox_won = await asyncio.gather(
            tab.do("answer", decisions=[{"id": question, "approved": True}]), inbox()
        )
        assert bool(shown["data"]) is inbox_won
        assert chats.removed == ([] if inbox_won else ["a"])


@in_asyncio
async def test_one_post_many_times_begins_one_turn(tmp_path: Path, node: Node) -> None:
    async with place(tmp_path, node) as (chats, client, _, url):
        answers = await asyncio.gather(*(posted(url, body("cat a")) for _ in range(4)))
        assert all("did: text of a" in each.text for each in answers)
        assert {each.headers["x-vercel-ai-ui-message-stream"] for each in answers} == {"v1"}
        assert chats.read == ["a"]
        assert len((await client.list()).items) == 1


@pytest.mark.parametrize("approved", ["true", 1, None, "yes", [True]])
@in_asyncio
async def test_an_unclear_decision_is_refused_and_the_approval_stays(
    tmp_path: Path, node: Node, approved: Any
) -> None:
    async with place(tmp_path, node) as (chats, _, opened, url):
        tab = opened()
        shown = await tab.do("say", id="m-1", text="rm a")
        [question] = asked(shown)
        [part] = parts(shown, "tool-")
        part |= {"state": "approval-responded", "approval": {"id": question, "approved": approved}}
        tried = await posted(url, {"id": "t", "messages": shown["messages"]})
        assert "does not accept this answer" in tried.text
        again = opened()
        await again.do("load")
        assert asked(await again.do("resume")) == [question]
        assert chats.removed == []


@in_asyncio
async def test_an_edit_goes_beside_the_sdks_approvals(tmp_path: Path, node: Node) -> None:
    async with place(tmp_path, node) as (chats, _, opened, _):
        tab = opened()
        [question] = asked(await tab.do("say", id="m-1", text="rm a"))
        payload = {"approved": True, "editedArgs": {"path": "z"}}
        ended = await tab.do("reply", answers=[{"id": question, "payload": payload}])
        assert text(ended).startswith("did: removed z")
        assert chats.removed == ["z"]


@in_asyncio
async def test_a_foreign_conversation_is_empty_and_its_approvals_unknown(tmp_path: Path, node: Node) -> None:
    async with place(tmp_path, node) as (chats, _, opened, url):
        shown = await opened().do("say", id="m-1", text="rm a")
        [question] = asked(shown)
        assert (await opened(user="eve").do("load"))["messages"] == []
        [part] = parts(shown, "tool-")
        part |= {"state": "approval-responded", "approval": {"id": question, "approved": True}}
        tried = await posted(url, {"id": "t", "messages": shown["messages"]}, user="eve")
        assert "not found" in tried.text or "no question" in tried.text, tried.text
        assert chats.removed == []


@in_asyncio
async def test_requests_that_are_no_chat_of_a_known_user_are_refused(tmp_path: Path, node: Node) -> None:
    async with place(tmp_path, node) as (chats, client, _, url):
        assert (await posted(url, body(), user="")).status_code == 401
        assert (await posted(url, {"id": "t"})).status_code == 422
        assert (await posted(url, body(trigger="regenerate-message"))).status_code == 422
        async with httpx.AsyncClient(trust_env=False, verify=False, headers={"x-user": "ana"}) as http:
            assert (await http.post(f"{url}/chat", content="{}")).status_code == 415
            assert (await http.get(f"{url}/chat/t")).json() == []
            assert (await http.get(f"{url}/chat/t/stream")).status_code == 204
            assert (await http.get(f"{url}/chat/t", headers={"x-user": ""})).status_code == 401
        assert not (await client.list()).items
        assert chats.model.seen == []


@in_asyncio
async def test_a_failed_turn_is_told_without_its_details(tmp_path: Path, node: Node) -> None:
    chats = Chats(tmp_path, durable={"retry": RetryPolicy(max_attempts=1)})
    async with place(tmp_path, node, chats=chats) as (_, _, opened, _):
        tab = opened()
        failed = await tab.do("say", id="m-1", text="break")
        assert "This turn failed" in failed["failed"]
        assert "the model is broken" not in str(failed)


@in_asyncio
async def test_automatic_sending_answers_once_also_with_a_denial(tmp_path: Path, node: Node) -> None:
    async with place(tmp_path, node) as (chats, _, opened, _):
        tab = opened(automatic=True)
        a, b = asked(await tab.do("say", id="m-1", text="rm a b"))
        decisions = [{"id": a, "approved": True}, {"id": b, "approved": False, "reason": "not b"}]
        ended = await tab.do("answer", decisions=decisions)
        assert text(ended) == "did: removed a, not b"
        assert ended["requests"] == 2
        assert chats.removed == ["a"]


@in_asyncio
async def test_a_refused_approval_is_open_again_in_the_chat(tmp_path: Path, node: Node) -> None:
    chats = Chats(tmp_path, durable={"approvals": {"rm": ask("Remove?", assignees=["group:finance"])}})
    async with place(tmp_path, node, chats=chats, session_of=lambda caller, thread: thread) as (
        _,
        _,
        opened,
        _,
    ):
        tab = opened(automatic=True)
        [question] = asked(await tab.do("say", id="m-1", text="rm a"))
        tried = await tab.do("answer", decisions=[{"id": question, "approved": True}])
        assert "not for user:ana to answer" in tried["failed"]
        assert asked(tried) == [question]
        assert tried["requests"] == 2
        allowed = opened(user="bea finance")
        await allowed.do("load")
        ended = await allowed.do("answer", decisions=[{"id": question, "approved": True}])
        assert text(ended) == "did: removed a"
        assert chats.removed == ["a"]
