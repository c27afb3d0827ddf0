"""Changes of pending questions."""

from __future__ import annotations

from dataclasses import dataclass

from signoff.records.audit import NewAuditEvent
from signoff.records.messages import NewSignal
from signoff.records.promises import Settlement
from signoff.records.rules import NewRule


@dataclass(frozen=True, slots=True)
class Amendment:
    """A change of a pending question, with its audit events, in one transaction.

    Attributes:
        version: The question's version that it was made for. With another version, nothing changes.
        progress: The new state of the question's policy (JSON).
        assignees: The new assignees.
        act_at: When the policy acts next.
        settlement: The settlement, if the question is settled.
        events: The audit events.
        rule: A standing approval to create with the settlement. If its id is taken, nothing changes.
        by_rule: The id of the standing approval that settles the question. If it is not in force, nothing changes.
        due_at: The new deadline. None keeps the present one.
        signal: A signal to send before the settlement is announced. It is dropped if its run has ended.
        request_id: The request id of a vote, which is kept with the question's run. A settlement has its own.
    """

    version: int
    progress: str | None
    assignees: tuple[str, ...]
    act_at: float | None
    settlement: Settlement | None = None
    events: tuple[NewAuditEvent, ...] = ()
    rule: NewRule | None = None
    by_rule: str | None = None
    due_at: float | None = None
    signal: NewSignal | None = None
    request_id: str | None = None
