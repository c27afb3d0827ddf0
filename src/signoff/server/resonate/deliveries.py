"""The deliveries of a server, one for each namespace.

A namespace is served from its first request on. With URLs to post to, one that has messages for URLs is served, too: a
message becomes due without a request, by a schedule, a delay or an expired lease.
"""

from __future__ import annotations

import asyncio
from typing import Final

from signoff.errors import SignoffError
from signoff.records.tasks import PUSH_QUEUE
from signoff.runtime.loggers import own_logger
from signoff.server.resonate.delivery import LOOK_SECONDS, Delivery, Format
from signoff.server.resonate.push import Push
from signoff.server.services import Services
from signoff.stores.contract.store import Store

log = own_logger("signoff.server")

FIND_SECONDS: Final = 60.0
"""How often namespaces are looked for that have URLs to post to."""

PAGE: Final = 100

IDLE_LOOKS_PER_SECOND: Final = 20
"""Looks for messages to URLs, in all namespaces together in which no process polls and nothing is written."""


class Deliveries:
    """Deliveries by namespace.

    Args:
        to_wire: Returns a message in the protocol's format.
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
            idle_seconds = max(LOOK_SECONDS, len(self._by_namespace) / IDLE_LOOKS_PER_SECOND)
            for each in self._by_namespace.values():
                each.idle_seconds = idle_seconds
        return known

    async def serve_all(self, services: Services) -> None:
        """Begin to work for all namespaces, and for new ones each minute, until cancelled."""
        self.of(services.store)
        while True:
            try:
                await self._find(services)
            except SignoffError as error:
                log.warning("namespaces with messages to URLs could not be found: %s", error)
            except Exception:
                log.exception("namespaces with messages to URLs could not be found")
            await asyncio.sleep(FIND_SECONDS)

    async def _find(self, services: Services) -> None:
        after = ""
        while found := await services.store.queued_namespaces(PUSH_QUEUE, after=after, limit=PAGE):
            for namespace in found:
                self.of(services.within(namespace).store)
            after = found[-1]

    @property
    def groups(self) -> dict[str, set[str]]:
        """The groups of the processes that poll this server, by namespace."""
        return {namespace: each.groups for namespace, each in self._by_namespace.items()}

    async def close(self) -> None:
        """Stop all."""
        await asyncio.gather(*(each.close() for each in self._by_namespace.values()))
        await self.push.close()
