"""A client that costs little, so that it measures the server: raw connections, each with one request at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit


async def rate(url: str, clients: int, requests: Iterable[bytes]) -> float:
    """Send requests over kept-alive connections.

    Args:
        url: The server.
        clients: The number of connections.
        requests: Whole requests, from ``request``.

    Returns:
        The rate, in requests per second.

    Raises:
        ConnectionError: The server has closed a connection, or answered with another status than 200.
    """
    place = urlsplit(url)
    assert place.hostname is not None
    assert place.port is not None
    host, port = place.hostname, place.port
    loop = asyncio.get_running_loop()
    waiting = iter(requests)
    connections = [
        (await loop.create_connection(lambda: _Client(waiting), host, port))[1] for _ in range(clients)
    ]
    began = time.perf_counter()
    for each in connections:
        each.send_next()
    done = await asyncio.gather(*(each.done for each in connections))
    seconds = time.perf_counter() - began
    for each in connections:
        each.close()
    return sum(done) / seconds


def request(url: str, method: str, path: str, body: bytes = b"") -> bytes:
    """Return a request as it is sent."""
    head = f"{method} {path} HTTP/1.1\r\nhost: {urlsplit(url).netloc}\r\naccept: */*\r\n"
    if body:
        head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
    return f"{head}\r\n".encode() + body


class _Client(asyncio.Protocol):
    def __init__(self, requests: Iterator[bytes]) -> None:
        self._requests = requests
        self._received = b""
        self._count = 0
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def send_next(self) -> None:
        following = next(self._requests, None)
        if following is None:
            self.done.set_result(self._count)
        else:
            self._transport.write(following)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if not separator:
            return
        if len(body) < int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]):
            return
        if not head.startswith(b"HTTP/1.1 200"):
            self._fail(f"a request failed: {self._received[:1000]!r}")
            return
        self._received = b""
        self._count += 1
        self.send_next()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail("the server has closed a connection")

    def close(self) -> None:
        self._transport.close()

    def _fail(self, problem: str) -> None:
        if not self.done.done():
            self.done.set_exception(ConnectionError(problem))
