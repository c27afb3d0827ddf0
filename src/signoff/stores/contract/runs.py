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
        """Create a run, ready or delayed, or find the one that has the id already.

        A run keeps its creator's ``traceparent``. A different one does not make a different run.

        Returns:
            The run as it is, and whether this call created it.

        Raises:
            IdConflict: The id belongs to a run with another workflow, other arguments or another session.
            InvalidValue: A concurrency key without a limit, or a limit without a key; or an invalid ``traceparent``.
        """

    @reads
    async def get_run(self, run_id: str) -> Run:
        """Raises NotFound."""

    @reads
    async def ended(self, run_ids: Sequence[str]) -> set[str]:
        """Return which of these runs have ended, including retryable failures. Unknown ids are left out."""

    @reads
    async def list_runs(self, which: RunFilter, *, after: str | None = None, limit: int = 100) -> Page[Run]:
        """List runs, newest first. ``after`` is the ``next`` of the previous page."""

    @reads
    async def read_journal(
        self, run_id: str, *, after: int = -1, limit: int | None = None
    ) -> Sequence[Entry]:
        """Return entries with ``seq`` greater than ``after``, in order; none for an unknown run.

        A page of large entries may be shorter than ``limit`` (``stores/shared/listed_payloads.py``). An empty page is
        the end of the journal.
        """

    @reads
    async def read_messages(self, run_ids: Sequence[str]) -> Sequence[tuple[Message, int]]:
        """Return the runs' unread messages, oldest first per run, each with its run's ``wakes`` counter.

        A message's id is unique and ascending within its run. The counter and the messages come from one snapshot: a
        worker that has seen ``wakes`` has seen every message counted in it. If large messages do not fit, the counter
        of the last run is lowered accordingly.
        """

    @writes(lane="run")
    async def cancel(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> Run:
        """Ask a run to stop.

        A run that never started (also a delayed one), or that failed retryably, is cancelled at once. Others receive a
        message. A repeated request, or one for a run that has ended, changes nothing.

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

        A run that failed retryably was kept whole and continues. One that failed for good continues as ``how``
        describes: the entry lists the journal entries that no longer count, and each call that was open receives its
        outcome. Callers that waited for the run keep its failure. A deadline that has passed is dropped. A suspended
        run is resumed.

        Args:
            run_id: The run.
            how: For a run that failed for good (``stores/contract/retries.py``).
            event: Recorded in the audit trail if the run is retried.
            token: See ``stores/contract/store.py``.

        Returns:
            The run as it is afterwards.

        Raises:
            NotFound: The run does not exist.
            InvalidState: It has not failed; or it failed for good, and ``how`` is missing or of another epoch, or
                another run of its session is active.
        """

    @writes(lane="run")
    async def suspend(
        self, run_id: str, event: NewAuditEvent, *, reason: str | None = None, epoch: int | None = None
    ) -> Run:
        """Make a run wait for an operator. A running one receives a message, and its worker releases it.

        Args:
            run_id: The run.
            event: Recorded in the audit trail if this call suspends the run. Its ``by`` names the user.
            reason: Why, for people.
            epoch: The epoch of the caller's lease, if it holds the run: the run is then paused at once.

        Returns:
            The run as it is afterwards. A run that is already suspended stays as it is.

        Raises:
            NotFound: The run does not exist.
            InvalidState: It has ended.
            LeaseLost: The run has another epoch, or is not running.
        """

    @writes(lane="run")
    async def resume(self, run_id: str, event: NewAuditEvent) -> Run:
        """Let a suspended run continue. Its count of takeovers is reset.

        Args:
            run_id: The run.
            event: Recorded in the audit trail if this call resumes the run.

        Returns:
            The run as it is afterwards. A run that is not suspended stays as it is.

        Raises:
            NotFound: The run does not exist.
            InvalidState: It has ended.
        """

    @writes(lane="run")
    async def terminate(self, run_id: str, event: NewAuditEvent, *, reason: str | None = None) -> Run:
        """End a run as ``cancelled`` without its code: none of its clean-up runs.

        Its parent and other waiters receive ``RunTerminated``. Its pending promises and questions are cancelled, and
        its child runs are asked to stop, as by ``cancel``. A worker that holds it loses its lease.

        Args:
            run_id: The run.
            event: Recorded in the audit trail if this call ends the run.
            reason: Why, for people.

        Returns:
            The run as it is afterwards. Repeated with the same event it has no further effect.

        Raises:
            NotFound: The run does not exist.
            InvalidState: It has ended, and did not fail retryably.
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
        """Send a signal to a run, whether or not it waits for one.

        Returns:
            Whether this call sent it; False if this ``request_id`` sent the same name and value before.

        Raises:
            NotFound: The run does not exist.
            InvalidState: The run has ended. (A run that failed retryably keeps the signal.)
            RequestConflict: ``request_id`` was used for this run with another name or value.
        """

    @writes()
    async def delete_ended(self, before: float, limit: int) -> int:
        """Delete runs that ended before a time, earliest first, with their journals, promises and everything else.

        A run whose parent exists is kept, so parents are deleted first. Children of a deleted run have no parent from
        then on: they are deleted next, or later if they end later. A run that failed retryably is kept. The ids of
        deleted runs and promises can be used again.

        Returns:
            The number of deleted runs. If it equals ``limit``, there may be more.
        """
