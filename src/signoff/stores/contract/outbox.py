"""What the contract of a store has for notifications: how far each channel has come, and what it has yet to deliver.

A channel reads the namespace's chain of audit events in order, makes deliveries of them, and moves its cursor on in the
same transaction: so each event is made into deliveries once, whoever does it. Deliveries of one channel about one
question to one recipient are a lane: they are sent one after the other, in the order in which they were made.
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
        """Return the seq of the last event that a channel has made into deliveries; None if it has never begun."""

    @writes(lane="channel")
    async def expand(
        self, channel: str, expected: int | None, seq: int, deliveries: Sequence[NewDelivery]
    ) -> bool:
        """Move a channel's cursor on from ``expected`` to ``seq`` and create deliveries, in one transaction.

        One whose id is taken is not created.

        Returns:
            Whether it was done: False, with nothing done, if the cursor is elsewhere.

        Raises:
            InvalidValue: A text is none that every store can keep.
        """

    @writes(lane="channel")
    async def claim_deliveries(
        self, channel: str, limit: int, lease_seconds: float
    ) -> tuple[Sequence[Delivery], float | None]:
        """Take deliveries that are due, longest due first. Each is the first of its lane, and counts one more attempt.

        Nobody else gets them for ``lease_seconds``. Whoever lost the reply gets others; these are due again then.

        Returns:
            They, in the order in which they were made, and when the next other one of the channel is due, if any is.
        """

    @writes(lane="delivery")
    async def finish_delivery(self, delivery_id: str, attempt: int, report: Report) -> None:
        """Say what came of an attempt. If it ends the delivery, the next one of its lane is due.

        Nothing is done if it is not pending any more, or ``attempt`` is not its number of attempts: somebody else took
        it when the lease had run out.

        Raises:
            InvalidValue: A pending delivery has no ``due_at``, or the error is no text that every store can keep.
        """

    @reads
    async def list_deliveries(
        self, which: DeliveryFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Delivery]:
        """Newest first."""

    @writes(lane="delivery")
    async def redeliver(self, delivery_id: str) -> Delivery:
        """Have a delivery that has ended sent again, at the end of its lane; one that is pending stays as it is.

        Its attempts count on, and ``created_at`` is now.

        Raises:
            NotFound: There is no such delivery (any more).
        """

    @writes(lane="deliveries")
    async def delete_deliveries(self, before: float, limit: int) -> int:
        """Delete deliveries that ended before then, at most ``limit``. Returns how many."""
