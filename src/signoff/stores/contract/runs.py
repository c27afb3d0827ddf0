"""The operations on runs."""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from collections.abc import Sequence

from signoff.records import Entry, Message, NewAuditEvent, NewRun, Run
from signoff.records.paging import Page, RunFilter
from signoff.stores.contract.operations import reads, writes
from signoff.stores.contract.retries import Retry


class RunStore:
    """The part of ``signoff.stores.contract.store.Store`` that keeps runs, their journals and their messages."""

    @writes(lane="run")
    async def create_run(self, new: NewRun, *, token: str | None = None) -> tuple[Run, bool]:
        """Create a run, ready or delayed, or return the existing one with that id.

        A run keeps the ``traceparent`` of the call that created it; a different one does not make it a different run.

        Returns:
                The run as it now is, and whether this call created it.

        Raises:
                IdConflict: The id belongs to a run of another workflow, with other arguments or of another session.
                InvalidValue: A concurrency key without a limit or vice versa, or an invalid ``traceparent``.
        """

    @reads
    async def get_run(self, run_id: str) -> Run:
        """Raises NotFound."""

    @reads
    async def ended(self, run_ids: Sequence[str]) -> set[str]:
        """Return which of these runs have ended (retryable failures included); unknown ids are left out."""

    @reads
    async def list_runs(self, which: RunFilter, *, after: str | None = None, limit: int = 100) -> Page[Run]:
        """Newest first. ``after`` is an earlier page's ``next``."""

    @reads
    async def read_journal(
        self, run_id: str, *, after: int = -1, limit: int | None = None
    ) -> Sequence[Entry]:
        """Return entries with ``seq`` above ``after``, in order; empty for an unknown run.

        With a limit there may be fewer, if they are large (``stores/shared/listed_payloads.py``): the journal ends
        where a page is empty.
        """

    @reads
    async def read_messages(self, run_ids: Sequence[str]) -> Sequence[tuple[Message, int]]:
        """Return the untaken messages of these runs, oldest first per run, each with its run's ``wakes`` counter.

        Message ids are unique and ascending within a run. The counter and the messages are of one snapshot: a worker
        that has seen ``wakes`` has seen every message counted in it. If messages are large, fewer may be returned than
        there are: then the counter of the last run is lowered accordingly.
        """

    @writes(lane="run")
    async def cancel(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> Run:
        """Ask a run to stop. One that never started (also if delayed), or failed retryably, is cancelled at once.

        Any other run gets a message.

        Repeating it, or cancelling an ended run, changes nothing.

        Returns:
                The run as it is afterwards.

        Raises:
            NotFound: The run does not exist.
        """

    @writes(lane="run")
    async def retry(
        self,
        run_id: str,
        *,
        how: Retry | None = None,
        event: NewAuditEvent | None = None,
        token: str | None = None,
    ) -> Run:
        """Make a failed run ready again, with a ``RETRIED`` entry in its journal, which keeps ``token``.

        A run that failed retryably was kept whole and simply continues. One that failed permanently continues as
        ``how``
        says: the entry keeps which journal entries no longer count, and each call that was open gets its outcome in a
        message. The run's waiters keep its failure. A deadline that has passed is dropped. A suspended run is resumed.

        Args:
            run_id: The run.
                how: For a run that failed permanently (``stores/contract/retries.py``).
            event: Recorded in the audit trail if the run is retried.
                token: See the docstring of ``stores/contract/store.py``.

        Returns:
            The run as it is afterwards.

        Raises:
            NotFound: The run does not exist.
                InvalidState: It has not failed; or it failed permanently, and ``how`` is missing or of another epoch,
                or
                    another run of its session is active.
        """

    @writes(lane="run")
    async def suspend(
        self, run_id: str, event: NewAuditEvent, *, reason: str | None = None, epoch: int | None = None
    ) -> Run:
        """Make a run wait for an operator. A running one gets a message, and its worker lets go of it.

        Args:
            run_id: The run.
                event: Recorded in the audit trail if this call suspends the run. Its ``by`` says who did.
                reason: Shown to people.
                epoch: The lease of the caller: its run is paused at once.

        Returns:
            The run as it is afterwards. One that is suspended already stays as it is.

        Raises:
            NotFound: The run does not exist.
            InvalidState: It has ended.
            LeaseLost: Another ``epoch``, or the run is not running.
        """

    @writes(lane="run")
    async def resume(self, run_id: str, event: NewAuditEvent) -> Run:
        """Let a suspended run continue. Its takeovers count from zero again.

        Args:
            run_id: The run.
            event: Recorded in the audit trail if this call resumes the run.

        Returns:
            The run as it is afterwards. One that is not suspended stays as it is.

        Raises:
            NotFound: The run does not exist.
            InvalidState: It has ended.
        """

    @writes(lane="run")
    async def terminate(self, run_id: str, event: NewAuditEvent, *, reason: str | None = None) -> Run:
        """End a run as ``cancelled`` without running its code: its clean-up does not run either.

        Its parent and other waiters get ``RunTerminated``, its pending promises and questions are cancelled, its
        child runs are asked to stop as ``cancel`` does. A worker that holds it has lost its lease.

        Args:
            run_id: The run.
            event: Recorded in the audit trail if this call ends the run.
                reason: Shown to people.

        Returns:
            The run as it is afterwards. Repeated with the same event it has no further effect.

        Raises:
            NotFound: The run does not exist.
                InvalidState: It has ended, and not by a retryable failure.
        """

    @writes(lane="run")
    async def signal(
        self,
        run_id: str,
        name: str,
        value: str,
        *,
        by: str | None = None,
        request_id: str | None = None,
        token: str | None = None,
    ) -> bool:
        """Leave a signal for a run, whether or not it waits for one.

        Returns:
            Whether this call left it; False for a repetition of ``request_id`` with the same name and value.

        Raises:
            NotFound: The run does not exist.
                InvalidState: The run has ended, and not by a retryable failure (such a run keeps the signal).
            RequestConflict: ``request_id`` was used for this run with another name or value.
        """

    @writes()
    async def delete_ended(self, before: float, limit: int) -> int:
        """Delete runs that ended before that time, the earliest first, with their journals, promises and all else.

        A run is deleted after its parent: one whose parent exists is kept. The children of a deleted run have no parent
        from then on, so they are deleted next, or later if they have not ended or ended later. A run that failed
        retryably is kept. The ids of deleted runs and promises may be used again.

        Returns:
                How many runs were deleted; if it is ``limit``, there may be more.
        """
