"""Agents ask people through MCP: each call asks once, and only a person's yes is a yes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, MCPError

from signoff.redaction.paths import marker
from signoff.server import Role
from tests.server.conftest import app_in, path_of, serving
from tests.server.keyed import Keyed
from tests.server.mcp.clients import MODES, mcp_client, refused, told, user, with_client
from tests.server.proxied import through

DEPLOY: dict[str, Any] = {"question": "Deploy it?", "wait_seconds": 0}
COMMAND = {"tool_name": "Bash", "input": {"command": "rm -rf build"}}


@pytest.fixture
def key(served: Keyed, name: str) -> str:
    """The key of an agent that nobody else is."""
    return served.key(name, Role.OPERATOR)[0]


@pytest.fixture
def inbox(served: Keyed) -> Iterator[httpx.Client]:
    """What a person uses."""
    with through(served.server, "ana", roles="responder") as http:
        yield http


def answer(inbox: httpx.Client, id: str, value: Any, **more: Any) -> None:
    reply = inbox.post(f"/v1/questions/{path_of(id)}/answer", json={"value": value, **more})
    assert reply.is_success, reply.text


def opened(inbox: httpx.Client, words: str) -> list[dict[str, Any]]:
    """The open questions with words in them."""
    return inbox.get("/v1/questions", params={"text": words}).json()["items"]


async def waits_for(inbox: httpx.Client, words: str) -> str:
    """Wait until a question is open, and return its id."""
    while not (found := await asyncio.to_thread(opened, inbox, words)):
        await asyncio.sleep(0.02)
    return found[0]["id"]


def decided(
    served: Keyed, key: str, inbox: httpx.Client, words: str, decide: Callable[[str], None], **call: Any
) -> dict[str, Any]:
    """Ask for permission, decide with ``decide``, and return what the coding agent gets."""

    async def work() -> dict[str, Any]:
        async with mcp_client(served.server.url, key) as client:
            asking = asyncio.create_task(client.call_tool("permission_prompt", call))
            id = await waits_for(inbox, words)
            await asyncio.to_thread(decide, id)
            result = await asking
            [content] = result.content
            assert not result.is_error
            assert result.structured_content is None
            return json.loads(content.text)  # type: ignore[union-attr]

    return asyncio.run(work())


@pytest.mark.parametrize("mode", MODES)
def test_a_question_is_answered_in_the_inbox_and_polled(
    served: Keyed, key: str, inbox: httpx.Client, name: str, mode: str
) -> None:
    async def work(client: Client) -> None:
        asked = {**DEPLOY, "question": f"Deploy {name}?", "assignees": ["user:ana"], "metadata": {"pr": 7}}
        pending = told(await client.call_tool("ask_person", asked))
        assert pending["outcome"] == "pending"
        assert "value" not in pending
        id = pending["question_id"]
        [question] = opened(inbox, name)
        assert (question["id"], question["data"]["metadata"]["pr"]) == (id, 7)
        again = told(await client.call_tool("await_answer", {"question_id": id, "wait_seconds": 0}))
        assert again["outcome"] == "pending"
        answer(inbox, id, {"approved": False}, note="not on a Friday")
        got = told(await client.call_tool("await_answer", {"question_id": id}))
        assert got == {
            "outcome": "answered",
            "question_id": id,
            "value": {"approved": False},
            "by": "ana",
            "note": "not on a Friday",
        }

    with_client(work, served.server.url, key, mode=mode)


def test_the_same_words_ask_once_until_they_are_answered(
    served: Keyed, key: str, inbox: httpx.Client, name: str
) -> None:
    async def work(client: Client) -> None:
        words = {**DEPLOY, "question": f"Deploy {name}?"}
        calls = [client.call_tool("ask_person", words) for _ in range(5)]
        ids = {told(each)["question_id"] for each in await asyncio.gather(*calls)}
        assert len(ids) == 1
        answer(inbox, ids.pop(), True)
        later = told(await client.call_tool("ask_person", words))
        assert later["outcome"] == "pending"  # a yes to the first is none to the second

    with_client(work, served.server.url, key)
    assert len(opened(inbox, name)) == 1


def test_a_request_id_finds_the_answer_again_and_asks_nothing_else(
    served: Keyed, key: str, inbox: httpx.Client, name: str
) -> None:
    words = {**DEPLOY, "question": f"Deploy {name}?", "request_id": "call-1"}
    first = with_client(lambda client: client.call_tool("ask_person", words), served.server.url, key)
    answer(inbox, told(first)["question_id"], True)

    async def again(client: Client) -> None:
        assert told(await client.call_tool("ask_person", words))["value"] == {"approved": True}
        other = {**words, "question": f"Delete {name}?"}
        assert "HTTP 409" in refused(await client.call_tool("ask_person", other))

    with_client(again, served.server.url, key)
    other_agent = served.key(f"{name}-b", Role.OPERATOR)[0]
    theirs = with_client(lambda client: client.call_tool("ask_person", words), served.server.url, other_agent)
    assert told(theirs)["outcome"] == "pending"


def test_forms_selections_and_texts_are_asked(
    served: Keyed, key: str, inbox: httpx.Client, name: str
) -> None:
    schema = {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}
    asks: list[tuple[dict[str, Any], Any]] = [
        ({"input_type": "select", "options": ["red", "blue"]}, "red"),
        ({"input_type": "multiselect", "options": ["red", "blue"]}, ["blue"]),
        ({"input_type": "text"}, "why not"),
        ({"input_type": "form", "answer_schema": schema}, {"cents": 7}),
    ]

    async def work(client: Client) -> None:
        for terms, value in asks:
            pending = told(await client.call_tool("ask_person", {**DEPLOY, "question": f"{name}?", **terms}))
            answer(inbox, pending["question_id"], value)
            got = told(await client.call_tool("await_answer", {"question_id": pending["question_id"]}))
            assert got["value"] == value
        refused(await client.call_tool("ask_person", {**DEPLOY, "input_type": "select"}))
        refused(await client.call_tool("ask_person", {**DEPLOY, "assignees": ["nobody"]}))
        refused(await client.call_tool("ask_person", {**DEPLOY, "user_id": "ana"}))

    with_client(work, served.server.url, key)


def test_a_deadline_and_a_withdrawal_are_no_answer(served: Keyed, key: str, name: str) -> None:
    operator = served.service("ops", [Role.OPERATOR])

    async def work(client: Client) -> None:
        brief = {**DEPLOY, "question": f"Quick {name}?", "timeout_seconds": 5}
        quick = told(await client.call_tool("ask_person", brief))["question_id"]
        gone = told(await client.call_tool("ask_person", {**DEPLOY, "question": f"Gone {name}?"}))[
            "question_id"
        ]
        cancelled = operator.post(f"/v1/questions/{path_of(gone)}/cancel", json={"reason": "no need"})
        assert cancelled.is_success
        served.clock.advance(6)
        late = told(await client.call_tool("await_answer", {"question_id": quick}))
        assert late == {"outcome": "timed_out", "question_id": quick}
        withdrawn = told(await client.call_tool("await_answer", {"question_id": gone}))
        assert withdrawn == {"outcome": "withdrawn", "question_id": gone, "reason": "no need"}

    with operator:
        with_client(work, served.server.url, key)


def test_a_model_cannot_answer_its_own_question_nor_another_agents(
    served: Keyed, key: str, inbox: httpx.Client, name: str
) -> None:
    ana = user("ana", roles="operator")  # an agent with a person's own sign-in

    async def work(client: Client) -> None:
        words = {**DEPLOY, "question": f"Deploy {name}?"}
        id = told(await client.call_tool("ask_person", words))["question_id"]
        digest = told(await client.call_tool("show_question", {"question_id": id}))["digest"]
        for value in ({"approved": True}, True):
            said = {"question_id": id, "value": value, "digest": digest}
            assert "own question" in refused(await client.call_tool("answer_question", said))

    with_client(work, served.server.url, headers=ana)

    async def other(client: Client) -> None:
        [question] = opened(inbox, name)
        shown = told(await client.call_tool("show_question", {"question_id": question["id"]}))
        said = {"question_id": question["id"], "value": True, "digest": shown["digest"]}
        assert "inbox" in refused(await client.call_tool("answer_question", said))

    with_client(other, served.server.url, headers=user("bob"))
    assert len(opened(inbox, name)) == 1


# The permission prompt of coding agents


def test_an_allowed_call_runs_with_the_input_that_was_shown(
    served: Keyed, key: str, inbox: httpx.Client, name: str
) -> None:
    call = {**COMMAND, "tool_use_id": name}

    def decide(id: str) -> None:
        asked = inbox.get(f"/v1/questions/{path_of(id)}").json()["data"]
        assert asked["action"] == {"tool": "Bash", "arguments": COMMAND["input"]}
        answer(inbox, id, {"approved": True})

    got = decided(served, key, inbox, name, decide, **call)
    assert got == {"behavior": "allow", "updatedInput": COMMAND["input"]}
    # a repeated request with the same id, after its reply was lost
    again = with_client(lambda client: client.call_tool("permission_prompt", call), served.server.url, key)
    assert told(again) == got
    changed = {**call, "input": {"command": "rm -rf /"}}
    other = with_client(lambda client: client.call_tool("permission_prompt", changed), served.server.url, key)
    assert told(other)["behavior"] == "deny"
    served.clock.advance(3600)
    stale = with_client(lambda client: client.call_tool("permission_prompt", call), served.server.url, key)
    assert told(stale)["behavior"] == "deny"


def test_an_edited_call_runs_as_edited_and_a_denial_has_its_reason(
    served: Keyed, key: str, inbox: httpx.Client, name: str
) -> None:
    edited = {"command": "rm -rf build/cache"}
    change = {"approved": True, "edited": edited}
    got = decided(served, key, inbox, name, lambda id: answer(inbox, id, change), **COMMAND)
    assert got == {"behavior": "allow", "updatedInput": edited}
    no = decided(
        served,
        key,
        inbox,
        name,
        lambda id: answer(inbox, id, {"approved": False}, note="use make"),
        **COMMAND,
    )
    assert no == {"behavior": "deny", "message": "use make"}


def test_nobodys_answer_a_withdrawal_and_a_lack_of_rights_deny(
    served: Keyed, key: str, inbox: httpx.Client, name: str
) -> None:
    late = decided(served, key, inbox, name, lambda _: served.clock.advance(3601), **COMMAND)
    assert late["behavior"] == "deny"

    def withdraw(id: str) -> None:
        with served.service("ops", [Role.OPERATOR]) as operator:
            assert operator.post(f"/v1/questions/{path_of(id)}/cancel", json={}).is_success

    assert decided(served, key, inbox, name, withdraw, **COMMAND)["behavior"] == "deny"
    viewer = served.key("eyes", Role.VIEWER)[0]
    got = with_client(
        lambda client: client.call_tool("permission_prompt", COMMAND), served.server.url, viewer
    )
    assert told(got)["behavior"] == "deny"
    assert "HTTP" not in told(got)["message"]
    malformed = {"tool_name": "Bash"}
    got = with_client(lambda client: client.call_tool("permission_prompt", malformed), served.server.url, key)
    refused(got)


def test_without_a_call_id_an_equal_call_is_asked_again(
    served: Keyed, key: str, inbox: httpx.Client, name: str
) -> None:
    asked: list[str] = []

    def decide(id: str) -> None:
        asked.append(id)
        answer(inbox, id, {"approved": len(asked) == 1})

    outcomes = [decided(served, key, inbox, name, decide, **COMMAND)["behavior"] for _ in range(2)]
    assert outcomes == ["allow", "deny"]


def test_the_user_of_the_client_chooses_who_answers(served: Keyed, key: str, name: str) -> None:
    async def work() -> None:
        async with mcp_client(served.server.url, key, query="?assignee=user%3Aboss") as client:
            told(await client.call_tool("ask_person", {**DEPLOY, "question": f"Deploy {name}?"}))

    asyncio.run(work())
    with (
        through(served.server, "boss", roles="responder") as boss,
        through(served.server, "ana", roles="responder") as ana,
    ):
        assert len(opened(boss, name)) == 1
        assert opened(ana, name) == []


@pytest.mark.parametrize("mode", MODES)
def test_a_server_that_stops_ends_calls_at_once_and_decides_nothing(tmp_path: Path, mode: str) -> None:
    async def work() -> None:
        async with serving(app_in(tmp_path)) as server, mcp_client(server.url, mode=mode) as client:
            await client.list_tools()  # else the client does after its first result
            asked = {**DEPLOY, "wait_seconds": 40}
            asking = asyncio.create_task(client.call_tool("ask_person", asked))
            permission = asyncio.create_task(client.call_tool("permission_prompt", COMMAND))
            async with httpx.AsyncClient(base_url=server.url, trust_env=False) as http:
                while len((await http.get("/v1/questions")).json()["items"]) < 2:
                    await asyncio.sleep(0.02)
            stopping = asyncio.create_task(server.__aexit__(None, None, None))
            assert told(await asyncio.wait_for(asking, 5))["outcome"] == "pending"
            with pytest.raises(MCPError, match="stopping"):  # signoff mcp repeats the call
                await asyncio.wait_for(permission, 5)
            await asyncio.wait_for(stopping, 5)

    asyncio.run(work())


def test_redacted_input_runs_as_the_agent_sent_it_or_not_at_all(tmp_path: Path) -> None:
    secret = {"command": "curl", "token": "s3cret"}
    call = {"tool_name": "Bash", "input": secret}

    async def work(decision: dict[str, Any]) -> dict[str, Any]:
        redact = ["token"]
        async with serving(app_in(tmp_path), redact=redact) as server, mcp_client(server.url) as client:
            asking = asyncio.create_task(client.call_tool("permission_prompt", call))
            async with httpx.AsyncClient(base_url=server.url, trust_env=False) as http:
                while not (found := (await http.get("/v1/questions")).json()["items"]):
                    await asyncio.sleep(0.02)
                assert "s3cret" not in str(found)
                reply = await http.post(f"/v1/questions/{found[0]['id']}/answer", json={"value": decision})
                assert reply.is_success, reply.text
            return json.loads((await asking).content[0].text)  # type: ignore[union-attr]

    assert asyncio.run(work({"approved": True})) == {"behavior": "allow", "updatedInput": secret}
    edited = {"approved": True, "edited": {"command": "wget", "token": marker(("token",))}}
    assert asyncio.run(work(edited))["behavior"] == "deny"
