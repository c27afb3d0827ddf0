"""Promises from outside: creating, looking at and settling them."""

from __future__ import annotations

from typing import Any, Protocol

from signoff import codec
from signoff.records import NewPromise, Promise, PromiseState, Settlement
from signoff.start_options import check_id


class PromiseBackend(Protocol):
    """What it talks to: a store in this process, or a server."""

    async def create_promise(
        self, new: NewPromise, *, timeout_seconds: float | None = None
    ) -> tuple[Promise, bool]: ...
    async def get_promise(self, promise_id: str) -> Promise: ...
    async def settle(self, promise_id: str, settlement: Settlement) -> Promise: ...


class AsyncPromises:
    """Promises by their ids."""

    def __init__(self, backend: PromiseBackend) -> None:
        self._backend = backend

    async def create(self, id: str, *, timeout_seconds: float | None = None, data: Any = None) -> Promise:
        """Create a promise that belongs to no run, or find it. Raises IdConflict."""
        text = None if data is None else codec.encode(data, path="data")
        new = NewPromise(check_id(id), data=text)
        return (await self._backend.create_promise(new, timeout_seconds=timeout_seconds))[0]

    async def get(self, id: str) -> Promise:
        """Return a promise. Raises NotFound."""
        return await self._backend.get_promise(id)

    async def resolve(
        self, id: str, value: Any = None, *, by: str | None = None, request_id: str | None = None
    ) -> Promise:
        """Settle a promise with a value. Raises NotFound, AlreadySettled, RequestConflict."""
        return await self._settle(id, PromiseState.RESOLVED, value, by, request_id)

    async def reject(
        self, id: str, value: Any = None, *, by: str | None = None, request_id: str | None = None
    ) -> Promise:
        """Settle a promise with a reason against it; the run gets a ``PromiseRejected``."""
        return await self._settle(id, PromiseState.REJECTED, value, by, request_id)

    async def cancel(self, id: str, *, by: str | None = None, request_id: str | None = None) -> Promise:
        """Settle a promise by withdrawing it; the run gets a ``PromiseCancelled``."""
        return await self._settle(id, PromiseState.CANCELLED, None, by, request_id)

    async def _settle(
        self, id: str, state: PromiseState, value: Any, by: str | None, request_id: str | None
    ) -> Promise:
        settlement = Settlement(state, codec.encode(value), by=by, request_id=request_id)
        return await self._backend.settle(id, settlement)
