"""The head of a short response leaves with its body, and that of a stream at once."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.attacks.raw_connections import LONG_SECONDS, WHOLE, connected
from tests.support import in_asyncio


def pausing(headers: list[tuple[bytes, bytes]], goes_on: asyncio.Event) -> ASGIApp:
    """An app that pauses between a response's head and its body."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await goes_on.wait()
        await send({"type": "http.response.body", "body": b"ok"})

    return app


@in_asyncio
async def test_a_head_with_a_length_waits_for_its_body() -> None:
    goes_on = asyncio.Event()
    async with connected(pausing([(b"content-length", b"2")], goes_on)) as (_, reader, writer):
        for _ in range(2):
            writer.write(WHOLE)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await reader.readexactly(1)
            goes_on.set()
            async with asyncio.timeout(LONG_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200")
                assert await reader.readexactly(2) == b"ok"
            goes_on.clear()


@in_asyncio
async def test_a_head_without_a_length_leaves_before_its_body() -> None:
    goes_on = asyncio.Event()
    async with connected(pausing([], goes_on)) as (_, reader, writer):
        writer.write(WHOLE)
        async with asyncio.timeout(LONG_SECONDS):
            assert b"chunked" in (await reader.readuntil(b"\r\n\r\n")).lower()
            goes_on.set()
            assert await reader.readuntil(b"0\r\n\r\n") == b"2\r\nok\r\n0\r\n\r\n"


@in_asyncio
async def test_a_response_to_head_has_a_head_only() -> None:
    goes_on = asyncio.Event()
    goes_on.set()
    async with connected(pausing([(b"content-length", b"2")], goes_on)) as (_, reader, writer):
        for _ in range(2):
            writer.write(WHOLE.replace(b"GET", b"HEAD"))
            async with asyncio.timeout(LONG_SECONDS):
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
