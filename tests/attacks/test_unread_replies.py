"""Clients that do not read their replies: streams and replies take little of a server's memory."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from starlette.types import Receive, Scope, Send

from signoff.server.limits import unread_replies
from signoff.server.limits.streams import MOST
from signoff.server.process.uvicorn_server import Serving
from tests.attacks.large_rows import LONG_RUN
from tests.attacks.raw_connections import WHOLE, connected
from tests.attacks.served import MOST_KIB, ROWS, Served
from tests.support import PATIENCE_SECONDS, comes, in_asyncio

pytestmark = pytest.mark.timeout(400)  # a store is filled with large rows first

SIZE = 32 * 1024 * 1024
"""More than the system's own buffers hold."""


async def large(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % SIZE)]})
    await send({"type": "http.response.body", "body": bytes(SIZE)})


async def _is_left(server: Serving) -> bool:
    return not server.server_state.connections


@in_asyncio
async def test_a_client_that_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread_replies, "UNREAD_SECONDS", 0.2)
    async with connected(large) as (server, _, writer):
        writer.write(WHOLE)
        await comes(lambda: _has_begun(server))
        await comes(lambda: _is_left(server))


@in_asyncio
async def test_one_that_reads_slowly_gets_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread_replies, "UNREAD_SECONDS", 1.0)
    monkeypatch.setattr(unread_replies, "LOOK_SECONDS", 0.05)
    async with connected(large) as (_, reader, writer):
        writer.write(WHOLE)
        read = len(await reader.readuntil(b"\r\n\r\n")) * 0
        while read < SIZE:
            part = await reader.read(SIZE // 16)
            assert part, "it was cut off"
            read += len(part)
            await asyncio.sleep(0.02)


@in_asyncio
async def test_those_who_have_read_least_are_cut_off_while_all_hold_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unread_replies, "UNREAD_BYTES", int(1.5 * SIZE))
    monkeypatch.setattr(unread_replies, "LEAST_SECONDS", 0.2)
    async with connected(large) as (server, _, writer):
        writer.write(WHOLE)
        await comes(lambda: _has_begun(server))
        await asyncio.sleep(0.5)
        assert len(server.server_state.connections) == 1, "one alone holds not too much"
        port = writer.get_extra_info("peername")[1]
        reader, second = await asyncio.open_connection("127.0.0.1", port)
        second.write(WHOLE)

        async def is_one_left() -> bool:
            return len(server.server_state.connections) == 1

        await comes(is_one_left)
        async with asyncio.timeout(30.0):
            await reader.readuntil(b"\r\n\r\n")
            assert len(await reader.readexactly(SIZE)) == SIZE, "the one that came first is cut off"
        second.close()


async def _has_begun(server: Serving) -> bool:
    return any(each.cycle is not None for each in server.server_state.connections)


@pytest.fixture
def sockets() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def _ask(server: Served, sockets: ExitStack, path: str) -> socket.socket:
    """Send a request whose reply is not read."""
    asking = sockets.enter_context(socket.socket())
    asking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    asking.connect(("127.0.0.1", server.http.base_url.port))
    head = (
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {server.http.headers['authorization']}\r\n"
    )
    asking.sendall(f"{head}\r\n".encode())
    return asking


@pytest.mark.parametrize("live", [pytest.param("false", marks=pytest.mark.long), "true"])
def test_unread_streams_take_little_memory_and_leave_others_theirs(
    served: Served,
    sockets: ExitStack,
    live: str,
) -> None:
    path = f"/v1/runs/{LONG_RUN}/events"
    with served.memory.rise() as risen:
        asking = [_ask(served, sockets, f"{path}?live={live}") for _ in range(MOST["journal"])]
        for each in asking:
            assert each.recv(12) == b"HTTP/1.1 200"
        for _ in range(20):
            assert served.http.get("/v1/runs?limit=1").status_code == 200
            time.sleep(0.1)
    assert risen[0] < 3 * MOST_KIB, f"{risen[0]} KiB"  # of all: 200 connections take some by themselves
    sockets.close()
    events, until = 0, time.monotonic() + PATIENCE_SECONDS
    while not events and time.monotonic() < until:  # 429 until the server has noticed that they are gone
        with served.http.stream("GET", path) as reply:
            for line in reply.iter_lines():
                events += line.startswith("id: ")
                if events == ROWS:
                    break
    assert events == ROWS


def test_small_streams_continue_beside_unread_large_ones(
    served: Served,
    sockets: ExitStack,
) -> None:
    asking = [_ask(served, sockets, f"/v1/runs/{LONG_RUN}/events") for _ in range(20)]
    for each in asking:
        assert each.recv(12) == b"HTTP/1.1 200"
    started = served.http.post(
        "/v1/runs", json={"workflow": "large", "args": [1], "id": f"small-{time.time()}"}
    )
    run_id = started.json()["id"]
    served.http.post(f"/v1/runs/{run_id}/cancel")
    with served.http.stream("GET", f"/v1/runs/{run_id}/events") as reply:
        assert "event: " in "".join(reply.iter_text())
