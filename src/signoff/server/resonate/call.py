"""One request, with what its operation works on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from signoff.server.resonate.access import Sender
from signoff.server.resonate.durable_promises import milliseconds
from signoff.server.resonate.protocol import Refusal
from signoff.server.resonate.push import Push
from signoff.server.services import Services
from signoff.stores.contract.store import Store


def _ignore(_task_id: str, _pid: str) -> None:
    """Notify nobody."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request.

    Attributes:
        sender: The sender.
        services: The services, bound to the sender's namespace and the request's origin.
        correlation_id: Chosen by the sender.
        push: Posts messages to URLs.
        acquired: Notifies the delivery of messages that a process has acquired a task, by their ids.
    """

    sender: Sender
    services: Services
    correlation_id: str
    push: Push
    acquired: Callable[[str, str], None] = _ignore

    def check_address(self, address: str) -> None:
        """Check an address that messages are to be sent to.

        Raises:
            Refusal: The server's options do not allow the URL.
        """
        if address.startswith(("http://", "https://")) and not self.push.allows(address):
            raise Refusal(
                400,
                f"messages may not be posted to {address[:100]!r}: start the server with --resonate-push URL",
            )

    @property
    def store(self) -> Store:
        """The store, bound likewise."""
        return self.services.store

    @property
    def now(self) -> int:
        """Business time, in unix milliseconds."""
        return milliseconds(self.services.store.clock.now())
