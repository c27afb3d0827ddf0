"""Raw connections to a small server."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.types import ASGIApp, Receive, Scope, Send

from signoff.server.process.uvicorn_server import Serving, bind

WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


LONG_SECONDS = 30.0


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def connected(app: ASGIApp = answer) -> AsyncGenerator[tuple[Serving, StreamReader, StreamWriter]]:
    """A server and a connection to it."""
    listener = bind("127.0.0.1", 0)
    with contextlib.closing(listener):
        serving = Serving(app, listener)
        await serving.listening.wait()
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        try:
            yield serving, reader, writer
        finally:
            writer.close()
            await serving.stop()


async def is_closed(reader: StreamReader) -> bool:
    async with asyncio.timeout(LONG_SECONDS):
        with contextlib.suppress(ConnectionError):
            return await reader.read() == b""
        return True


async def answered(reader: StreamReader) -> bytes:
    async with asyncio.timeout(LONG_SECONDS):
        head = await reader.readuntil(b"\r\n\r\n")
        return head.split(b"\r\n")[0] + b" " + await reader.readexactly(2)
