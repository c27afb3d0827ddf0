"""Promises with deadlines before their creation, or beyond the calendar."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from signoff.errors import InvalidValue
from signoff.records.paging import PromiseFilter
from signoff.server import Server
from signoff.stores.sqlite.store import SqliteStore
from tests.support import in_asyncio, new_app, running

BAD = (-1, -0.001, 1e16, 1e308)


@in_asyncio
async def test_the_route_refuses_a_timeout_that_is_no_time(tmp_path: Path) -> None:
    served = SqliteStore(tmp_path / "signoff.db")
    try:
        async with Server(served, port=0) as server, httpx.AsyncClient(base_url=server.url) as http:
            for seconds in BAD:
                refused = await http.post("/v1/promises", json={"id": "p", "timeout_seconds": seconds})
                assert refused.status_code == 422, seconds
                assert "timeout_seconds" in refused.text
            assert not (await served.list_promises(PromiseFilter())).items
            for id, seconds in (("now", 0), ("later", 1e15)):
                made = await http.post("/v1/promises", json={"id": id, "timeout_seconds": seconds})
                assert made.status_code == 201
    finally:
        await served.close()


@in_asyncio
async def test_the_client_refuses_a_timeout_that_is_no_time(tmp_path: Path) -> None:
    async with running(new_app(tmp_path)) as client:
        for seconds in BAD:
            with pytest.raises(InvalidValue, match="timeout_seconds"):
                await client.promises.create("p", timeout_seconds=seconds)
