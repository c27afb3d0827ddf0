"""A store whose operations are counted, and fail or wait where a test needs that."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from signoff.stores.contract.operations import Operation
from signoff.stores.contract.store import Store
from signoff.stores.wrappers.store_wrapper import StoreWrapper
from tests.support import comes


class Watched(StoreWrapper):
    """Store wrapper that counts operations, and fails for the promise ``bad``.

    Args:
        inner: The wrapped store.
        error: The error of operations on that promise.

    Attributes:
        counts: The calls of each operation so far.
        held: Operations that wait for ``go``.
    """

    def __init__(self, inner: Store, error: Exception | None = None) -> None:
        super().__init__(inner)
        self.counts: Counter[str] = Counter()
        self.held: set[str] = set()
        self.go = asyncio.Event()
        self._error = error

    async def perform(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        self.counts[operation.name] += 1
        if self._error is not None and arguments.get("promise_id") == "bad":
            raise self._error
        if operation.name in self.held:
            await self.go.wait()
        return await super().perform(operation, arguments)

    async def reaches(self, name: str, count: int) -> None:
        """Wait until an operation was called so many times."""

        async def look() -> bool:
            return self.counts[name] >= count

        await comes(look)
