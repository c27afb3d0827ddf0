"""The network between the servers of a simulated world and the processes that speak the durable promise protocol.

Requests are lost, late, or lose their replies. A server that ends breaks its connections. A process that is cut off
reaches nobody for a while, and the server does not notice at once: it sends messages into the void.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from signoff.server.resonate.protocol import VERSION
from signoff.testing.simulation import Process, World
from signoff.testing.simulation.database import WIRE_SECONDS

PATIENCE_SECONDS = 10.0  # a client's timeout
UNNOTICED_SECONDS = 5.0  # how long a server takes a broken connection for a living one
CUT_SECONDS = 8.0  # the longest time for which a process is cut off
CUTS = 0.01  # fraction of requests that find their process cut off, if all requests are unavailable
AGAIN_SECONDS = 0.5

Handle = Callable[[bytes], Awaitable[bytes]]
Events = Callable[[str, str], AsyncGenerator[bytes, None]]


class UnreachableError(Exception):
    """A request without a reply. It may have had its effect."""


@dataclass(frozen=True)
class Answer:
    """A reply: the status and the data of its envelope."""

    status: int
    data: Any


@dataclass(eq=False)
class Server:
    """A server process that accepts connections."""

    process: Process
    handle: Handle
    events: Events
    work: asyncio.TaskGroup


class Network:
    """Connects processes to any server that is up.

    Args:
        world: The world, whose faults apply.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._servers: list[Server] = []
        self._streams: list[Stream] = []
        self._waiting: dict[asyncio.Future[bytes], tuple[Process, Server]] = {}
        self._cut_until: dict[Process, float] = {}

    def open(self, server: Server) -> None:
        """Accept connections for a server, until it ends."""
        self._servers.append(server)
        server.process.on_end(lambda: self.close(server.process))

    def close(self, ended: Process) -> None:
        """Break the connections of a server."""
        server = next((each for each in self._servers if each.process is ended), None)
        if server is None:
            return
        self._servers.remove(server)
        for stream in [each for each in self._streams if each.server is server]:
            stream.broken()
        for reply, (process, other) in list(self._waiting.items()):
            if other is server:
                self._fail(process, reply)

    def is_up(self, server: Server) -> bool:
        """Whether a server accepts connections."""
        return server in self._servers

    # Requests

    async def insist(self, process: Process, kind: str, data: dict[str, Any]) -> Answer:
        """Send a request until there is a reply that is no failure of the server, as SDKs do."""
        while True:
            try:
                answer = await self.request(process, kind, data)
            except UnreachableError:
                pass
            else:
                if answer.status < 500:
                    return answer
            await asyncio.sleep(AGAIN_SECONDS)

    async def request(self, process: Process, kind: str, data: dict[str, Any]) -> Answer:
        """Send a request once.

        Raises:
            UnreachableError: There is no reply.
        """
        world, source = self._world, self._world.random
        head = {"corrId": f"{process.name}/{source.getrandbits(32)}", "version": VERSION}
        body = json.dumps({"kind": kind, "head": head, "data": data}).encode()
        reply: asyncio.Future[bytes] = process.loop.create_future()
        server = self._server(process)
        if server is None or (world.faults.unavailable and source.random() < world.faults.unavailable):
            self._fail(process, reply)
        else:
            self._waiting[reply] = (process, server)
            world.call_later(self._wire(), self._receive, process, server, body, reply)
        patience = process.loop.call_later(PATIENCE_SECONDS, self._fail, process, reply)
        try:
            envelope = json.loads(await reply)
        finally:
            patience.cancel()
            self._waiting.pop(reply, None)
        assert envelope["head"]["corrId"] == head["corrId"]
        status, answer = envelope["head"]["status"], envelope["data"]
        if status >= 400:
            world.note(process.name, kind, f"{data.get('id', '')} is refused with {status}: {answer}")
        return Answer(status, answer)

    def _receive(self, process: Process, server: Server, body: bytes, reply: asyncio.Future[bytes]) -> None:
        if server not in self._servers:
            self._fail(process, reply)
            return

        async def respond() -> None:
            response = await server.handle(body)
            faults, source = self._world.faults, self._world.random
            self._waiting.pop(reply, None)
            if faults.lost_replies and source.random() < faults.lost_replies / 2:
                self._world.call_later(source.random() * 2, self._fail, process, reply)
            else:
                process.loop.call_later(self._wire(), _resolve, reply, response)

        def begin() -> None:
            if server in self._servers:
                server.work.create_task(respond())

        server.process.loop.call_soon(begin)

    def _fail(self, process: Process, reply: asyncio.Future[bytes]) -> None:
        self._waiting.pop(reply, None)
        process.loop.call_later(self._wire(), _refuse, reply)

    def _server(self, process: Process) -> Server | None:
        """Return the server that a connection of a process reaches now."""
        world, source = self._world, self._world.random
        cut_until = self._cut_until.get(process, 0.0)
        if world.faults.unavailable and source.random() < world.faults.unavailable * CUTS:
            cut_until = self._cut_until[process] = world.now + source.random() * CUT_SECONDS
            world.note(process.name, "is cut off", f"until {cut_until:.1f}")
            for stream in [each for each in self._streams if each.process is process]:
                stream.cut()
        if not self._servers or (world.now < cut_until and world.now < world.calm_at):
            return None
        return source.choice(self._servers)

    def _wire(self) -> float:
        faults, source = self._world.faults, self._world.random
        is_stalled = faults.stalls and source.random() < faults.stalls
        return source.random() * (faults.stall_seconds if is_stalled else WIRE_SECONDS)

    # Messages

    async def messages(self, process: Process, group: str, pid: str) -> AsyncIterator[dict[str, Any] | None]:
        """Poll, and poll again whenever the connection breaks: yield None when connected, and each message."""
        while True:
            server = self._server(process)
            if server is not None:
                stream = Stream(self, self._world, process, server, group, pid)
                self._streams.append(stream)
                try:
                    async for message in stream.messages():
                        yield message
                finally:
                    self._streams.remove(stream)
                    stream.left()
            await asyncio.sleep(AGAIN_SECONDS)


