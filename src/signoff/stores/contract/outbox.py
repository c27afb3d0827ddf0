"""The notification operations of the store contract: each channel's cursor, and the deliveries it has yet to send.

A channel reads the namespace's chain of audit events in order, creates deliveries for them, and advances its cursor in
the same transaction: so each event is expanded once, whichever process does it. Deliveries of one channel about one
question to one recipient form a lane: they are sent one after the other, in the order in which they were created.
"""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from collections.abc import Sequence

from signoff.records.deliveries import Delivery, NewDelivery, Report
from signoff.records.paging import DeliveryFilter, Page
from signoff.stores.contract.operations import reads, writes


class OutboxStore:
    """The part of ``signoff.stores.contract.store.Store`` that keeps deliveries until they are sent."""

    @reads
    async def read_cursor(self, channel: str) -> int | None:
        """Return the seq of the last event that a channel has expanded into deliveries; None if it has none yet."""

    @writes(lane="channel")
    async def expand(
        self, channel: str, expected: int | None, seq: int, deliveries: Sequence[NewDelivery]
    ) -> bool:
        """Advance a channel's cursor from ``expected`` to ``seq`` and create deliveries, in one transaction.

        A delivery whose id is taken is not created.

        Returns:
                Whether it was done: False, with nothing changed, if the cursor is not at ``expected``.

        Raises:
                InvalidValue: A text contains characters that not every store can keep.
        """

    @writes(lane="channel")
    async def claim_deliveries(
        self, channel: str, limit: int, lease_seconds: float
    ) -> tuple[Sequence[Delivery], float | None]:
        """Lease deliveries that are due, longest due first. Each is the first of its lane, and counts one more attempt.

        No other call gets them for ``lease_seconds``. A caller that lost the reply gets others when it repeats the
        call; these are due again when their lease expires.

        Returns:
            The deliveries, in the order in which they were created, and when the channel's next other delivery is due.
        """

    @writes(lane="delivery")
    async def finish_delivery(self, delivery_id: str, attempt: int, report: Report) -> None:
        """Report the outcome of an attempt. If it ends the delivery, the next one of its lane becomes due.

        Nothing changes if the delivery is no longer pending, or ``attempt`` is not its number of attempts: another
        process claimed it after the lease expired.

        Raises:
            InvalidValue: A pending delivery has no ``due_at``, or the error contains characters that not every store
                can keep.
        """

    @reads
    async def list_deliveries(
        self, which: DeliveryFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Delivery]:
        """Newest first."""

    @writes(lane="delivery")
    async def redeliver(self, delivery_id: str) -> Delivery:
        """Send an ended delivery again, at the end of its lane; a pending one stays as it is.

        Its attempts keep counting, and ``created_at`` becomes now.

        Raises:
                NotFound: There is no such delivery, or it was deleted.
        """

    @writes(lane="deliveries")
    async def delete_deliveries(self, before: float, limit: int) -> int:
        """Delete deliveries that ended before that time, at most ``limit``. Returns how many."""
