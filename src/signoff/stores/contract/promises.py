"""The operations on promises."""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from signoff.records import NewPromise, Promise, PromiseKind, Settlement
from signoff.records.paging import Page, PromiseFilter
from signoff.stores.contract.operations import reads, writes


class PromiseStore:
    """The part of ``signoff.stores.contract.store.Store`` that keeps promises."""

    @writes(lane="promise")
    async def create_promise(self, new: NewPromise, *, token: str | None = None) -> tuple[Promise, bool]:
        """Create a promise that belongs to no run, or return the existing one with this id.

        Returns:
            The promise as it is, and whether this call created it.

        Raises:
            IdConflict: The id belongs to a promise of another kind, or to a run's promise.
            InvalidValue: It has ``assignees`` or ``act_at`` but is not a question. (Writes that open one raise it,
                too.)
        """

    @reads
    async def get_promise(self, promise_id: str) -> Promise:
        """Raises NotFound."""

    @reads
    async def list_promises(
        self, which: PromiseFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Promise]:
        """List promises, oldest first. Filtered by runs, a page may be short or empty and still have a ``next``."""

    @writes(lane="promise")
    async def settle(
        self, promise_id: str, kind: PromiseKind, settlement: Settlement, *, token: str | None = None
    ) -> tuple[Promise, bool]:
        """Settle a pending promise and wake the runs that wait for it.

        A promise whose ``due_at`` has passed is timed out first, so a late answer never wins. The promise keeps the
        settlement's ``origin``. A server replaces it with the origin of the request.

        Returns:
            The promise as it is, and whether this call settled it. False means that the same ``request_id`` settled
            it before with the same state and value; or, while it is pending, that it has another ``version`` than the
            settlement was made for.

        Raises:
            NotFound: There is no such promise of this kind.
            AlreadySettled: Another settlement was first; the error names its user.
            RequestConflict: This ``request_id`` settled it with another state or value.
        """
