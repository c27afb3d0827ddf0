"""The operations of the store contract for questions only, in addition to those for every promise; and the audit trail.

What a question's policy requires is computed above the store (``people/``).
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
    """The part of ``signoff.stores.contract.store.Store`` that amends questions and records events about them."""

    @writes(lane="promise")
    async def amend(
        self, question_id: str, amendment: Amendment, *, token: str | None = None
    ) -> tuple[Promise, bool]:
        """Change a pending question, settle it if it has a settlement, and record events, in one transaction.

        A question whose ``due_at`` has passed is timed out instead.

        The amendment may create a rule, or name the rule that settles the question, whose uses are then counted. It may
        leave a signal for any run: if that run also waits for the question, it gets the signal first.

        Returns:
            The question as it now is, and whether this call amended it. False, with nothing changed, if it is
            settled, its ``version`` differs, the rule that settles it is not in force (or is locked by another
            transaction at the moment), or the id of the rule to create is taken: then the caller has to read the
            question again.

        Raises:
            NotFound: There is no such question.
                InvalidValue: It would be settled as pending, or settled with a new deadline; an event cannot be
                    recorded (see ``record``), or a rule cannot be kept.
        """

    @reads
    async def due_questions(self, limit: int) -> tuple[Sequence[Due], float | None]:
        """Return pending questions of all namespaces whose ``act_at`` has passed, and the earliest ``act_at`` of any.

        Only their ids, for the same reason as in ``due_schedules``.
        """

    # The audit trail: immutable rows that outlive the runs they describe

    @writes()
    async def record(self, events: Sequence[NewAuditEvent]) -> None:
        """Record events that belong to no other write, each with its ``origin``.

        The store itself records that a question was asked and how it was settled: the details of ``ASKED`` are
        ``data``, ``assignees`` and ``due_at``, those of the others ``value``, ``note`` and ``request_id``. The origin
        of the others is that of the settlement, or ``TIMER`` (``signoff/origins.py``) if the question timed out.

        Raises:
            InvalidValue: The store records events of this kind itself; the ``details`` are not the JSON of an
                object, or too large or too deep; or a text contains characters that not every store can keep.
        """

    @reads
    async def list_audit(
        self, which: AuditFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[AuditEvent]:
        """Return audit events in the order in which they were recorded, sealed or not."""

    @reads
    async def read_chain(
        self, *, after: int = -1, limit: int = 100
    ) -> Sequence[tuple[Seal, AuditEvent | None]]:
        """Return seals with ``seq`` above ``after``, in order, each with its event (None: it has been deleted)."""

    @reads
    async def last_seal(self) -> Seal | None:
        """Return the last seal of the namespace's chain, if it has one."""

    @reads
    async def heads(self, *, after: str = "", limit: int = 100) -> Sequence[tuple[str, Seal]]:
        """Return each namespace whose name is after ``after`` with the last seal of its chain, by name."""

    @reads
    async def unsealed(self, limit: int, *, besides: Sequence[str] = ()) -> Sequence[AuditEvent | Unreadable]:
        """Return audit events that have no seal yet, oldest first, of all namespaces except those in ``besides``.

        An event that cannot be read is returned as ``Unreadable``.
        """

    @writes(lane="chain")
    async def seal(self, seals: Sequence[Seal]) -> bool:
        """Append seals to the namespace's chain, whose ``seq`` has no gaps and starts at 0.

        Returns:
            Whether it was done: False, with nothing changed, if the chain ends elsewhere or an event is already sealed.
        """
