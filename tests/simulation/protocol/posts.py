"""Messages that servers post to URLs in a simulated world: they fail, are repeated, and arrive late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx

from signoff.testing.simulation import Process
from tests.simulation.protocol.network import PATIENCE_SECONDS, Network

ALLOWED = ("http://functions/", "http://callers/")
FUNCTIONS, CALLERS = "http://functions/run", "http://callers/heard"


class Transport(httpx.AsyncBaseTransport):
    """The connections of a server process to the URLs that it posts to.

    Args:
        network: The network.
        process: The server.
    """

    def __init__(self, network: Network, process: Process) -> None:
        self._network = network
        self._process = process

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        status: asyncio.Future[int] = self._process.loop.create_future()
        self._network.post(self._process, str(request.url), await request.aread(), status)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return httpx.Response(await status)
        except TimeoutError:
            raise httpx.ReadTimeout("it does not answer", request=request) from None


async def posted_messages(network: Network, process: Process, url: str) -> AsyncIterator[dict[str, Any]]:
    """Yield the messages that are posted to a URL, while the process lives."""
    received: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    world = process.world
    refused = world.random.choice((0, 0, 1)) if world.has_faults else 0
    network.receive(process, url, received.put_nowait, refused=refused)
    while True:
        yield await received.get()
