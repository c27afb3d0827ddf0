"""What leaves for people and other systems: deliveries of a channel, as the outbox keeps them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from signoff.records.audit import AuditKind


class DeliveryState(StrEnum):
    """Where a delivery is. It leaves ``pending`` once, unless somebody has it sent again."""

    PENDING = "pending"
    DELIVERED = "delivered"
    DROPPED = "dropped"  # there was no point in it any more
    DEAD = "dead"  # given up


@dataclass(frozen=True, slots=True)
class NewDelivery:
    """What a channel is to tell somebody of an audit event.

    Attributes:
        id: The same over all attempts, and for whoever makes this delivery of this event.
        recipient: To whom, as the channel knows them; empty: the channel has one place for all.
        seq: The event's place in the chain.
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
    """Something that a channel tells somebody. Times are unix seconds.

    Attributes:
        due_at: When it is sent (again), or its lease runs out; None if an earlier one to the same recipient about the
            same question is pending, or it has ended.
        attempts: How often somebody took it to send it.
        error: Why the last attempt failed, or it was dropped.
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


@dataclass(frozen=True, slots=True)
class Report:
    """What came of an attempt: an end, or ``pending`` with when to try again."""

    state: DeliveryState
    due_at: float | None = None
    error: str | None = None
