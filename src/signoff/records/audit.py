"""The audit trail of questions."""

from __future__ import annotations

from dataclasses import dataclass

from signoff.records.open_enum import OpenEnum
from signoff.records.origins import Origin


class AuditKind(OpenEnum):
    """Kind of an audit event.

    The store itself records ``ASKED`` and the settlement of a question, in the transaction of the change.
    """

    ASKED = "asked"
    RESOLVED = "resolved"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    VIEWED = "viewed"
    COMMENTED = "commented"
    VOTED = "voted"
    REFUSED = "refused"
    CLAIMED = "claimed"
    RELEASED = "released"
    DELEGATED = "delegated"
    REASSIGNED = "reassigned"
    DEADLINE_MOVED = "deadline_moved"
    RULE_MADE = "rule_made"
    RULE_USED = "rule_used"
    RULE_REVOKED = "rule_revoked"
    REMINDED = "reminded"
    ESCALATED = "escalated"
    DEFAULTED = "defaulted"
    LINKED = "linked"
    UNLINKED = "unlinked"
    SAVED = "saved"
    LOADED = "loaded"
    SUSPENDED = "suspended"
    RESUMED = "resumed"
    TERMINATED = "terminated"
    RETRIED = "retried"


@dataclass(frozen=True, slots=True)
class NewAuditEvent:
    """An audit event to be recorded."""

    id: str  # unique in its namespace; a second write with the same id has no effect
    kind: AuditKind
    question_id: str
    run_id: str | None = None
    by: str | None = None
    details: str | None = None  # JSON object
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One event of a question: an immutable row."""

    namespace: str
    id: str
    at: float
    kind: AuditKind
    question_id: str
    run_id: str | None = None
    by: str | None = None
    details: str | None = None  # JSON object
    seq: int | None = None  # its position in the namespace's chain; None: not sealed yet
    hash: str | None = None  # of this event and all before it in the chain
    redacted: bool | None = None  # whether redaction hid part of it; not stored
    origin: Origin | None = None  # None: Signoff or the run, or a version that did not record origins


@dataclass(frozen=True, slots=True)
class Seal:
    """The position of an audit event in its namespace's chain."""

    seq: int
    event_id: str
    hash: str
