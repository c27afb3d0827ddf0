"""Tools for runs and workflows: what clients accept, with the schemas of the workflows, and bounded results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from mcp import Client
from mcp.types import Tool

from signoff.people.schemas import validation_process
from signoff.server import Role
from signoff.server.mcp.workflow_tools import LONGEST_NAME, tool_name
from tests.server.conftest import ended, start
from tests.server.keyed import Keyed
from tests.server.mcp.clients import refused, told, with_client


@pytest.fixture
def key(served: Keyed) -> str:
    return served.key("agent", Role.OPERATOR)[0]


@pytest.fixture
def operator(served: Keyed) -> Iterator[httpx.Client]:
    with served.service("ops", [Role.OPERATOR]) as http:
        yield http


async def all_tools(client: Client) -> dict[str, Tool]:
    found: dict[str, Tool] = {}
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        found |= {tool.name: tool for tool in page.tools}
        cursor = page.next_cursor
        if cursor is None:
            return found


def test_names_and_schemas_are_as_every_client_takes_them(served: Keyed, key: str) -> None:
    for tool in with_client(all_tools, served.server.url, key).values():
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,48}", tool.name)
        assert tool.input_schema["type"] == "object"
        assert not {"oneOf", "anyOf", "allOf", "x-by-position", "x-rest"} & tool.input_schema.keys()
        assert tool.output_schema is None  # some clients refuse results that they cannot check against it


def test_workflows_get_names_that_clients_take_and_that_differ() -> None:
    workflows = ["refund", "refund.v2", "refund_v2", "refund/v2", "x" * 200, "x" * 201, "größe", "start__a"]
    names = [tool_name(each, "default") for each in workflows] + [tool_name("refund", "other")]
    assert len(set(names)) == len(names)
    assert names[0] == "start__refund"
    assert all(re.fullmatch(rf"[A-Za-z0-9_-]{{1,{LONGEST_NAME}}}", each) for each in names)
    stolen = tool_name("refund.v2", "default").removeprefix("start__")
    assert tool_name(stolen, "default") != tool_name("refund.v2", "default")


def test_a_workflow_is_a_tool_with_the_schema_of_its_parameters(
    served: Keyed, key: str, operator: httpx.Client, name: str
) -> None:
    async def work(client: Client) -> None:
        tools = await all_tools(client)
        assert tools["start__ship"].description.startswith("Sends a parcel.")  # type: ignore[union-attr]
        assert tools["start__ship"].input_schema["required"] == ["parcel"]
        wrong = {"parcel": {"to": "Ana", "grams": 0, "until": None}}
        assert "grams" in refused(await client.call_tool("start__ship", wrong))
        right = {"parcel": {"to": "Ana", "until": None}, "signoff_run_id": name}
        for _ in range(2):  # a repeated call starts nothing else
            assert told(await client.call_tool("start__ship", right))["run_id"] == name
        other = {**right, "tags": ["x"]}
        assert "HTTP 409" in refused(await client.call_tool("start__ship", other))
        by_position = {
            "first": 1,
            "second": 5,
            "rest": [7, 8],
            "why": "because",
            "signoff_run_id": f"{name}-c",
        }
        told(await client.call_tool("start__collect", by_position))

    with_client(work, served.server.url, key)
    assert ended(operator, name)["result"]["parcel"]["to"] == "Ana"
    assert ended(operator, f"{name}-c")["result"] == [1, 5, 7, 8, {"why": "because"}]
    assert operator.get(f"/v1/runs/{name}").json()["started_by"] == "service:agent"


def test_long_arguments_of_a_workflow_are_checked_in_another_process(
    served: Keyed, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Apart:
        async def run(self, *_: Any) -> list[tuple[str, str]]:
            return [("tags", "was checked elsewhere")]

    monkeypatch.setattr(validation_process, "_pool", Apart())
    long = {"parcel": {"to": "Ana", "until": None}, "tags": ["x"] * 20_000}
    wrong = with_client(lambda client: client.call_tool("start__ship", long), served.server.url, key)
    assert "was checked elsewhere" in refused(wrong)


def test_a_run_is_started_signalled_awaited_and_cancelled(served: Keyed, key: str, name: str) -> None:
    async def work(client: Client) -> None:
        listening = {"workflow": "listen", "run_id": name}
        assert told(await client.call_tool("start_workflow", listening))["run_id"] == name
        signal = {"run_id": name, "name": "news", "value": {"n": 1}, "request_id": "once"}
        assert told(await client.call_tool("signal_run", signal)) == {"sent": True}
        assert told(await client.call_tool("signal_run", signal)) == {"sent": False}
        run = told(await client.call_tool("show_run", {"run_id": name, "wait_seconds": 30}))
        assert (run["state"], run["result"]) == ("succeeded", {"n": 1})
        other = {"workflow": "listen", "run_id": f"{name}-2"}
        told(await client.call_tool("start_workflow", other))
        told(await client.call_tool("cancel_run", {"run_id": f"{name}-2", "reason": "enough"}))
        waited = {"run_id": f"{name}-2", "wait_seconds": 30}
        assert told(await client.call_tool("show_run", waited))["state"] == "cancelled"

    with_client(work, served.server.url, key)


def test_lists_are_paged_and_long_payloads_left_out(
    served: Keyed, key: str, operator: httpx.Client, name: str
) -> None:
    long = "x" * 300_000
    start(operator, "echo", name, long)
    ended(operator, name)
    for n in range(3):
        start(operator, "ask", f"{name}-{n}", "why? " * 200)

    async def work(client: Client) -> None:
        run = told(await client.call_tool("show_run", {"run_id": name}))
        assert "result" not in run
        assert "300" in run["result_left_out"]
        page: dict[str, Any] = {"limit": 1}
        found: list[Any] = []
        while page.get("after", "") is not None and len(found) < 4:
            got = told(await client.call_tool("list_runs", {**page, "workflow": "ask"}))
            assert len(got["runs"]) <= 1
            found += got["runs"]
            page["after"] = got["next"]
        assert f"{name}-2" in {run["id"] for run in found}
        listed = told(await client.call_tool("list_questions", {"limit": 100, "text": name}))["questions"]
        assert all(len(each["text"]) <= 300 for each in listed)

    with_client(work, served.server.url, key)


def test_an_unknown_tool_or_cursor_is_an_error_of_the_protocol(served: Keyed, key: str) -> None:
    async def work(client: Client) -> None:
        for name in ("nothing", "start__nothing"):
            with pytest.raises(Exception, match="no tool"):
                await client.call_tool(name, {})
        with pytest.raises(Exception, match="cursor"):
            await client.list_tools(cursor="no cursor")

    with_client(work, served.server.url, key)


def test_texts_that_cannot_be_stored_are_refused_in_words(served: Keyed, key: str) -> None:
    async def work(client: Client) -> None:
        for run_id in ("a\0b", "", "x" * 2_000):
            refused(await client.call_tool("start_workflow", {"workflow": "echo", "run_id": run_id}))

    with_client(work, served.server.url, key)


@pytest.mark.parametrize("id", [".", ".."])
def test_an_id_of_dots_names_a_question_and_no_other_path(
    served: Keyed, key: str, operator: httpx.Client, id: str
) -> None:
    assert operator.post("/v1/questions", json={"id": id, "text": "Which?"}).is_success

    async def work(client: Client) -> None:
        assert told(await client.call_tool("show_question", {"question_id": id}))["id"] == id
        assert f"no run '{id}'" in refused(await client.call_tool("show_run", {"run_id": id}))
        assert "NUL" in refused(await client.call_tool("show_run", {"run_id": "a\0b"}))

    with_client(work, served.server.url, key)
