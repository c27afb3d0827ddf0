"""Concurrent requests of one key share a memory bound, on every route, and delay no other key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from signoff.server.limits.long_bodies import RETRY_AFTER_SECONDS
from signoff.server.limits.requests import MOST_WAITING, READS_AT_ONCE, RequestLimit
from signoff.stores.sqlite.store import SqliteStore
from tests.attacks.requests_of_all import VALUES
from tests.attacks.served import JSON, MOST_KIB, Served
from tests.support import in_asyncio

AT_ONCE = 12

measured = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="it reads /proc")


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Served]:
    with ExitStack() as stack:
        asyncio.run(_make(SqliteStore(tmp_path / "signoff.db")))
        yield Served(stack, f"sqlite:///{tmp_path}/signoff.db", tmp_path)


async def _make(store: SqliteStore) -> None:
    await store.open()
    await store.close()


def _all_at_once(send: Callable[[int], int]) -> set[int]:
    with ThreadPoolExecutor(AT_ONCE) as senders:
        return set(senders.map(send, range(AT_ONCE)))


@measured
@pytest.mark.parametrize("kind", ["lists", "texts", pytest.param("floats", marks=pytest.mark.long)])
def test_large_starts_at_once_take_no_more_memory_than_one_request_may(empty: Served, kind: str) -> None:
    def start(number: int) -> int:
        body = b'{"workflow":"w","id":"r-%d","args":[%b]}' % (number, VALUES[kind])
        return empty.take("POST", "/v1/runs", content=body, headers=JSON)

    with empty.memory.rise() as risen:
        assert _all_at_once(start) == {201}
    assert risen[0] <= MOST_KIB


@measured
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "path",
    [
        "/v1/audit?limit=1000",
        pytest.param("/v1/runs?limit=1000", marks=pytest.mark.long),
        pytest.param("/v1/questions?limit=1000", marks=pytest.mark.long),
        pytest.param("/v1/workflows?limit=1000", marks=pytest.mark.long),
        pytest.param("/v1/runs/long/journal?limit=1000", marks=pytest.mark.long),
    ],
)
def test_large_pages_at_once_take_no_more_memory_than_two_requests_may(served: Served, path: str) -> None:
    with served.memory.rise() as risen:
        assert _all_at_once(lambda _: served.take("GET", path)) == {200}
    assert risen[0] <= 2 * MOST_KIB


class Door:
    """The limit in front of a route that replies when the test says so."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.within = 0
        self._limit = RequestLimit(self._route)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.within += 1
        await self.open.wait()
        self.within -= 1
        await PlainTextResponse("ok", media_type=scope["type_of_reply"])(scope, receive, send)

    async def ask(self, key: str, path: str = "/v1/runs", kind: str = "text/plain", **headers: str) -> Any:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            return {"type": "http.request", "body": b""}

        services = SimpleNamespace(address_of=lambda _: None)
        app: ASGIApp = self._limit
        scope: Scope = {
            "type": "http",
            "method": "POST" if headers else "GET",
            "path": path,
            "query_string": b"",
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
            "app": SimpleNamespace(state=SimpleNamespace(services=services)),
            "signoff.actor": SimpleNamespace(caller=lambda _: key),
            "type_of_reply": kind,
        }
        await app(scope, receive, send)
        return sent[0]["status"], dict(sent[0]["headers"])


async def _turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@in_asyncio
async def test_the_requests_of_one_key_wait_in_line_and_those_of_another_do_not() -> None:
    door = Door()
    first = [asyncio.create_task(door.ask("a")) for _ in range(READS_AT_ONCE + 5)]
    await _turns()
    assert door.within == READS_AT_ONCE
    other = asyncio.create_task(door.ask("b"))
    await _turns()
    assert door.within == READS_AT_ONCE + 1
    door.open.set()
    assert {status for status, _ in await asyncio.gather(*first, other)} == {200}


@in_asyncio
async def test_a_key_with_too_many_waiting_requests_gets_retry_after() -> None:
    door = Door()
    begun = [asyncio.create_task(door.ask("a")) for _ in range(READS_AT_ONCE + MOST_WAITING)]
    await _turns()
    status, headers = await door.ask("a")
    assert (status, headers[b"retry-after"]) == (429, str(RETRY_AFTER_SECONDS).encode())
    other = asyncio.create_task(door.ask("b"))
    await _turns()
    assert door.within == READS_AT_ONCE + 1
    door.open.set()
    assert {status for status, _ in await asyncio.gather(*begun, other)} == {200}
    assert (await door.ask("a"))[0] == 200


@in_asyncio
async def test_streams_and_requests_that_wait_for_a_run_take_no_place() -> None:
    door = Door()
    waits = [asyncio.create_task(door.ask("a", "/v1/runs/r/result")) for _ in range(READS_AT_ONCE + 3)]
    await _turns()
    assert door.within == READS_AT_ONCE + 3
    door.open.set()
    await asyncio.gather(*waits)


@in_asyncio
async def test_a_long_body_is_processed_alone_and_short_ones_together() -> None:
    door = Door()
    short = [asyncio.create_task(door.ask("a", content_length="300")) for _ in range(20)]
    await _turns()
    assert door.within == 20
    long = asyncio.create_task(door.ask("a", content_length="1000000"))
    await _turns()
    assert door.within == 20
    door.open.set()
    await asyncio.gather(*short, long)
