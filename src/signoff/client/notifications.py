"""Client operations on notifications."""

from __future__ import annotations

from typing import Protocol

from signoff.records.deliveries import Delivery, DeliveryState
from signoff.records.paging import DeliveryFilter, Page


class DeliveryBackend(Protocol):
    """Operations of the backend: a store in this process, or a server."""

    async def list_deliveries(
        self, which: DeliveryFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Delivery]: ...
    async def redeliver(self, delivery_id: str) -> Delivery: ...


class AsyncNotifications:
    """Lists the deliveries of channels, and sends them again.

    Example::

        for delivery in (await client.notifications.list(state="dead")).items:
            await client.notifications.redeliver(delivery.id)
    """

    def __init__(self, backend: DeliveryBackend) -> None:
        self._backend = backend

    async def list(
        self,
        *,
        state: DeliveryState | str | None = None,
        channel: str | None = None,
        question_id: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[Delivery]:
        """List deliveries, newest first.

        Args:
            state: ``pending``, ``delivered``, ``dropped`` or ``dead``; None: any.
            channel: Only deliveries of this channel.
            question_id: Only deliveries about this question.
            after: The ``next`` of the previous page.
            limit: The most to return.
        """
        which = DeliveryFilter(None if state is None else DeliveryState(state), channel, question_id)
        return await self._backend.list_deliveries(which, after=after, limit=limit)

    async def redeliver(self, delivery_id: str) -> Delivery:
        """Send an ended delivery again, after those pending for the same recipient. Raises NotFound."""
        return await self._backend.redeliver(delivery_id)
