"""Deliveries: notifications in the outbox, one for each recipient of a channel."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from signoff.records.audit import AuditKind


class DeliveryState(StrEnum):
    """State of a delivery. It leaves ``pending`` once, unless an operator sends it again."""

    PENDING = "pending"
    DELIVERED = "delivered"
    DROPPED = "dropped"  # no longer needed
    DEAD = "dead"  # all attempts failed


SENT_AS: Final = "sent as "
"""Begins what is kept of a delivered message: the receiver's id of it."""


@dataclass(frozen=True, slots=True)
class NewDelivery:
    """A notification of an audit event, to be put into the outbox.

    Attributes:
        id: Stable over all attempts, and the same in every process that creates this delivery.
        recipient: The recipient's address in the channel; empty if the channel has a single destination.
        seq: The event's position in the chain.
    """

    id: str
    recipient: str
    event_id: str
    seq: int
    kind: AuditKind
    question_id: str
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """A notification in the outbox. Times are unix seconds.

    Attributes:
        due_at: When the next attempt is due, or the lease of the current one expires. None if it has ended, or if an
            earlier delivery to the same recipient about the same question is pending.
        attempts: How many attempts were started.
        error: Why the last attempt failed, or why it was dropped; of a delivered one, ``SENT_AS`` and its message.
    """

    namespace: str
    id: str
    channel: str
    recipient: str
    event_id: str
    seq: int
    kind: AuditKind
    question_id: str
    state: DeliveryState
    created_at: float
    run_id: str | None = None
    due_at: float | None = None
    attempts: int = 0
    ended_at: float | None = None
    error: str | None = None

    @property
    def message(self) -> str | None:
        """The receiver's id of the delivered message, if its channel can update messages."""
        if self.state is not DeliveryState.DELIVERED or not (self.error or "").startswith(SENT_AS):
            return None
        return (self.error or "").removeprefix(SENT_AS)


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of an attempt: a final state, or ``pending`` with the time of the next attempt."""

    state: DeliveryState
    due_at: float | None = None
    error: str | None = None
