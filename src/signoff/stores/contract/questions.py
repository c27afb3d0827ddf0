"""The operations on questions besides those of every promise, and on the audit trail.

The policies of questions are computed above the store (``people/``).
"""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from collections.abc import Sequence

from signoff.records import Amendment, AuditEvent, Due, NewAuditEvent, Promise, Seal
from signoff.records.failed_items import Unreadable
from signoff.records.paging import AuditFilter, Page
from signoff.stores.contract.operations import reads, writes


class QuestionStore:
    """The part of ``signoff.stores.contract.store.Store`` that amends questions and records what happens to them."""

    @writes(lane="promise")
    async def amend(
        self, question_id: str, amendment: Amendment, *, token: str | None = None
    ) -> tuple[Promise, bool]:
        """Change a pending question, settle it if the amendment says so, and record events, in one transaction.

        A question whose ``due_at`` has passed is timed out instead.

        An amendment can create a rule, or use one, which then counts one more use. It can send a signal to any run,
        which the run receives before the answer.

        Returns:
            The question as it is, and whether this call amended it. False, without effect, if the question is settled
            or has another ``version``, the rule that settles it is not in force or locked by another transaction, or
            the id of the rule to create exists: the caller has to read the question again.

        Raises:
            NotFound: There is no such question.
            InvalidValue: The amendment settles the question as pending, or settles it and moves its deadline; an event
                cannot be recorded (see ``record``), or a rule cannot be kept.
        """

    @reads
    async def due_questions(self, limit: int) -> tuple[Sequence[Due], float | None]:
        """Return the due questions (``act_at``) of all namespaces, and the earliest ``act_at`` of any.

        Only their ids, as for schedules.
        """

    # The audit trail: its rows never change, and outlive their runs

    @writes()
    async def record(self, events: Sequence[NewAuditEvent]) -> None:
        """Record events that belong to no other operation, each with its ``origin``.

        The store itself records when a question is asked or settled. The details of ``ASKED`` are ``data``,
        ``assignees`` and ``due_at``. Those of settlements are ``value``, ``note`` and ``request_id``; their origin is
        the settlement's, or ``TIMER`` for a timeout.

        Raises:
            InvalidValue: The store itself records events of this kind; the ``details`` are not the JSON of an object,
                too large or too deep; or not every store can keep one of the texts.
        """

    @reads
    async def list_audit(
        self, which: AuditFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[AuditEvent]:
        """List audit events in the order of their recording, sealed or not."""

    @reads
    async def read_chain(
        self, *, after: int = -1, limit: int = 100
    ) -> Sequence[tuple[Seal, AuditEvent | None]]:
        """Return seals with ``seq`` greater than ``after``, in order, each with its event (None: removed)."""

    @reads
    async def last_seal(self) -> Seal | None:
        """Return the last seal of the namespace's chain; None if there is none."""

    @reads
    async def heads(self, *, after: str = "", limit: int = 100) -> Sequence[tuple[str, Seal]]:
        """Return the namespaces after ``after``, by name, each with the last seal of its chain."""

    @reads
    async def unsealed(self, limit: int, *, besides: Sequence[str] = ()) -> Sequence[AuditEvent | Unreadable]:
        """Return audit events without a seal, oldest first, of all namespaces except ``besides``.

        An event that cannot be read is returned as ``Unreadable``.
        """

    @writes(lane="chain")
    async def seal(self, seals: Sequence[Seal]) -> bool:
        """Append to the namespace's chain. Its seqs are consecutive from 0.

        Returns:
            Whether this call appended. False, without effect, if the chain has another end or an event is sealed
            already.
        """
