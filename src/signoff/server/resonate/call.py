"""One request, with what its operation works on."""

from __future__ import annotations

from dataclasses import dataclass

from signoff.server.resonate.access import Sender
from signoff.server.resonate.durable_promises import milliseconds
from signoff.server.services import Services
from signoff.stores.contract.store import Store


@dataclass(frozen=True, slots=True)
class Call:
    """A request.

    Attributes:
        sender: The sender.
        services: The services, bound to the sender's namespace and the request's origin.
        correlation_id: Chosen by the sender.
    """

    sender: Sender
    services: Services
    correlation_id: str

    @property
    def store(self) -> Store:
        """The store, bound likewise."""
        return self.services.store

    @property
    def now(self) -> int:
        """Business time, in unix milliseconds."""
        return milliseconds(self.services.store.clock.now())
