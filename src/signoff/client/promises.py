"""Promises from outside: creating, looking at and settling them."""

from __future__ import annotations

from typing import Any, Protocol

from signoff import codec
from signoff.people.schemas.promise_returns import data_of, has_returns, warn_of_json_text
from signoff.records import NewPromise, Promise, PromiseState, Settlement
from signoff.records.start_options import check_id


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

    async def create(
        self, id: str, *, timeout_seconds: float | None = None, data: Any = None, returns: Any = Any
    ) -> Promise:
        """Create a promise that belongs to no run, or find it.

        Args:
            id: Its id.
            timeout_seconds: After how long it times out.
            data: What to show to those who look at it.
            returns: The type, or the JSON Schema, of its value: a resolution that does not fit is refused. The schema
                is shown in the promise's data, as ``$returns``.

        Raises:
            IdConflict: The id is taken by a question or by a promise of a run.
            InvalidValue: The schema is not valid.
        """
        text = data_of(data, returns, has_data=data is not None)
        new = NewPromise(check_id(id), data=text)
        return (await self._backend.create_promise(new, timeout_seconds=timeout_seconds))[0]

    async def get(self, id: str) -> Promise:
        """Return a promise. Raises NotFound."""
        return await self._backend.get_promise(id)

    async def resolve(
        self, id: str, value: Any = None, *, by: str | None = None, request_id: str | None = None
    ) -> Promise:
        """Settle a promise with a value.

        A text that is JSON of another type, such as ``json.dumps(False)``, is warned of: pass the value itself.

        Raises:
            NotFound, AlreadySettled, RequestConflict
            InvalidValue: It is not what the promise returns.
            NotSerializable: The value, or a part of it, would not come back as its own type either.
        """
        warn_of_json_text(f"promise {id!r}", value)
        return await self._settle(id, PromiseState.RESOLVED, value, by, request_id)

    async def reject(
        self, id: str, value: Any = None, *, by: str | None = None, request_id: str | None = None
    ) -> Promise:
        """Settle a promise with a reason against it, as plain JSON data; the run gets a ``PromiseRejected``.

        Raises:
            NotFound, AlreadySettled, RequestConflict
            NotSerializable: The reason is not plain JSON data.
        """
        return await self._settle(id, PromiseState.REJECTED, value, by, request_id)

    async def cancel(self, id: str, *, by: str | None = None, request_id: str | None = None) -> Promise:
        """Settle a promise by withdrawing it; the run gets a ``PromiseCancelled``."""
        return await self._settle(id, PromiseState.CANCELLED, None, by, request_id)

    async def _settle(
        self, id: str, state: PromiseState, value: Any, by: str | None, request_id: str | None
    ) -> Promise:
        if state is PromiseState.RESOLVED:
            text = codec.encode_for("the promise", value, warns=False)
        else:
            text, _ = codec.normalize(value, path="value")  # a reason has no declared type
        settled = await self._backend.settle(id, Settlement(state, text, by=by, request_id=request_id))
        if state is PromiseState.RESOLVED and not has_returns(settled):
            codec.warn_reader("a run that waits for a promise without returns=", value)
        return settled
