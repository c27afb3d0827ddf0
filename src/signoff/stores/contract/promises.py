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
        """Create a promise that belongs to no run, or return the existing one with that id.

        Returns:
                The promise as it now is, and whether this call created it.

        Raises:
                IdConflict: The id belongs to a promise of another kind, or to one of a run.
                InvalidValue: A plain promise has ``assignees`` or ``act_at``. Writes that open one raise it too.
        """

    @reads
    async def get_promise(self, promise_id: str) -> Promise:
        """Raises NotFound."""

    @reads
    async def list_promises(
        self, which: PromiseFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Promise]:
        """Oldest first. A page filtered by runs may be short or even empty and still have a ``next``."""

    @writes(lane="promise")
    async def settle(
        self, promise_id: str, kind: PromiseKind, settlement: Settlement, *, token: str | None = None
    ) -> tuple[Promise, bool]:
        """Settle a pending promise and wake the runs that wait for it.

        A promise whose ``due_at`` has passed is timed out first, so that a late answer never wins. The promise keeps
        the settlement's ``origin``. A remote store may determine the origin itself and ignore the one it is given.

        Returns:
                The promise as it now is, and whether this call settled it. False means that the same ``request_id``
                already settled it with the same state and value; or that it is pending and its ``version`` is not the
                one that the settlement was made for.

        Raises:
            NotFound: There is no such promise of this kind.
                AlreadySettled: It was settled before; the error says by whom.
            RequestConflict: This ``request_id`` settled it with another state or value.
        """
