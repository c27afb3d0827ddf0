"""Query parameters that are unknown, blank or repeated are refused by name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import fields as fields_of
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from signoff import AsyncClient, Client, RunState, Signoff
from signoff.client.http_backend import HttpBackend
from signoff.client.http_transport import HttpTransport
from signoff.errors import InvalidValue
from signoff.records.paging import (
    AuditFilter,
    DeliveryFilter,
    PromiseFilter,
    RuleFilter,
    RunFilter,
    WorkflowFilter,
)
from signoff.server import Server, create_server_app
from signoff.testing import MemoryStore
from tests.server.conftest import fields, start
from tests.support import in_asyncio

pytestmark = pytest.mark.usefixtures("open_trail")

Route = tuple[str, list[dict[str, Any]]]

MAY_BE_BLANK = {("/v1/rules", "session_id"), ("/v1/questions", "text")}


@cache
def routes() -> list[Route]:
    """The routes of the API that are read, with their query parameters."""
    found: list[Route] = []
    for path, operations in create_server_app(MemoryStore()).openapi()["paths"].items():
        if path.startswith("/v1/") and "get" in operations:
            query = [each for each in operations["get"].get("parameters", []) if each["in"] == "query"]
            found.append((path, query))
    return found


def kinds_of(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from schema.get("anyOf", [schema])


def address(path: str) -> str:
    return path.replace("{", "").replace("}", "")


@pytest.mark.parametrize("path", [path for path, _ in routes()])
def test_a_parameter_that_a_route_does_not_have_is_refused_by_name(http: httpx.Client, path: str) -> None:
    refused = http.get(f"{address(path)}?workflw=pay")
    assert refused.status_code == 422
    assert "this route has no such parameter; it has " in fields(refused)["workflw"]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (path, each["name"])
        for path, query in routes()
        for each in query
        if not any(kind.get("type") == "array" for kind in kinds_of(each["schema"]))
    ],
)
def test_a_parameter_that_is_given_twice_is_refused(http: httpx.Client, path: str, name: str) -> None:
    refused = http.get(f"{address(path)}?{name}=1&{name}=2")
    assert (refused.status_code, fields(refused)[name]) == (422, "it is given 2 times; give it once")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (path, each["name"])
        for path, query in routes()
        for each in query
        if (path, each["name"]) not in MAY_BE_BLANK
        and each["name"] != "after"
        and any(kind.get("type") == "string" and "enum" not in kind for kind in kinds_of(each["schema"]))
    ],
)
@pytest.mark.parametrize("blank", ["", "%20"])
def test_a_name_that_is_blank_is_refused(http: httpx.Client, path: str, name: str, blank: str) -> None:
    refused = http.get(f"{address(path)}?{name}={blank}")
    assert refused.status_code == 422
    assert refused.json()["path"] == name


def test_lists_are_chosen_by_several_values_still(http: httpx.Client) -> None:
    assert http.get("/v1/runs?state=paused&state=ready").status_code == 200
    assert http.get("/v1/questions?assignee=user:ana&assignee=group:finance&text=").status_code == 200
    assert http.get("/v1/rules?session_id=").status_code == 200


def test_a_blank_name_is_refused_in_python_too(tmp_path: Path) -> None:
    app = Signoff(MemoryStore())
    with Client(app) as client:
        for which in cast("list[dict[str, Any]]", [{"workflow": ""}, {"group": " "}]):
            with pytest.raises(InvalidValue, match="it is empty, so it matches nothing"):
                client.list(**which)
        with pytest.raises(InvalidValue, match="workflow: it is empty"):
            client.questions(workflow="")


CHOICES: list[tuple[str, Any]] = [
    ("list_runs", RunFilter()),
    ("list_promises", PromiseFilter()),
    ("list_audit", AuditFilter()),
    ("list_deliveries", DeliveryFilter()),
    ("list_rules", RuleFilter()),
    ("list_workflows", WorkflowFilter()),
]


@pytest.mark.parametrize(
    ("method", "every", "name"),
    [(method, every, field.name) for method, every in CHOICES for field in fields_of(every)],
)
@in_asyncio
async def test_a_client_of_a_server_sends_all_that_a_list_is_chosen_by(
    method: str, every: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it did not send chose nothing, without a word."""
    asked: list[str] = []

    async def listed(self: HttpTransport, kind: Any, path: str, query: dict[str, Any], *page: Any) -> None:
        asked.append(f"{path} {sorted((key, value) for key, value in query.items() if value is not None)}")

    monkeypatch.setattr(HttpTransport, "list_records", listed)
    backend = HttpBackend("http://127.0.0.1:1")
    values = {"states": frozenset({RunState.FAILED}), "answerable_by": frozenset({"user:ana"})}
    for which in (every, replace(every, **{name: values.get(name, True)})):
        await getattr(backend, method)(which)
    assert asked[0] != asked[1]


def test_suspended_runs_are_listed_through_a_server(server: Server, http: httpx.Client, name: str) -> None:
    for id in (f"{name}-1", f"{name}-2"):
        start(http, "wait", id, group=name)
    http.post(f"/v1/runs/{name}-1/suspend", json={"reason": "the bank is down"})
    found = asyncio.run(_suspended(server.url, name))
    assert found == [f"{name}-1"]


async def _suspended(url: str, group: str) -> list[str]:
    async with AsyncClient(url) as client:
        page = await client.backend.list_runs(RunFilter(group=group, suspended=True))
        return [run.id for run in page.items]
