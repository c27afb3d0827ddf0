"""The operations on notifications: the cursor of each channel, and its deliveries.

A channel reads the namespace's chain of audit events in order, creates deliveries for them, and advances its cursor in
the same transaction. So each event becomes deliveries once, in whichever process. Deliveries of one channel about one
question to one recipient form a lane: they are sent one after the other, in the order of their creation.
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
        """Return the seq of the last event that a channel has turned into deliveries; None before the first."""

    @writes(lane="channel")
    async def expand(
        self, channel: str, expected: int | None, seq: int, deliveries: Sequence[NewDelivery]
    ) -> bool:
        """Advance a channel's cursor from ``expected`` to ``seq`` and create deliveries, in one transaction.

        A delivery whose id exists is not created.

        Returns:
            Whether this call advanced it. False, without effect, if the cursor has another value.

        Raises:
            InvalidValue: A text cannot be kept by every store.
        """

    @writes(lane="channel")
    async def claim_deliveries(
        self, channel: str, limit: int, lease_seconds: float
    ) -> tuple[Sequence[Delivery], float | None]:
        """Lease due deliveries, longest due first. Each is the first of its lane, and counts one more attempt.

        No other caller gets them for ``lease_seconds``. A repeated call returns others; these are due again afterwards.

        Returns:
            The deliveries in the order of their creation, and when the channel's next other delivery is due; None if
            there is none.
        """

    @writes(lane="delivery")
    async def finish_delivery(self, delivery_id: str, attempt: int, report: Report) -> None:
        """Report the outcome of an attempt. If it ends the delivery, the next one of its lane is due.

        Has no effect if the delivery is no longer pending, or ``attempt`` is not its current attempt: another process
        leased it after the lease expired.

        Raises:
            InvalidValue: A pending delivery has no ``due_at``, or the error is a text that not every store can keep.
        """

    @reads
    async def list_deliveries(
        self, which: DeliveryFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Delivery]:
        """List deliveries, newest first."""

    @writes(lane="delivery")
    async def redeliver(self, delivery_id: str) -> Delivery:
        """Send an ended delivery again, at the end of its lane. A pending one stays as it is.

        Its number of attempts continues, and its ``created_at`` becomes the current time.

        Raises:
            NotFound: The delivery does not exist, or was deleted.
        """

    @writes(lane="deliveries")
    async def delete_deliveries(self, before: float, limit: int) -> int:
        """Delete up to ``limit`` deliveries that ended before a time. Returns their number."""
