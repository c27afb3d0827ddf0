"""The network between the servers of a simulated world and the processes that speak the durable promise protocol.

Requests are lost, late, or lose their replies. A server that ends breaks its connections. A process that is cut off
reaches nobody for a while, and the server does not notice at once: it sends messages into the void.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

from signoff.server.resonate.protocol import VERSION
from signoff.testing.simulation import Process, World
from signoff.testing.simulation.database import NOTICE_SECONDS, WIRE_SECONDS

PATIENCE_SECONDS = 10.0  # a client's timeout
UNNOTICED_SECONDS = 5.0  # how long a server takes a broken connection for a living one
CUT_SECONDS = 8.0  # the longest time for which a process is cut off
CUTS = 0.01  # fraction of requests that find their process cut off, if all requests are unavailable
AGAIN_SECONDS = 0.5

TODAY, LEGACY = "today", "2024"  # the ports of a server, by protocol

T = TypeVar("T")

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
    """A server process that accepts connections.

    Attributes:
        ports: The handlers of requests and of polls, by port.
        work: Its tasks.
    """

    process: Process
    ports: Mapping[str, tuple[Handle, Events]]
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
        self._refused: dict[str, int] = {}  # how many posts are refused yet, by URL
        self._receivers: dict[str, tuple[Process, Callable[[dict[str, Any]], None]]] = {}

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
        head = {"corrId": f"{process.name}/{self._world.random.getrandbits(32)}", "version": VERSION}
        envelope = await self.exchange(process, TODAY, {"kind": kind, "head": head, "data": data})
        assert envelope["head"]["corrId"] == head["corrId"]
        status, answer = envelope["head"]["status"], envelope["data"]
        if status >= 400:
            what = f"{data.get('id', '')} is refused with {status}: {answer}"
            self._world.note(process.name, kind, what)
        return Answer(status, answer)

    async def exchange(self, process: Process, port: str, request: Any) -> Any:
        """Send plain JSON data to a port of a server once, and return what it replies.

        Raises:
            UnreachableError: There is no reply.
        """
        world, source = self._world, self._world.random
        reply: asyncio.Future[bytes] = process.loop.create_future()
        server = self._server(process)
        if server is None or (world.faults.unavailable and source.random() < world.faults.unavailable):
            self._fail(process, reply)
        else:
            self._waiting[reply] = (process, server)
            body = json.dumps(request).encode()
            world.call_later(self.wire(), self._receive, process, (server, port), body, reply)
        patience = process.loop.call_later(PATIENCE_SECONDS, self._fail, process, reply)
        try:
            return json.loads(await reply)
        finally:
            patience.cancel()
            self._waiting.pop(reply, None)

    def _receive(
        self, process: Process, place: tuple[Server, str], body: bytes, reply: asyncio.Future[bytes]
    ) -> None:
        server, port = place
        if server not in self._servers:
            self._fail(process, reply)
            return

        async def respond() -> None:
            response = await server.ports[port][0](body)
            faults, source = self._world.faults, self._world.random
            self._waiting.pop(reply, None)
            if faults.lost_replies and source.random() < faults.lost_replies / 2:
                self._world.call_later(source.random() * 2, self._fail, process, reply)
            else:
                process.loop.call_later(self.wire(), _resolve, reply, response)

        def begin() -> None:
            if server in self._servers:
                server.work.create_task(respond())

        server.process.loop.call_soon(begin)

    def _fail(self, process: Process, reply: asyncio.Future[bytes]) -> None:
        self._waiting.pop(reply, None)
        process.loop.call_later(self.wire(), _refuse, reply)

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

    def wire(self) -> float:
        """Return how long a request or a reply takes."""
        faults, source = self._world.faults, self._world.random
        is_stalled = faults.stalls and source.random() < faults.stalls
        return source.random() * (faults.stall_seconds if is_stalled else WIRE_SECONDS)

    # Posts

    def receive(
        self, process: Process, url: str, receive: Callable[[dict[str, Any]], None], *, refused: int = 0
    ) -> None:
        """Accept the messages that are posted to a URL, after some that are refused, until the process ends."""
        self._receivers[url] = (process, receive)
        self._refused[url] = refused
        process.on_end(lambda: self._receivers.pop(url))

    def post(self, sender: Process, url: str, body: bytes, status: asyncio.Future[int]) -> None:
        """Post a message of a server. Without a status, the server waits until its patience ends."""
        faults, source = self._world.faults, self._world.random
        is_refused = self._refused.get(url, 0) > 0
        if is_refused:
            self._refused[url] -= 1
        if is_refused or (faults.unavailable and source.random() < faults.unavailable):
            sender.loop.call_later(self.wire(), _resolve, status, 503)
            return
        self._world.call_later(self.wire(), self._deliver, sender, url, body, status)
        if faults.repeated_notices and source.random() < faults.repeated_notices:
            again = source.random() * NOTICE_SECONDS
            self._world.call_later(again, self._deliver, sender, url, body, None)

    def _deliver(self, sender: Process, url: str, body: bytes, status: asyncio.Future[int] | None) -> None:
        faults, source = self._world.faults, self._world.random
        process, receive = self._receivers.get(url, (None, None))
        self._world.note(url, "is posted", "nobody is there" if process is None else body.decode())
        if process is not None and receive is not None:
            process.loop.call_soon(receive, json.loads(body))
        is_lost = faults.lost_replies and source.random() < faults.lost_replies
        if status is not None and sender.is_alive and not is_lost:
            sender.loop.call_later(self.wire(), _resolve, status, 502 if process is None else 202)

    # Messages

    async def messages(
        self, process: Process, group: str, pid: str, port: str = TODAY
    ) -> AsyncIterator[dict[str, Any] | None]:
        """Poll, and poll again whenever the connection breaks: yield None when connected, and each message."""
        while True:
            server = self._server(process)
            if server is not None:
                stream = Stream(self, self._world, process, (server, port), (group, pid))
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
        self,
        network: Network,
        world: World,
        process: Process,
        place: tuple[Server, str],
        poller: tuple[str, str],
    ) -> None:
        self.process = process
        self.server, port = place
        self._events = self.server.ports[port][1]
        self._network = network
        self._world = world
        self._received: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._last = 0.0
        self._is_void = False
        self._pump: asyncio.Task[None] | None = None
        process.on_end(self.left)
        self.server.process.loop.call_soon(self._begin, *poller)

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
        async with aclosing(self._events(group, pid)) as chunks:
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


def _resolve(reply: asyncio.Future[T], response: T) -> None:
    if not reply.done():
        reply.set_result(response)


def _refuse(reply: asyncio.Future[bytes]) -> None:
    if not reply.done():
        reply.set_exception(UnreachableError())
        reply.exception()  # mark as retrieved: the caller may be cancelled
