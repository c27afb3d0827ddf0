"""The streams of one caller leave connections for all others."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from signoff.runtime import process_limits
from signoff.server import Role, Server
from signoff.server.auth.stored_keys import StoredKeys
from signoff.stores.sqlite.store import SqliteStore
from tests.support import PATIENCE_SECONDS, in_asyncio

STREAMS = ("/v1/questions/events", "/v1/runs/r/events")
"""Kinds of streams, each of which has a limit of its own."""


@in_asyncio
async def test_the_streams_of_one_key_take_half_of_the_connections_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_limits, "handle_limit", lambda: 40)
    most = process_limits.connection_limit()
    assert most == 20
    store = SqliteStore(tmp_path / "signoff.db")
    await store.open()
    keys = [
        (await StoredKeys(store).create_for_service(name, [Role.OPERATOR]))[0] for name in ("greedy", "other")
    ]
    async with Server(store, port=0, require_auth=True) as server, AsyncExitStack() as opened:
        greedy, other = [await opened.enter_async_context(_client(server, key)) for key in keys]
        assert (await other.post("/v1/runs", json={"workflow": "w", "id": "r"})).status_code == 201

        async def open(client: httpx.AsyncClient, path: str) -> int:
            response = await client.send(client.build_request("GET", path), stream=True)
            if response.status_code == 200:
                opened.push_async_callback(response.aclose)
            else:
                await response.aclose()
            return response.status_code

        async with asyncio.timeout(PATIENCE_SECONDS):
            statuses = [await open(greedy, STREAMS[number % 2]) for number in range(most)]
            assert statuses == [200] * (most // 2) + [429] * (most // 2)
            assert [await open(other, path) for path in STREAMS] == [200, 200]
            assert (await other.get("/v1/runs/r")).status_code == 200
            assert (await greedy.get("/v1/runs/r")).status_code == 200
    await store.close()


def _client(server: Server, key: str) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {key}"}
    return httpx.AsyncClient(base_url=server.url, headers=headers, trust_env=False, timeout=PATIENCE_SECONDS)
