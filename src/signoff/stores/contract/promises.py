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

    @writes()
    async def delete_settled(
        self, before: float, limit: int, *, after: str | None = None
    ) -> tuple[int, str | None]:
        """Delete promises that belong to no run and were settled before a time, with their tasks and listeners.

        The earliest are deleted first. One is kept while it may still be read: while a run has its id or has joined
        it, and while a promise that has created it is pending: the one of its branch, its parent, or one whose id is
        the beginning of its id, up to a dot. The ids of deleted promises can be used again.

        Args:
            before: A time, in unix seconds.
            limit: The maximum number of promises to examine.
            after: The second result of the previous call, to examine the promises after those.

        Returns:
            The number of deleted promises, and what to continue after; None once all were examined.

        Raises:
            InvalidValue: ``after`` is not from a previous call.
        """
