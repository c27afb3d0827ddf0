"""What remote stores have asked of this server lately, so that a request that comes twice is done once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from pydantic_core import to_json

from signoff.errors import SignoffError, StoreUnavailable
from signoff.own_logs import own_logger
from signoff.server.problems import UNEXPECTED
from signoff.stores.operations import Operation
from signoff.wire import to_problem

IDLE_SECONDS: Final = 600.0  # then a client is forgotten; the contract's rules for repetitions still hold
GRACE_SECONDS: Final = 5.0

log = own_logger("signoff.server")

Reply = tuple[bytes, bool]  # what to answer, and whether it may be said again


class RemoteClient:
    """One remote store: the operations that change something, under way or done, as long as it may repeat them."""

    def __init__(self) -> None:
        self.used_at = time.monotonic()
        self._floor = 0
        self._tasks: dict[int, asyncio.Task[Reply]] = {}

    def raise_floor(self, floor: int) -> None:
        """Forget the replies below ``floor``: the client has them."""
        self.used_at = time.monotonic()
        if floor > self._floor:
            self._floor = floor
            for id in [id for id, task in self._tasks.items() if id < floor and task.done()]:
                del self._tasks[id]

    def begin(
        self, id: int, operation: Operation, work: Callable[[], Awaitable[Any]]
    ) -> asyncio.Task[Reply] | None:
        """Begin an operation, or find it under way or done; None if it was done and its reply was received."""
        if id < self._floor:
            return None
        task = self._tasks.get(id)
        if task is None or (task.done() and not _is_final(task)):
            task = asyncio.create_task(_reply(id, operation, work), name=f"signoff {operation.name}")
            if not operation.is_read:
                self._tasks[id] = task
        return task

    @property
    def under_way(self) -> list[asyncio.Task[Reply]]:
        """The operations that have not ended."""
        return [task for task in self._tasks.values() if not task.done()]


class RemoteClients:
    """The remote clients of a server, by caller and by the name that the client chose."""

    def __init__(self) -> None:
        self._clients: dict[tuple[str, str], RemoteClient] = {}
        self._swept_at = time.monotonic()

    def find(self, caller: str, name: str) -> RemoteClient:
        """Return a client, known or new."""
        self._sweep()
        return self._clients.setdefault((caller, name), RemoteClient())

    async def close(self) -> None:
        """Let operations under way end, for a while."""
        tasks = [task for client in self._clients.values() for task in client.under_way]
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
        for key, client in list(self._clients.items()):
            if now - client.used_at > IDLE_SECONDS and not client.under_way:
                del self._clients[key]


async def _reply(id: int, operation: Operation, work: Callable[[], Awaitable[Any]]) -> Reply:
    """Do an operation and word the reply."""
    try:
        result = await work()
        return b'{"id":%d,"result":%b}\n' % (id, operation.write_result(result)), True
    except StoreUnavailable as error:
        return _refusal(id, to_problem(error)), False
    except SignoffError as error:
        return _refusal(id, to_problem(error)), True
    except Exception:
        log.exception("operation %s of a remote store failed", operation.name)
        return _refusal(id, UNEXPECTED), True


def _refusal(id: int, problem: Mapping[str, Any]) -> bytes:
    return b'{"id":%d,"problem":%b}\n' % (id, to_json(problem, inf_nan_mode="null"))


def _is_final(task: asyncio.Task[Reply]) -> bool:
    """Whether what an operation came to may be said again. When the store was not available, it is tried again."""
    return not task.cancelled() and task.result()[1]
