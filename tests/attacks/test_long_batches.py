"""Batches of very many small items: one of 90,000 audit events used to block a server for 11 s."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from signoff.records import LiveText
from signoff.records.paging import AuditFilter
from signoff.server import Server
from signoff.server.routes import store_operations
from signoff.server.store_api.item_limits import (
    MOST_EVENTS,
    MOST_ITEMS,
    MOST_OPENED,
    MOST_PIECES,
    MOST_WRITTEN,
)
from signoff.server.store_api.payload_checks import check_payloads
from signoff.stores.contract.wire import PATH
from signoff.stores.remote.store import PIECES_AT_ONCE, RemoteStore
from signoff.stores.sqlite.store import SqliteStore
from tests import worker_keys
from tests.support import in_asyncio

Operation = tuple[str, dict[str, Any]]
LONGEST_WAIT_SECONDS: Final = 10.0


@asynccontextmanager
async def serving(folder: Path) -> AsyncGenerator[tuple[Server, SqliteStore, httpx.AsyncClient]]:
    served = SqliteStore(folder / "signoff.db")
    try:
        async with Server(served, port=0, worker_keys=worker_keys.KEYS) as server:
            headers = {"authorization": f"Bearer {worker_keys.SECRET}"}
            async with httpx.AsyncClient(base_url=server.url, headers=headers, timeout=60) as http:
                yield server, served, http
    finally:
        await served.close()


async def ask(http: httpx.AsyncClient, *asked: Operation, client: str = "attacker") -> httpx.Response:
    sent = [
        {"id": n, "namespace": "default", "do": do, "arguments": arguments}
        for n, (do, arguments) in enumerate(asked)
    ]
    return await http.post(PATH, json={"client": client, "floor": 0, "operations": sent})


def replies(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.text[:500]
    return [json.loads(line) for line in response.text.splitlines()]


def recording(events: int, first: int = 0) -> Operation:
    made = [{"id": f"e{first + n}", "kind": "refused", "question_id": "q"} for n in range(events)]
    return "record", {"events": made}


def writing(field: str, items: list[Any]) -> Operation:
    return "append", {"write": {"run_id": "r", "epoch": 1, field: items}}


TOO_MANY: Final[dict[str, tuple[str, Operation]]] = {
    "events": ("events", recording(MOST_EVENTS + 1)),
    "entries": ("write.entries", writing("entries", [{}] * (MOST_WRITTEN + 1))),
    "opens": ("write.opens", writing("opens", [{}] * (MOST_OPENED + 1))),
    "starts": ("write.starts", writing("starts", [{}] * (MOST_OPENED + 1))),
    "taken": ("write.taken", writing("taken", [1] * (MOST_WRITTEN + 1))),
    "closes": ("write.closes", writing("closes", ["p"] * (MOST_WRITTEN + 1))),
    "pieces": ("pieces", ("publish", {"pieces": [{}] * (MOST_PIECES + 1)})),
    "workflows": ("workflows", ("announce", {"workflows": [{}] * (MOST_EVENTS + 1)})),
    "runs": ("runs", ("fire_schedule", {"schedule_id": "s", "runs": [{}] * (MOST_EVENTS + 1)})),
    "deliveries": ("deliveries", ("expand", {"channel": "c", "deliveries": [{}] * (MOST_ITEMS + 1)})),
    "events of an amendment": (
        "amendment.events",
        ("amend", {"question_id": "q", "amendment": {"events": [{}] * (MOST_EVENTS + 1)}}),
    ),
}


@pytest.mark.parametrize("items", TOO_MANY)
@in_asyncio
async def test_an_operation_of_too_many_items_is_refused_by_name(tmp_path: Path, items: str) -> None:
    path, operation = TOO_MANY[items]
    async with serving(tmp_path) as (_, served, http):
        [refused] = replies(await ask(http, operation))
        [fine] = replies(await ask(http, recording(2), client="other"))
        assert path in json.dumps(refused["problem"])
        assert "more than" in json.dumps(refused["problem"])
        assert "result" in fine
        assert len((await served.list_audit(AuditFilter())).items) == 2


@in_asyncio
async def test_a_request_of_too_many_items_is_refused_whole(tmp_path: Path) -> None:
    each = MOST_EVENTS
    attack = [recording(each, first) for first in range(0, MOST_ITEMS + each, each)]
    async with serving(tmp_path) as (_, served, http):
        response = await ask(http, *attack)
        assert response.status_code == 422
        assert f"more than {MOST_ITEMS:,}" in response.text
        assert not (await served.list_audit(AuditFilter())).items


@in_asyncio
async def test_a_long_operation_of_a_worker_is_taken_alone(tmp_path: Path) -> None:
    held = {f"r{n}": 1 for n in range(MOST_ITEMS + 1)}
    async with serving(tmp_path) as (server, _, _):
        store = RemoteStore(server.url, key=worker_keys.SECRET)
        await store.open()
        try:
            assert await store.heartbeat("w", held) == held.keys()
        finally:
            await store.close()


@pytest.mark.parametrize("asked", [[1_000], [30] * 200], ids=["one long", "many short"])
@in_asyncio
async def test_the_loop_goes_on_while_a_long_batch_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[int]
) -> None:
    loop = asyncio.get_running_loop()
    went_on: list[bool] = []

    def check(operation: str, arguments: dict[str, Any]) -> None:
        if not went_on or went_on[-1]:  # else each of them would wait
            turned = threading.Event()
            loop.call_soon_threadsafe(turned.set)
            went_on.append(turned.wait(LONGEST_WAIT_SECONDS))
        check_payloads(operation, arguments)

    monkeypatch.setattr(store_operations, "check_payloads", check)
    async with serving(tmp_path) as (_, served, http):
        attack = [recording(events, 1_000 * n) for n, events in enumerate(asked)]
        assert all("result" in each for each in replies(await ask(http, *attack)))
        assert went_on == [True] * len(asked)
        events = await served.list_audit(AuditFilter(), limit=1_000)
        assert len(events.items) == 1_000


@in_asyncio
async def test_live_text_of_very_many_steps_is_sent_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []

    def check(operation: str, arguments: dict[str, Any]) -> None:
        sent.append(len(arguments["pieces"]))
        check_payloads(operation, arguments)

    pieces = [LiveText("r", 1, n, 0, "step", 1, n, "text", "t") for n in range(2 * PIECES_AT_ONCE + 1)]
    async with serving(tmp_path) as (server, _, _):
        store = RemoteStore(server.url, key=worker_keys.SECRET)
        await store.open()
        monkeypatch.setattr(store_operations, "check_payloads", check)
        try:
            await store.publish(pieces)
        finally:
            await store.close()
    assert sent == [PIECES_AT_ONCE, PIECES_AT_ONCE, 1]
