"""A body that arrives after its request was refused, as through a proxy: the connection continues normally."""

from __future__ import annotations

import asyncio

import pytest

from signoff.server.limits import connections
from tests.attacks.raw_connections import WHOLE, answer, answered, connected, is_closed
from tests.attacks.request_heads import head
from tests.support import in_asyncio

BODY = b"1" * 10
CHUNKS = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKED = b"5\r\n11111\r\n5\r\n11111\r\n0\r\n\r\n"

LATE = [pytest.param(head(10), BODY, id="length"), pytest.param(CHUNKS, CHUNKED, id="chunks")]


@pytest.fixture(autouse=True)
def short_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body may take 0.2 s."""
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.2)


@pytest.mark.parametrize(("refused", "body"), LATE)
@in_asyncio
async def test_the_next_request_on_the_connection_is_answered_whenever_it_comes(
    refused: bytes, body: bytes
) -> None:
    async with connected(answer) as (_, reader, writer):
        for _ in range(2):
            writer.write(refused)
            assert await answered(reader) == b"HTTP/1.1 200 OK ok"
            for byte in body:
                writer.write(bytes([byte]))
                await asyncio.sleep(0)
            await asyncio.sleep(0.15)
            writer.write(WHOLE[:9])
            await asyncio.sleep(0.15)  # the time of the body that was refused ends in the middle of it
            writer.write(WHOLE[9:])
            assert await answered(reader) == b"HTTP/1.1 200 OK ok"
            await asyncio.sleep(0.3)


@pytest.mark.parametrize(("refused", "body"), LATE)
@in_asyncio
async def test_it_may_be_idle_for_as_long_as_others_and_no_longer(
    monkeypatch: pytest.MonkeyPatch, refused: bytes, body: bytes
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.1)
    async with connected(answer) as (server, reader, writer):
        writer.write(refused)
        assert await answered(reader) == b"HTTP/1.1 200 OK ok"
        writer.write(body[:4])
        await asyncio.sleep(0)
        writer.write(body[4:])
        await asyncio.sleep(0.5)  # longer than heads and bodies may take
        [connection] = server.server_state.connections
        assert not connection.transport.is_closing()
        connection.timeout_keep_alive = 0.1
        writer.write(WHOLE)
        assert await answered(reader) == b"HTTP/1.1 200 OK ok"
        assert await is_closed(reader)
    async with connected(answer) as (server, reader, writer):
        writer.write(refused)
        assert await answered(reader) == b"HTTP/1.1 200 OK ok"
        [connection] = server.server_state.connections
        connection.timeout_keep_alive = 0.1
        writer.write(body)
        assert await is_closed(reader)


@pytest.mark.parametrize(("refused", "body"), LATE)
@in_asyncio
async def test_a_head_that_begins_with_its_last_bytes_is_bounded(
    monkeypatch: pytest.MonkeyPatch, refused: bytes, body: bytes
) -> None:
    monkeypatch.setattr(connections, "BODY_SECONDS", 30.0)
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    async with connected(answer) as (_, reader, writer):
        writer.write(refused)
        assert await answered(reader) == b"HTTP/1.1 200 OK ok"
        writer.write(body + b"GET / HT")
        assert await is_closed(reader)


@pytest.mark.parametrize(("refused", "body"), LATE)
@in_asyncio
async def test_a_body_that_does_not_end_is_closed(refused: bytes, body: bytes) -> None:
    async with connected(answer) as (_, reader, writer):
        writer.write(refused)
        assert await answered(reader) == b"HTTP/1.1 200 OK ok"
        writer.write(body[:4])
        assert await is_closed(reader)
