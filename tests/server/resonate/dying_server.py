"""Servers that kill themselves with SIGKILL before or after a write of their store."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections import Counter
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import signoff.stores.postgres.tasks as postgres_tasks
import signoff.stores.sqlite.tasks as sqlite_tasks
from signoff.server.server import Server
from signoff.stores.contract.operations import Operation
from signoff.stores.contract.store import Store
from signoff.stores.wrappers.store_wrapper import StoreWrapper
from tests.forks import fork
from tests.server.resonate.speaker import open_store

SOON_SECONDS = 1.0
SECONDS = 90


@dataclass(frozen=True)
class Death:
    """Where the server dies.

    Attributes:
        operation: The name of an operation of the store.
        is_after: Whether it dies after the write, before its caller has the result; otherwise before the write.
        nth: Which of its calls, from 1.
    """

    operation: str
    is_after: bool
    nth: int


class DyingStore(StoreWrapper):
    """Store wrapper that kills its process.

    Args:
        inner: The wrapped store.
        death: Where it does so.
        said: It exists once that place is reached.
    """

    def __init__(self, inner: Store, death: Death, said: Path) -> None:
        super().__init__(inner)
        self._death = death
        self._said = said
        self._calls: Counter[str] = Counter()

    async def perform(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        self._calls[operation.name] += 1
        is_fatal = operation.name == self._death.operation and self._calls[operation.name] == self._death.nth
        if is_fatal and not self._death.is_after:
            self._die()
        try:
            return await super().perform(operation, arguments)
        finally:
            if is_fatal:
                self._die()

    def _die(self) -> None:
        self._said.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def serve(url: str, port: int, death: Death | None, said: Path) -> None:
    """Serve until it dies. Leases that a dead server held, and messages that it has taken, are free soon."""
    for module in (sqlite_tasks, postgres_tasks):
        module.RESEND_SECONDS = SOON_SECONDS  # type: ignore[misc]
    asyncio.run(_serve(url, port, death, said))


async def _serve(url: str, port: int, death: Death | None, said: Path) -> None:
    store = open_store(url, lease_seconds=SOON_SECONDS)
    async with Server(store if death is None else DyingStore(store, death, said), port=0, resonate_port=port):
        await asyncio.Event().wait()


class Servers:
    """One server after the other, on one port and one database. Each dies at a place of its own."""

    def __init__(self, url: str, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._database = url
        self._said = folder / "died"
        self._server: ForkServerProcess | None = None

    async def start(self, death: Death | None) -> None:
        """Start the next one, which dies there."""
        self._said.unlink(missing_ok=True)
        self._server = await asyncio.to_thread(fork, serve, self._database, self.port, death, self._said)

    async def dies(self) -> None:
        """Wait until it is dead."""
        assert self._server is not None
        await asyncio.to_thread(self._server.join, SECONDS)
        assert self._said.exists(), f"it ended with {self._server.exitcode}"

    async def kill(self) -> None:
        if self._server is not None:
            self._server.kill()
            await asyncio.to_thread(self._server.join)
