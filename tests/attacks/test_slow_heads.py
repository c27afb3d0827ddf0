"""A client that opens connections and never completes, or never starts, a request's head."""

from __future__ import annotations

import asyncio
from asyncio import StreamWriter

import pytest
from starlette.types import Receive, Scope, Send

from signoff.server.limits import connections
from tests.attacks.raw_connections import LONG_SECONDS, WHOLE, answer, answered, connected, is_closed
from tests.support import in_asyncio


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("part", [b"", b"GET", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: "])
@in_asyncio
async def test_a_head_that_does_not_end_is_closed(part: bytes) -> None:
    async with connected() as (_, reader, writer):
        writer.write(part)
        assert await is_closed(reader)


@pytest.mark.usefixtures("soon")
@in_asyncio
async def test_a_head_that_goes_on_byte_by_byte_is_closed() -> None:
    async def trickle(writer: StreamWriter) -> None:
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: ")
        while not writer.is_closing():
            writer.write(b"a")
            await asyncio.sleep(0.02)

    async with connected() as (_, reader, writer):
        trickling = asyncio.create_task(trickle(writer))
        assert await is_closed(reader)
        trickling.cancel()


@in_asyncio
async def test_so_is_one_after_a_request_that_was_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected() as (_, reader, writer):
        writer.write(WHOLE)
        assert await answered(reader) == b"HTTP/1.1 200 OK ok"
        monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
        writer.write(b"GET / HT")
        assert await is_closed(reader)


@in_asyncio
async def test_while_a_request_is_answered_nothing_waits_for_a_head() -> None:
    begun, ends = asyncio.Event(), asyncio.Event()

    async def wait_and_answer(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await ends.wait()
        await answer(scope, receive, send)

    async with connected(wait_and_answer) as (serving, reader, writer):
        for _ in range(2):
            begun.clear()
            ends.clear()
            writer.write(WHOLE[:9])
            await asyncio.sleep(0)
            writer.write(WHOLE[9:])
            async with asyncio.timeout(LONG_SECONDS):
                await begun.wait()
            [connection] = serving.server_state.connections
            assert isinstance(connection, connections.BoundedConnections)
            assert connection.timer is None  # pyright: ignore[reportUnknownMemberType]
            ends.set()
            assert await answered(reader) == b"HTTP/1.1 200 OK ok"
