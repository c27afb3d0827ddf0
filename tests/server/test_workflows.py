"""The register of workflows over HTTP; a client on a store and one on a server behave alike."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
from pydantic import BaseModel

from signoff import AsyncClient, Client, Context
from signoff.records import WorkflowInfo
from signoff.server import Server
from tests.server.conftest import app_in, kind, serving
from tests.support import OnThread, comes, in_asyncio, opened


def test_what_a_worker_runs_is_listed_with_what_it_takes(http: httpx.Client) -> None:
    [mail] = _listed(http, name="mail")
    assert (mail["group"], mail["version"], mail["is_current"]) == ("default", "1", True)
    assert mail["seen_at"] > 0
    assert mail["parameters"]["properties"]["text"] == {"title": "text", "type": "string", "default": "Hello"}
    assert mail["parameters"]["required"] == ["to"]
    [approve] = _listed(http, name="approve")
    assert approve["description"].startswith("Ask under a policy; ")
    assert http.get("/v1/workflows", params={"group": "none"}).json() == {"items": [], "next": None}
    refused = http.get("/v1/workflows", params={"after": "x"})
    assert (refused.status_code, kind(refused)) == (422, "InvalidValue")


def _listed(http: httpx.Client, **which: str) -> list[dict[str, Any]]:
    """What is listed, as soon as the worker has announced it."""
    while True:
        items = http.get("/v1/workflows", params=which).json()["items"]
        if items:
            return items


@in_asyncio
async def test_a_client_sees_the_same_of_a_store_and_of_a_server(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with opened(app) as local:
        with OnThread(lambda: serving(app_in(tmp_path))) as server:
            async with AsyncClient(server.url) as remote:
                await comes(lambda: _found(local, "one_by_one"))
                first = await local.workflows.list(limit=2)
                assert [each.name for each in first.items] == ["approve", "ask"]
                assert await remote.workflows.list(limit=2) == first
                after = {"after": first.next, "group": "default"}
                assert await remote.workflows.list(**after) == await local.workflows.list(**after)


async def _found(client: AsyncClient, name: str) -> Sequence[WorkflowInfo]:
    return (await client.workflows.list(name=name)).items


class Card(BaseModel):
    number: str = "4242-confidential"
    city: str = "Bern"


async def pay(ctx: Context, card: Card, pin: str = "confidential", note: str = "Thanks") -> None:
    """Pays."""


@in_asyncio
async def test_no_default_of_what_is_hidden_leaves_a_server(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    app.workflow(pay)
    async with Server(app, port=0, redact=["pin", "card.number"]) as server, app.worker():
        async with AsyncClient(server.url) as client:
            [found] = await comes(lambda: _found(client, "pay"))
        assert "confidential" not in str(found)
        schema = json.loads(found.parameters or "")
        assert "default" not in schema["properties"]["pin"]
        assert schema["properties"]["note"]["default"] == "Thanks"
    await app.store.close()


def test_the_blocking_client_lists_workflows(server: Server, http: httpx.Client) -> None:
    _listed(http, name="echo")
    with Client(server.url) as client:
        [echo] = client.workflows.list(name="echo").items
        assert echo.name == "echo"
