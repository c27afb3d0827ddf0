"""A store that kills its process at a chosen journal entry."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar

from signoff.stores.contract.store import Outcome, Store, Write

T = TypeVar("T")


class DoomedStore:
    """A store that kills its process with SIGKILL at one entry of one run's journal.

    Pass it to a ``Signoff`` in a separate process, then start another process to check what is left.

    Args:
        store: The store to use until then.
        run_id: The run.
        seq: The entry.
        when: ``before`` it is written, when its cause has happened but is not durable; or ``after``, when it is durable
            but nothing follows yet.

    Example:
        app = Signoff(DoomedStore(SqliteStore("test.db"), "refund-1", 3, when="before"))
    """

    def __init__(self, store: Store, run_id: str, seq: int, *, when: Literal["before", "after"]) -> None:
        self._store = store
        self._run_id = run_id
        self._seq = seq
        self._when = when

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, write: Write) -> None:
        await self._do(write, lambda: self._store.append(write))

    async def pause(self, write: Write, *, wakes: int, wake_at: float | None) -> bool:
        return await self._do(write, lambda: self._store.pause(write, wakes=wakes, wake_at=wake_at))

    async def complete(self, write: Write, outcome: Outcome) -> None:
        await self._do(write, lambda: self._store.complete(write, outcome))

    async def _do(self, write: Write, operation: Callable[[], Awaitable[T]]) -> T:
        is_the_one = write.run_id == self._run_id and any(entry.seq == self._seq for entry in write.entries)
        if is_the_one and self._when == "before":
            _die()
        result = await operation()
        if is_the_one:
            _die()
        return result


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
