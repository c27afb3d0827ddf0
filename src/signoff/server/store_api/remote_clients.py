"""Recent operations of remote stores, so that a repeated request is performed once."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from traceback import clear_frames
from typing import Any, Final

from pydantic_core import to_json

from signoff.errors import SignoffError, StoreUnavailable
from signoff.runtime.loggers import own_logger
from signoff.server.http.problems import UNEXPECTED
from signoff.stores.contract.operations import Operation
from signoff.wire.records import to_problem

IDLE_SECONDS: Final = (
    600.0  # until a client is forgotten; the store contract still makes repeated operations safe
)
GRACE_SECONDS: Final = 5.0

KEPT_BYTES: Final = 4 * 1024 * 1024
"""Bytes of replies kept for one caller. The oldest are dropped first; the store contract still makes repeated
operations safe."""

AROUND_REPLY: Final = 1024
"""Memory of a kept reply besides its text, in bytes."""

MOST_CLIENTS: Final = 1000
"""Maximum clients of one caller. The least recently seen are forgotten first."""

log = own_logger("signoff.server")


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to an operation.

    Attributes:
        line: The line to send.
        is_final: Whether a repeated request gets this reply. If False, because the store was unavailable, the
            operation is performed again.
    """

    line: bytes
    is_final: bool


class RemoteClient:
    """One remote store, with its writes that are in progress or done and may be repeated.

    Args:
        kept: The replies to all clients of the caller.
    """

    def __init__(self, kept: KeptReplies) -> None:
        self.used_at = time.monotonic()
        self._kept = kept
        self._floor = 0
        self._under_way: dict[int, asyncio.Task[Reply]] = {}

    def raise_floor(self, floor: int) -> None:
        """Drop the replies below ``floor``: the client has received them."""
        self.used_at = time.monotonic()
        if floor > self._floor:
            self._floor = floor
            self._kept.forget_below(self, floor)

    def begin(
        self, id: int, operation: Operation, work: Callable[[], Awaitable[Any]]
    ) -> Awaitable[Reply] | None:
        """Start an operation, or find it in progress or done. Return None if its reply was already received."""
        if id < self._floor:
            return None
        known = self._kept.get(self, id)
        if known is not None:
            return _kept(known)
        if operation.is_read:
            return _reply(id, operation, work)
        task = self._under_way.get(id)
        if task is None:
            task = asyncio.create_task(_reply(id, operation, work), name=f"signoff {operation.name}")
            self._under_way[id] = task
            task.add_done_callback(lambda done: self._ended(id, done))
        return asyncio.shield(task)  # the client may disconnect: the operation is completed anyway

    def _ended(self, id: int, task: asyncio.Task[Reply]) -> None:
        del self._under_way[id]
        if not task.cancelled() and task.result().is_final and id >= self._floor:
            self._kept.add(self, id, task.result())

    @property
    def under_way(self) -> list[asyncio.Task[Reply]]:
        """The operations that have not ended."""
        return list(self._under_way.values())


class KeptReplies:
    """The final replies to one caller, of all its clients, up to ``KEPT_BYTES``."""

    def __init__(self) -> None:
        self.size = 0
        self._replies: OrderedDict[tuple[RemoteClient, int], Reply] = OrderedDict()
        self._of_client: dict[RemoteClient, set[int]] = {}

    def get(self, client: RemoteClient, id: int) -> Reply | None:
        """Return a kept reply, if there is one."""
        return self._replies.get((client, id))

    def add(self, client: RemoteClient, id: int, reply: Reply) -> None:
        """Keep a reply, and drop the oldest ones over the limit."""
        self._replies[client, id] = reply
        self._of_client.setdefault(client, set()).add(id)
        self.size += _size(reply)
        while self.size > KEPT_BYTES:
            self._forget(*next(iter(self._replies)))

    def forget_below(self, client: RemoteClient, floor: int) -> None:
        """Drop a client's replies below an id."""
        for id in [id for id in self._of_client.get(client, ()) if id < floor]:
            self._forget(client, id)

    def forget(self, client: RemoteClient) -> None:
        """Drop a client's replies."""
        for id in list(self._of_client.get(client, ())):
            self._forget(client, id)

    def _forget(self, client: RemoteClient, id: int) -> None:
        self.size -= _size(self._replies.pop((client, id)))
        ids = self._of_client[client]
        ids.discard(id)
        if not ids:
            del self._of_client[client]


class _Caller:
    """A caller and its clients by name, the most recently seen last."""

    def __init__(self) -> None:
        self.kept = KeptReplies()
        self.clients: OrderedDict[str, RemoteClient] = OrderedDict()

    def find(self, name: str) -> RemoteClient:
        client = self.clients.setdefault(name, RemoteClient(self.kept))
        self.clients.move_to_end(name)
        return client

    def sweep(self, now: float) -> None:
        idle = [name for name, each in self.clients.items() if now - each.used_at > IDLE_SECONDS]
        for name in [*idle, *list(self.clients)[: max(0, len(self.clients) - MOST_CLIENTS)]]:
            client = self.clients.get(name)
            if client is not None and not client.under_way:
                self.kept.forget(client)
                del self.clients[name]


class RemoteClients:
    """The remote clients of a server, by caller and by the name that the client chose."""

    def __init__(self) -> None:
        self._callers: dict[str, _Caller] = {}
        self._swept_at = time.monotonic()

    def find(self, caller: str, name: str) -> RemoteClient:
        """Return a client, known or new."""
        found = self._callers.setdefault(caller, _Caller())
        if len(found.clients) > MOST_CLIENTS:
            found.sweep(time.monotonic())
        self._sweep()
        return self._callers.setdefault(caller, found).find(name)

    @property
    def kept_bytes(self) -> int:
        """The memory of all kept replies, in bytes."""
        return sum(caller.kept.size for caller in self._callers.values())

    async def close(self) -> None:
        """Wait up to ``GRACE_SECONDS`` for operations in progress, then cancel them."""
        clients = [client for caller in self._callers.values() for client in caller.clients.values()]
        tasks = [task for client in clients for task in client.under_way]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=GRACE_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _sweep(self) -> None:
        now = time.monotonic()
        if now - self._swept_at < IDLE_SECONDS / 10:
            return
        self._swept_at = now
        for name, caller in list(self._callers.items()):
            caller.sweep(now)
            if not caller.clients:
                del self._callers[name]


async def _kept(reply: Reply) -> Reply:
    return reply


def _size(reply: Reply) -> int:
    return len(reply.line) + AROUND_REPLY


async def _reply(id: int, operation: Operation, work: Callable[[], Awaitable[Any]]) -> Reply:
    """Perform an operation and encode the reply."""
    try:
        result = await work()
        return Reply(b'{"id":%d,"result":%b}\n' % (id, operation.write_result(result)), True)
    except SignoffError as error:
        # frames hold the data that the operation read, and form a reference cycle with the error
        clear_frames(error.__traceback__)
        return _refusal(id, to_problem(error), is_final=not isinstance(error, StoreUnavailable))
    except Exception:
        log.exception("operation %s of a remote store failed", operation.name)
        return _refusal(id, UNEXPECTED)


def _refusal(id: int, problem: Mapping[str, Any], *, is_final: bool = True) -> Reply:
    return Reply(b'{"id":%d,"problem":%b}\n' % (id, to_json(problem, inf_nan_mode="null")), is_final)
