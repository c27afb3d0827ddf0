"""What the contract of a store has for questions alone, beside what it has for every promise; and the audit trail.

What the policies of questions ask for is computed above the store (``people/``).
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
        """Change a pending question, settle it if that is asked for, and record events, in one transaction.

        A question whose ``due_at`` has passed is timed out instead.

        A rule may be made with it, or be what settles it: then it counts as used once more. A signal may be left with
        it, for any run: who waits for the question has that first.

        Returns:
            The question as it is, and whether this call amended it. False, with nothing done, if it is settled, or
            ``version`` is another one, or the rule that settles it is not in force (or in somebody else's hands just
            now), or the id of one that is to be made is taken: whoever asks has to look again.

        Raises:
            NotFound: There is no such question.
            InvalidValue: It would be settled as pending, or settled and have another deadline; an event cannot be
                recorded (see ``record``), or a rule cannot be kept.
        """

    @reads
    async def due_questions(self, limit: int) -> tuple[Sequence[Due], float | None]:
        """Pending questions of all namespaces whose ``act_at`` has come, and the earliest ``act_at`` of any.

        Only which they are, as for schedules.
        """

    # The audit trail: rows that nothing changes, and that outlive the runs they tell of

    @writes()
    async def record(self, events: Sequence[NewAuditEvent]) -> None:
        """Record events that nothing else in the store goes with, each with its ``origin``.

        That a question was asked, and how it was settled, the store records itself whenever that happens: the details
        of ``ASKED`` are ``data``, ``assignees`` and ``due_at``, of the others ``value``, ``note`` and ``request_id``.
        The origin of the others is that of the settlement; ``TIMER`` (``signoff/origins.py``) where time was up.

        Raises:
            InvalidValue: An event is of a kind that the store records itself; its ``details`` are not the JSON of an
                object, or too large or too deep; or a text of it is none that every store can keep.
        """

    @reads
    async def list_audit(
        self, which: AuditFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[AuditEvent]:
        """Audit events in the order in which they were recorded, sealed or not."""

    @reads
    async def read_chain(
        self, *, after: int = -1, limit: int = 100
    ) -> Sequence[tuple[Seal, AuditEvent | None]]:
        """Seals with ``seq`` greater than ``after``, in order, each with its event (None: somebody has removed it)."""

    @reads
    async def last_seal(self) -> Seal | None:
        """The end of the namespace's chain, if it has one."""

    @reads
    async def heads(self, *, after: str = "", limit: int = 100) -> Sequence[tuple[str, Seal]]:
        """The ends of the chains of all namespaces: each namespace with its last seal, by name, after ``after``."""

    @reads
    async def unsealed(self, limit: int, *, besides: Sequence[str] = ()) -> Sequence[AuditEvent | Unreadable]:
        """Audit events that have no seal yet, oldest first, of all namespaces but those of ``besides``.

        One that cannot be read is listed as such.
        """

    @writes(lane="chain")
    async def seal(self, seals: Sequence[Seal]) -> bool:
        """Add to the end of the namespace's chain: its seqs follow one another from 0.

        Returns:
            Whether it was done: False, with nothing done, if the chain ends elsewhere or an event is sealed already.
        """
