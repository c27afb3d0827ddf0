"""A bad network between workers and a server: a proxy that cuts, delays and repeats."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Fate:
    """What happens to one request.

    Attributes:
        delay: Seconds before it is passed on.
        is_lost: Whether the connection is cut before it is passed on.
        reply_bytes: After how many bytes of the reply the connection is cut, None: not at all. With 0 it is cut when
            the whole reply has come, so what was asked for was done.
        copies: For each number, the request is sent once more, so many seconds after it was passed on first.
    """

    delay: float = 0.0
    is_lost: bool = False
    reply_bytes: int | None = None
    copies: Sequence[float] = ()


FINE = Fate()
REPLY_LOST = Fate(reply_bytes=0)


class Proxy:
    """Passes HTTP requests on to a port of this machine, each over a connection of its own.

    Args:
        port: The server's.
        fate: Says what happens to a request, which it is given.

    Attributes:
        port: Its own.
        requests: What came through.
        is_cut: Whether nothing passes at all.
        reply_was_lost: Set when a whole reply was.
    """

    def __init__(self, port: int, fate: Callable[[bytes], Fate] = lambda _: FINE) -> None:
        self.target = port
        self.port = 0
        self.fate = fate
        self.requests: list[bytes] = []
        self.is_cut = False
        self.reply_was_lost = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Proxy]:
        """Listen within."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.cut()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Cut all connections."""
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            if not self.is_cut:
                await self._pass_on(await _request(reader), writer)
        except (OSError, EOFError, asyncio.CancelledError):
            pass  # asyncio of Python 3.11 complains of connections whose tasks were cancelled
        finally:
            self._writers.discard(writer)
            self._tasks.discard(task)
            writer.transport.abort()

    async def _pass_on(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        self.requests.append(request)
        fate = self.fate(request)
        await asyncio.sleep(fate.delay)
        for delay in fate.copies:
            copy = asyncio.create_task(self.send_copy(request, delay))
            self._tasks.add(copy)
            copy.add_done_callback(self._tasks.discard)
        if fate.is_lost or self.is_cut:
            return
        async with self._server() as (reply, server):
            server.write(request)
            left = fate.reply_bytes
            if left == 0:
                await reply.read()
                self.reply_was_lost.set()
                return
            while left is None or left >= 0:
                part = await reply.read(65_536)
                if not part:
                    await writer.drain()
                    writer.close()
                    await writer.wait_closed()
                    return
                if left is not None:
                    part, left = part[:left], left - len(part)
                writer.write(part)
                await writer.drain()

    async def send_copy(self, request: bytes, delay: float = 0.0) -> None:
        """Send a request once more, and throw the reply away."""
        await asyncio.sleep(delay)
        with contextlib.suppress(OSError):
            async with self._server() as (reply, server):
                server.write(request)
                await reply.read()

    @asynccontextmanager
    async def _server(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.target)
        self._writers.add(writer)
        try:
            yield reader, writer
        finally:
            self._writers.discard(writer)
            writer.transport.abort()


async def _request(reader: asyncio.StreamReader) -> bytes:
    """Read a request, and have the server close the connection after it."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    lines = head.rstrip().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:])
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    kept = [line for line in lines if not line.lower().startswith("connection:")]
    return "\r\n".join([*kept, "connection: close", "", ""]).encode("latin-1") + body


def is_batch(request: bytes) -> bool:
    """Whether a request holds operations of a remote store."""
    return request.startswith(b"POST /v1/store ")


def bad_network(seed: int) -> Callable[[bytes], Fate]:
    """Have a quarter of all requests meet with an accident."""
    chance = Random(seed)

    def fate(request: bytes) -> Fate:
        accident = chance.random()
        if accident < 0.04:
            return Fate(is_lost=True)
        if accident < 0.08:
            return REPLY_LOST
        if accident < 0.12:
            return Fate(reply_bytes=chance.randrange(2000))
        if accident < 0.18:
            return Fate(delay=chance.uniform(0.0, 0.5))
        if accident < 0.25 and is_batch(request):
            return Fate(copies=[chance.uniform(0.0, 3.0)])
        return FINE

    return fate
