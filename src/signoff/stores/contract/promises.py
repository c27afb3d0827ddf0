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
        """Create a promise that belongs to no run, or find the one that has the id.

        Returns:
            The promise as it is, and whether this call created it.

        Raises:
            IdConflict: The id is taken by a promise of another kind, or by one of a run.
            InvalidValue: It is no question, and has ``assignees`` or ``act_at``. (So do writes that open such a one.)
        """

    @reads
    async def get_promise(self, promise_id: str) -> Promise:
        """Raises NotFound."""

    @reads
    async def list_promises(
        self, which: PromiseFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Promise]:
        """Oldest first. A page of what some runs ask may be short, or empty, and have a ``next``."""

    @writes(lane="promise")
    async def settle(
        self, promise_id: str, kind: PromiseKind, settlement: Settlement, *, token: str | None = None
    ) -> tuple[Promise, bool]:
        """Settle a pending promise and wake the runs that wait for it.

        A promise whose ``due_at`` has passed is timed out first, so that a late answer never wins. It keeps the
        ``origin`` of what settled it. A store that is kept elsewhere may see for itself where that is, and not ask.

        Returns:
            The promise as it is, and whether this call settled it. False means that the same ``request_id`` settled
            it before with the same state and value; or, while it is pending, that it has another ``version`` than the
            settlement was made for.

        Raises:
            NotFound: There is no such promise of this kind.
            AlreadySettled: Someone else was first; the error says who.
            RequestConflict: This ``request_id`` settled it with another state or value.
        """