class Stream:
    """One connection of a process that polls."""

    def __init__(
        self, network: Network, world: World, process: Process, server: Server, group: str, pid: str
    ) -> None:
        self.process = process
        self.server = server
        self._network = network
        self._world = world
        self._received: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._last = 0.0
        self._is_void = False
        self._pump: asyncio.Task[None] | None = None
        process.on_end(self.left)
        server.process.loop.call_soon(self._begin, group, pid)

    async def messages(self) -> AsyncIterator[dict[str, Any] | None]:
        """Yield None when connected, and then the messages until the connection breaks."""
        while (chunk := await self._received.get()) is not None:
            for event in chunk.decode().split("\n\n"):
                if event.startswith("data: "):
                    yield json.loads(event.removeprefix("data: "))
                elif event:
                    yield None  # a comment: it is connected

    def cut(self) -> None:
        """Lose everything from now on. The server does not notice at once."""
        self._is_void = True
        self._send(None)
        self._world.call_later(UNNOTICED_SECONDS, self._stop)

    def broken(self) -> None:
        """End because the server has ended."""
        self._send(None)

    def left(self) -> None:
        """End because the process has left, or ended."""
        if not self._is_void:
            self._is_void = True
            self._world.call_later(self._world.random.random() * WIRE_SECONDS, self._stop)

    def _begin(self, group: str, pid: str) -> None:
        if self._network.is_up(self.server):
            self._pump = self.server.work.create_task(self._serve(group, pid))

    async def _serve(self, group: str, pid: str) -> None:
        async with aclosing(self.server.events(group, pid)) as chunks:
            async for chunk in chunks:
                if not self._is_void:
                    self._send(chunk)
        self.broken()

    def _send(self, chunk: bytes | None) -> None:
        """Deliver after a while, in order."""
        wire = self._world.random.random() * WIRE_SECONDS
        self._last = max(self._last, self._world.now + wire)
        self.process.loop.call_at(self._last, self._received.put_nowait, chunk)

    def _stop(self) -> None:
        if self._pump is not None and self.server.process.is_alive:
            self.server.process.loop.call_soon(self._pump.cancel)


def _resolve(reply: asyncio.Future[bytes], response: bytes) -> None:
    if not reply.done():
        reply.set_result(response)


def _refuse(reply: asyncio.Future[bytes]) -> None:
    if not reply.done():
        reply.set_exception(UnreachableError())
        reply.exception()  # mark as retrieved: the caller may be cancelled
