"""Questions answered through MCP: as the signed-in user, as shown, once, and only what the server allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from mcp import Client

from signoff.server import McpSettings, Role
from tests.server.conftest import asked, ended, path_of, start
from tests.server.keyed import Keyed
from tests.server.mcp.clients import MODES, posted, refused, told, user, with_client
from tests.server.proxied import refusals, through


@pytest.fixture
def operator(served: Keyed) -> Iterator[httpx.Client]:
    with served.service("ops", [Role.OPERATOR, Role.ADMIN]) as http:
        yield http


def question(operator: httpx.Client, workflow: str, run_id: str, *args: Any, **more: Any) -> str:
    start(operator, workflow, run_id, *args, **more)
    return asked(operator, run_id)


async def answered(client: Client, id: str, value: Any, **more: Any) -> Any:
    shown = told(await client.call_tool("show_question", {"question_id": id}))
    given = {"question_id": id, "value": value, "digest": shown["digest"], **more}
    return await client.call_tool("answer_question", given)


@pytest.mark.parametrize("mode", MODES)
def test_an_answer_is_the_signed_in_users_and_comes_from_mcp(
    served: Keyed, operator: httpx.Client, name: str, mode: str
) -> None:
    id = question(operator, "sign", name, ["group:finance"])
    answer = with_client(
        lambda client: answered(client, id, {"approved": True}),
        served.server.url,
        headers=user("ana", groups="finance"),
        mode=mode,
    )
    assert told(answer)["settled_by"] == "ana"
    assert ended(operator, name)["result"] == {"approved": True, "by": "ana"}
    [event] = [
        event
        for event in operator.get("/v1/audit", params={"question_id": id}).json()["items"]
        if event["kind"] == "resolved"
    ]
    assert event["by"] == "ana"
    assert event["origin"]["way"] == "mcp"


def test_nan_does_not_become_null_which_would_skip_the_question(
    served: Keyed, operator: httpx.Client, name: str
) -> None:
    id = question(operator, "skip", name)
    with through(served.server, "ana", roles="responder") as http:
        digest = http.get(f"/v1/questions/{path_of(id)}").json()["data"]["digest"]
        call = {"name": "answer_question", "arguments": {"question_id": id, "value": "NaN", "digest": digest}}
        reply = posted(http, "tools/call", call, lambda text: text.replace('"NaN"', "NaN"))
    assert "true" in reply.partition('"isError":')[2]
    assert operator.get(f"/v1/questions/{path_of(id)}").json()["state"] == "pending"


def test_a_wrong_value_or_digest_is_refused_and_the_question_stays_open(
    served: Keyed, operator: httpx.Client, name: str
) -> None:
    id = question(operator, "skip", name)

    async def answers(client: Client) -> None:
        assert "approved" in refused(await answered(client, id, {"approved": "yes"}))
        assert "digest" in refused(
            await client.call_tool(
                "answer_question", {"question_id": id, "value": {"approved": True}, "digest": "0" * 64}
            )
        )
        shown = told(await client.call_tool("show_question", {"question_id": id}))
        assert shown["state"] == "pending"

    with_client(answers, served.server.url, headers=user("ana"))


def test_a_caller_cannot_name_a_user(served: Keyed, operator: httpx.Client, name: str) -> None:
    id = question(operator, "ask", name)

    async def answers(client: Client) -> None:
        for field in ("user_id", "by", "groups", "roles"):
            assert field in refused(await answered(client, id, {"approved": True}, **{field: "boss"}))

    with_client(answers, served.server.url, headers=user("ana"))
    assert operator.get(f"/v1/questions/{path_of(id)}").json()["state"] == "pending"


def test_a_repeated_answer_counts_once_and_another_one_loses(
    served: Keyed, operator: httpx.Client, name: str
) -> None:
    id = question(operator, "ask", name)

    async def answers(client: Client) -> list[Any]:
        first = told(await answered(client, id, {"approved": True}, note="fine"))
        again = told(await answered(client, id, {"approved": True}, note="fine"))
        assert first == again
        return [refused(await answered(client, id, {"approved": False}))]

    [late] = with_client(answers, served.server.url, headers=user("ana"))
    assert "ana" in late
    assert ended(operator, name)["result"]["approved"] is True


def test_an_answer_in_the_inbox_wins_and_mcp_is_told(
    served: Keyed, operator: httpx.Client, name: str
) -> None:
    id = question(operator, "ask", name)

    async def late(client: Client) -> str:
        digest = told(await client.call_tool("show_question", {"question_id": id}))["digest"]
        with through(served.server, "boss", roles="responder") as boss:
            assert boss.post(f"/v1/questions/{path_of(id)}/answer", json={"value": False}).is_success
        answer = {"question_id": id, "value": {"approved": True}, "digest": digest}
        return refused(await client.call_tool("answer_question", answer))

    assert "boss" in with_client(late, served.server.url, headers=user("ana"))
    assert ended(operator, name)["result"] == {"approved": False, "by": "boss", "note": None}


OF_CALLS: list[dict[str, Any]] = [
    {"action": ["send_mail", {"to": "bob"}]},
    {"metadata": {"tool": "send_mail", "arguments": {}}},  # its result, or whether to repeat it
    {"metadata": {"tool_call_id": "call-1"}},
    {"metadata": {"interrupt": "i-1"}},
    {"metadata": {"step": "pay", "idempotency_key": "k"}},
]


@pytest.mark.parametrize("terms", OF_CALLS)
def test_a_question_about_an_agents_call_is_not_answered_through_mcp(
    served: Keyed, operator: httpx.Client, name: str, terms: dict[str, Any]
) -> None:
    id = question(operator, "put", name, "Send it?", kwargs=terms)
    answer = with_client(
        lambda client: answered(client, id, {"approved": True}), served.server.url, headers=user("ana")
    )
    assert "a person answers it in the inbox" in refused(answer)
    assert operator.get(f"/v1/questions/{path_of(id)}").json()["state"] == "pending"
    assert ("ana", "AccessDenied") in refusals(operator, id)


def test_even_where_calls_may_be_approved_a_caller_does_not_answer_itself() -> None:
    allowing = McpSettings(answers_calls=True)
    own = {"input_type": "approval", "metadata": {"asked_through": "mcp", "asked_by": "ana"}}
    assert allowing.refusal(own, "bob") is None
    assert "own question" in (allowing.refusal(own, "ana") or "")
    assert allowing.refusal({"input_type": "approval", "action": {"tool": "rm"}}, "ana") is None


def test_another_users_question_is_neither_shown_nor_answered(
    served: Keyed, operator: httpx.Client, name: str
) -> None:
    id = question(operator, "sign", name, ["user:boss"])

    async def look(client: Client) -> None:
        listed = told(await client.call_tool("list_questions", {"run_id": name}))
        assert listed["questions"] == []
        refused(await client.call_tool("show_question", {"question_id": id}))
        answer = {"question_id": id, "value": {"approved": True}, "digest": "0" * 64}
        refused(await client.call_tool("answer_question", answer))

    with_client(look, served.server.url, headers=user("ana"))
    assert operator.get(f"/v1/questions/{path_of(id)}").json()["state"] == "pending"
