"""Client operations on promises: create, read and settle them."""

from __future__ import annotations

from typing import Any, Protocol

from signoff import codec
from signoff.people.schemas.promise_returns import data_of, has_returns, warn_of_json_text
from signoff.records import NewPromise, Promise, PromiseState, Settlement
from signoff.records.start_options import check_id


class PromiseBackend(Protocol):
    """Operations of the backend: a store in this process, or a server."""

    async def create_promise(
        self, new: NewPromise, *, timeout_seconds: float | None = None
    ) -> tuple[Promise, bool]: ...
    async def get_promise(self, promise_id: str) -> Promise: ...
    async def settle(self, promise_id: str, settlement: Settlement) -> Promise: ...


class AsyncPromises:
    """Creates, reads and settles promises."""

    def __init__(self, backend: PromiseBackend) -> None:
        self._backend = backend

    async def create(
        self, id: str, *, timeout_seconds: float | None = None, data: Any = None, returns: Any = Any
    ) -> Promise:
        """Create a promise that does not belong to a run, or return the existing one.

        Args:
            id: Its id.
            timeout_seconds: Seconds until it times out.
            data: Data for people and programs that read the promise.
            returns: The type, or the JSON Schema, of its value: a value that does not match is refused. The schema is
                in the promise's data, as ``$returns``.

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

        A string with JSON of another type, such as ``json.dumps(False)``, causes a warning: pass the value itself.

        Raises:
            NotFound, AlreadySettled, RequestConflict
            InvalidValue: The value does not match ``returns``.
            NotSerializable: The value, or a part of it, cannot be restored with its own type.
        """
        warn_of_json_text(f"promise {id!r}", value)
        return await self._settle(id, PromiseState.RESOLVED, value, by, request_id)

    async def reject(
        self, id: str, value: Any = None, *, by: str | None = None, request_id: str | None = None
    ) -> Promise:
        """Reject a promise with a reason, which is plain JSON data. The run gets ``PromiseRejected``.

        Raises:
            NotFound, AlreadySettled, RequestConflict
            NotSerializable: The reason is not plain JSON data.
        """
        return await self._settle(id, PromiseState.REJECTED, value, by, request_id)

    async def cancel(self, id: str, *, by: str | None = None, request_id: str | None = None) -> Promise:
        """Cancel a promise. The run gets ``PromiseCancelled``."""
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
