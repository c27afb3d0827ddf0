"""Callers of MCP can do exactly what they can over HTTP: by role, key, namespace, host and site."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client

from signoff.server import McpSettings, Role
from tests.server.conftest import app_in, asked, serving, start
from tests.server.keyed import Keyed, client_of, keyed
from tests.server.mcp.clients import MODES, mcp_client, refused, told, user, with_client
from tests.server.proxied import PROXY
from tests.support import OnThread

READING = {"list_questions", "show_question", "list_runs", "show_run"}
EMPTY: dict[str, Any] = {}


@pytest.fixture
def operator(served: Keyed) -> Iterator[httpx.Client]:
    with served.service("ops", [Role.OPERATOR]) as http:
        yield http


async def own_tools(client: Client) -> set[str]:
    listed = await client.list_tools()
    return {tool.name for tool in listed.tools if not tool.name.startswith("start__")}


def test_each_role_is_offered_the_tools_that_it_may_use(served: Keyed) -> None:
    def tools(*roles: Role) -> set[str]:
        return with_client(own_tools, served.server.url, served.key("some", *roles)[0])

    everything = tools(Role.OPERATOR)
    assert everything == tools(Role.ADMIN)
    assert tools(Role.VIEWER) >= READING
    assert not tools(Role.VIEWER) & {
        "answer_question",
        "start_workflow",
        "signal_run",
        "cancel_run",
        "ask_person",
    }
    assert {"list_questions", "show_question", "answer_question"} <= tools(Role.RESPONDER) < everything
    assert not tools(Role.RESPONDER) & {"list_runs", "show_run", "start_workflow", "ask_person"}


def test_a_tool_that_was_not_offered_is_refused_when_called(
    served: Keyed, operator: httpx.Client, name: str
) -> None:
    start(operator, "ask", name)

    async def work(client: Client) -> list[str]:
        calls = {
            "start_workflow": {"workflow": "echo"},
            "start__echo": {"value": 1},
            "signal_run": {"run_id": name, "name": "go"},
            "cancel_run": {"run_id": name},
        }
        return [refused(await client.call_tool(tool, given)) for tool, given in calls.items()]

    refusals = with_client(work, served.server.url, served.key("eyes", Role.VIEWER)[0])
    assert all("HTTP 403" in each for each in refusals)
    assert operator.get(f"/v1/runs/{name}").json()["state"] != "cancelled"


def test_a_service_answers_only_what_is_assigned_to_it_by_name(
    served: Keyed, operator: httpx.Client, name: str
) -> None:
    start(operator, "ask", name)
    id = asked(operator, name)

    async def work(client: Client) -> str:
        digest = told(await client.call_tool("show_question", {"question_id": id}))["digest"]
        answer = {"question_id": id, "value": {"approved": True}, "digest": digest}
        return refused(await client.call_tool("answer_question", answer))

    assert "by name" in with_client(work, served.server.url, served.key("bot")[0])


@pytest.mark.parametrize("mode", MODES)
def test_no_key_a_wrong_an_ended_and_a_workers_key_are_refused(served: Keyed, mode: str) -> None:
    ended, token = served.key("gone")
    served.revoke(token)
    short = served.key("short", lifetime_seconds=5.0)[0]
    served.clock.advance(6)
    with httpx.Client(base_url=served.server.url, trust_env=False) as http:
        for key in (None, "sgk_" + "x" * 43, ended, short, served.worker_key()[0]):
            said = {"authorization": f"Bearer {key}"} if key else {}
            headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": mode, **said}
            reply = http.post(
                "/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=headers
            )
            assert reply.status_code == 401
            assert reply.headers["www-authenticate"].startswith("Bearer")


def test_a_key_sees_its_own_namespace_only(served: Keyed, operator: httpx.Client, name: str) -> None:
    start(operator, "ask", name)
    id = asked(operator, name)

    async def look(client: Client) -> None:
        assert told(await client.call_tool("list_questions", EMPTY)) == {"questions": [], "next": None}
        assert told(await client.call_tool("list_runs", EMPTY)) == {"runs": [], "next": None}
        assert "HTTP 404" in refused(await client.call_tool("show_run", {"run_id": name}))
        assert "HTTP 404" in refused(await client.call_tool("show_question", {"question_id": id}))
        told(await client.call_tool("start_workflow", {"workflow": "echo", "run_id": f"{name}-other"}))

    with_client(look, served.server.url, served.key("far", namespace="elsewhere")[0])
    assert operator.get(f"/v1/runs/{name}-other").status_code == 404


def test_other_hosts_and_pages_of_other_sites_are_refused(served: Keyed) -> None:
    key = served.key("page")[0]
    with client_of(served.server, key) as http:
        accept = {"accept": "application/json, text/event-stream"}
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        many = {f"x-{n}": "y" for n in range(100)}
        assert http.post("/mcp", json=ping, headers=accept).status_code == 200
        assert http.post("/mcp", json=ping, headers={**accept, "host": "evil.example"}).status_code == 421
        assert (
            http.post("/mcp", json=ping, headers={**accept, "origin": "http://evil.example"}).status_code
            == 403
        )
        assert http.post("/mcp", json=ping, headers={**accept, **many}).status_code == 431


def test_a_get_is_told_that_there_are_no_sessions(served: Keyed) -> None:
    with client_of(served.server, served.key("get")[0]) as http:
        reply = http.get("/mcp", headers={"accept": "text/event-stream"})
        assert (reply.status_code, reply.headers["allow"]) == (405, "POST")


def test_a_client_goes_on_after_the_server_was_restarted(tmp_path: Path) -> None:
    async def restarts(mode: str) -> None:
        app = app_in(tmp_path / mode)
        async with serving(app) as server:
            port = server.port
            async with mcp_client(server.url, mode=mode) as client:
                await client.list_tools()
                await server.__aexit__(None, None, None)
                async with serving(app_in(tmp_path / mode), port=port):
                    assert told(await client.call_tool("list_runs", EMPTY))["runs"] == []

    for mode in MODES:
        (tmp_path / mode).mkdir()
        asyncio.run(restarts(mode))


def answer_with(folder: Path, workflow: str, settings: McpSettings, value: Any) -> Any:
    """Return the result of an answer through a server with these settings."""
    with OnThread(lambda: keyed(folder, proxy=PROXY, mcp_settings=settings)) as server:
        with server.service("ops", [Role.OPERATOR]) as http:
            args = ["bob"] if workflow == "mail" else []
            start(http, workflow, "asking", *args)
            id = asked(http, "asking")

        async def work(client: Client) -> Any:
            digest = told(await client.call_tool("show_question", {"question_id": id}))["digest"]
            answer = {"question_id": id, "value": value, "digest": digest}
            return await client.call_tool("answer_question", answer)

        return with_client(work, server.server.url, headers=user("ana"))


def test_the_server_can_forbid_answers_of_a_type_or_all(tmp_path: Path) -> None:
    only_text = McpSettings(answers=["text"])
    assert "'approval'" in refused(answer_with(tmp_path, "ask", only_text, {"approved": True}))


def test_the_server_can_allow_approvals_of_agents_calls(tmp_path: Path) -> None:
    allowing = McpSettings(answers_calls=True)
    assert told(answer_with(tmp_path, "mail", allowing, {"approved": True}))["state"] == "resolved"


def test_a_server_without_mcp_has_no_such_path(tmp_path: Path) -> None:
    async def work() -> int:
        async with (
            serving(app_in(tmp_path), mcp_settings=None) as server,
            httpx.AsyncClient(base_url=server.url, trust_env=False) as http,
        ):
            return (await http.post("/mcp", json={})).status_code

    assert asyncio.run(work()) == 404


def test_pages_of_an_allowed_site_and_a_server_below_a_path_speak_mcp(tmp_path: Path) -> None:
    site = "https://app.example.com"

    async def work() -> None:
        app = app_in(tmp_path)
        async with serving(app, root_path="/signoff", allowed_origins=[site]) as server:
            for mode in MODES:
                async with mcp_client(f"{server.url}/signoff", mode=mode, headers={"origin": site}) as client:
                    assert told(await client.call_tool("list_runs", EMPTY))["runs"] == []
            asks = {
                "origin": site,
                "access-control-request-method": "POST",
                "access-control-request-headers": "authorization,mcp-method,mcp-name,mcp-protocol-version",
            }
            async with httpx.AsyncClient(base_url=server.url, trust_env=False) as http:
                assert (await http.options("/signoff/mcp", headers=asks)).status_code == 200

    asyncio.run(work())


def test_a_caller_has_a_bounded_number_of_calls_and_messages_are_bounded(tmp_path: Path) -> None:
    accept = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    asking = {"name": "ask_person", "arguments": {"question": "Go on?", "wait_seconds": 50}}
    nested = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":%b%b}}' % (
        b"[" * 150_000,
        b"]" * 150_000,
    )

    async def work() -> Counter[int]:
        connections = httpx.Limits(max_connections=300)
        async with (
            serving(app_in(tmp_path)) as server,
            httpx.AsyncClient(base_url=server.url, trust_env=False, limits=connections, timeout=60) as http,
        ):
            for body, status in ((nested, 422), (b"x" * 2_000_000, 413)):
                assert (await http.post("/mcp", content=body, headers=accept)).status_code == status
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asking}
            sent = [asyncio.create_task(http.post("/mcp", json=call, headers=accept)) for _ in range(220)]
            waiting = set(sent)
            while len(waiting) > 200:  # those above the bound are refused at once, the others wait
                _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            [question] = (await http.get("/v1/questions")).json()["items"]
            answer = {"value": True, "user_id": "ana"}
            assert (await http.post(f"/v1/questions/{question['id']}/answer", json=answer)).status_code == 200
            return Counter(reply.status_code for reply in await asyncio.gather(*sent))

    assert asyncio.run(work()) == {200: 200, 429: 20}
