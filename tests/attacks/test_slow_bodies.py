"""A client that sends a request's body a byte at a time, or never."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from asyncio import StreamReader, StreamWriter
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send

from signoff.server.limits import connections
from tests import worker_keys
from tests.attacks.raw_connections import WHOLE, answer, answered, connected, is_closed
from tests.attacks.request_heads import head
from tests.server.conftest import app_in, serving
from tests.support import in_asyncio

LONG_SECONDS = 30.0


CHUNKED = (
    b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
    b"Content-Type: application/json\r\n\r\n5\r\n[1,2"
)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.2)


async def reading(scope: Scope, receive: Receive, send: Send) -> None:
    """Reads the whole body, then answers."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        if not message["more_body"]:
            break
    await answer(scope, receive, send)


async def refusal(reader: StreamReader) -> bytes:
    async with asyncio.timeout(LONG_SECONDS):
        first = await reader.readuntil(b"\r\n")
        # A client that sends on while the server closes finds the connection reset, with the reply before that.
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
        return first


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("part", [head(10), head(10) + b"[1,2", CHUNKED])
@in_asyncio
async def test_a_body_that_does_not_end_is_refused_and_the_connection_closed(part: bytes) -> None:
    async with connected(reading) as (_, reader, writer):
        writer.write(part)
        assert (await refusal(reader)).startswith(b"HTTP/1.1 408 ")


@pytest.mark.usefixtures("soon")
@in_asyncio
async def test_a_body_that_goes_on_byte_by_byte_is_refused() -> None:
    async def trickle(writer: StreamWriter) -> None:
        writer.write(head(1_000_000))
        while not writer.is_closing():
            writer.write(b"1")
            await asyncio.sleep(0.02)

    async with connected(reading) as (_, reader, writer):
        task = asyncio.create_task(trickle(writer))
        assert (await refusal(reader)).startswith(b"HTTP/1.1 408 ")
        task.cancel()


@in_asyncio
async def test_a_body_of_many_bytes_may_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.05)
    monkeypatch.setattr(connections, "BODY_BYTES_PER_SECOND", 10)
    async with connected(reading) as (_, reader, writer):
        writer.write(head(1000) + b"1" * 900)
        await asyncio.sleep(0.3)  # several times what the first byte may take
        writer.write(b"1" * 100)
        assert await answered(reader) == b"HTTP/1.1 200 OK ok"


@pytest.mark.usefixtures("soon")
@in_asyncio
async def test_a_server_that_does_not_read_yet_cuts_no_client_off() -> None:
    """Neither one that waits for 100 Continue, nor one whose body waits here to be read."""
    go_on = asyncio.Event()

    async def later(scope: Scope, receive: Receive, send: Send) -> None:
        await go_on.wait()
        await reading(scope, receive, send)

    size = 1_000_000
    for part in (head(4, more="Expect: 100-continue\r\n"), head(size) + b"1" * (size // 2)):
        go_on.clear()
        async with connected(later) as (_, reader, writer):
            writer.write(part)
            await asyncio.sleep(0.5)
            assert not reader.at_eof()
            go_on.set()
            if part.endswith(b"1"):
                writer.write(b"1" * (size - size // 2))
            else:
                async with asyncio.timeout(LONG_SECONDS):
                    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
                writer.write(b"1234")
            assert await answered(reader) == b"HTTP/1.1 200 OK ok"


@pytest.mark.usefixtures("soon")
@in_asyncio
async def test_an_answer_that_takes_longer_than_a_body_may_is_given() -> None:
    async def slowly(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(0.6)
        await reading(scope, receive, send)

    async with connected(slowly) as (_, reader, writer):
        for part in (WHOLE, head(2) + b"[]", WHOLE):
            writer.write(part)
            assert await answered(reader) == b"HTTP/1.1 200 OK ok"


@pytest.mark.usefixtures("soon")
@in_asyncio
async def test_a_body_that_is_refused_unread_holds_its_connection_no_longer() -> None:
    async with connected(answer) as (_, reader, writer):
        writer.write(head(10) + b"[1")
        assert await answered(reader) == b"HTTP/1.1 200 OK ok"
        assert await is_closed(reader)


ROUTES = [
    "/v1/runs",
    "/v1/questions/x/answer",
    "/v1/snapshots",
    "/l/none",
    "/c/none",
    "/v1/slack/none/actions",
]


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("path", [*ROUTES, "/v1/store"])
@in_asyncio
async def test_no_route_waits_for_a_body_that_does_not_come(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    """Nor logs it as a fault of the server's own."""
    caplog.set_level(logging.WARNING)
    key = f"Authorization: Bearer {worker_keys.SECRET}\r\n" if path == "/v1/store" else ""
    form = path.startswith(("/l/", "/v1/slack"))
    async with serving(app_in(tmp_path), worker_keys=worker_keys.KEYS) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        sent = head(10, path=path, more=key)
        if form:
            sent = sent.replace(b"application/json", b"application/x-www-form-urlencoded")
        writer.write(sent + b"{")
        said = await refusal(reader)
        writer.close()
    assert said == b"" or said.split()[1] in (b"408", b"404"), said
    assert caplog.messages == []
