"""The deliveries of a server, one for each namespace that it has served since it started."""

from __future__ import annotations

import asyncio

from signoff.server.resonate.delivery import Delivery, Format
from signoff.server.resonate.push import Push
from signoff.stores.contract.store import Store


class Deliveries:
    """Deliveries by namespace.

    Args:
        to_wire: Returns a message as the protocol has it.
        push: Posts messages to URLs.
        passes_on: Whether a task goes to another process if the first one does not acquire it, see ``Delivery``.
    """

    def __init__(self, to_wire: Format, push: Push, *, passes_on: bool) -> None:
        self._to_wire = to_wire
        self._passes_on = passes_on
        self.push = push
        self._by_namespace: dict[str, Delivery] = {}

    def of(self, store: Store) -> Delivery:
        """Return the delivery of a store's namespace. It begins to work on first use."""
        known = self._by_namespace.get(store.namespace)
        if known is None:
            known = Delivery(store, self._to_wire, self.push, passes_on=self._passes_on)
            self._by_namespace[store.namespace] = known
        return known

    @property
    def groups(self) -> dict[str, set[str]]:
        """The groups of the processes that poll this server, by namespace."""
        return {namespace: each.groups for namespace, each in self._by_namespace.items()}

    async def close(self) -> None:
        """Stop all."""
        await asyncio.gather(*(each.close() for each in self._by_namespace.values()))
        await self.push.close()
