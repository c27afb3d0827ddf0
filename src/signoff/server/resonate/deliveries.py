"""The deliveries of a server, one for each namespace that it has served since it started."""

from __future__ import annotations

import asyncio

from signoff.server.resonate.delivery import Delivery
from signoff.server.resonate.push import Push
from signoff.stores.contract.store import Store


class Deliveries:
    """Deliveries by namespace.

    Args:
        server_url: The URL of this server, for the receivers of tasks.
        push: Posts messages to URLs.
    """

    def __init__(self, server_url: str, push: Push) -> None:
        self._server_url = server_url
        self.push = push
        self._by_namespace: dict[str, Delivery] = {}

    def of(self, store: Store) -> Delivery:
        """Return the delivery of a store's namespace. It begins to work on first use."""
        known = self._by_namespace.get(store.namespace)
        if known is None:
            known = self._by_namespace[store.namespace] = Delivery(store, self._server_url, self.push)
        return known

    @property
    def groups(self) -> dict[str, set[str]]:
        """The groups of the processes that poll this server, by namespace."""
        return {namespace: each.groups for namespace, each in self._by_namespace.items()}

    async def close(self) -> None:
        """Stop all."""
        await asyncio.gather(*(each.close() for each in self._by_namespace.values()))
        await self.push.close()
