"""The operations of workers on the runs that they lease."""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from collections.abc import Mapping, Sequence

from signoff.records import Entry, Message, NewPromise, NewRun, Run, RunState, record
from signoff.stores.contract.operations import writes


@record
class Write:
    """One atomic write by the holder of a run's lease.

    Attributes:
        run_id: The run.
        epoch: The epoch of the lease. If the store has another one, the write raises ``LeaseLost`` and changes nothing.
        entries: Journal entries. Their ``seq`` must continue the journal (else ``InvalidValue``).
        opens: Promises to create. If a call opens its own promise again (after a crash), nothing changes. A plain
            promise whose id belongs to another plain promise is joined: the run becomes a further waiter, and receives
            a message at once if it is settled. Questions are never joined, since their first creator would decide what
            is asked of whom: if the id is taken and one of the two is a question, call ``n`` receives a ``SETTLED``
            message with state ``rejected`` and an ``IdConflict`` error. A new question's ``callback`` is stored as a
            token (``signoff.stores.contract.tokens.callback_token``).
        closes: Ids of promises that this run no longer waits for. Its own pending ones become ``cancelled``, and others
            that joined them are notified. A promise that the run joined itself is only left.
        starts: Child runs to create. A run that exists with the same id, workflow, arguments and session is joined
            likewise. If they differ, call ``parent_n`` receives a ``SETTLED`` message with state ``failed`` and an
            ``IdConflict`` error. Without ``parent_n`` (a detached run) nothing is joined, reported or refused.
        cancels: Ids of child runs to cancel. A run that was only joined is left; unknown ids are ignored.
        taken: Ids of the messages that ``entries`` journal. They are not delivered again.
        unpublishes: Numbers of calls whose live text is deleted, since an attempt has ended.
    """

    run_id: str
    epoch: int
    entries: Sequence[Entry] = ()
    opens: Sequence[NewPromise] = ()
    closes: Sequence[str] = ()
    starts: Sequence[NewRun] = ()
    cancels: Sequence[str] = ()
    taken: Sequence[int] = ()
    first_seq: int | None = None  # a new generation begins here (continue_as_new)
    unpublishes: Sequence[int] = ()


@record
class Outcome:
    """How a run ended."""

    state: RunState  # succeeded, failed or cancelled
    result: str | None = None  # JSON
    error: str | None = None  # JSON of an error
    retryable: bool = (
        False  # the engine's verdict on the code: keep everything, notify no waiter, allow `retry`
    )


@record
class Claim:
    """A run leased to a worker, and its unread messages, oldest first."""

    run: Run
    messages: tuple[Message, ...] = ()


class LeaseStore:
    """The part of ``signoff.stores.contract.store.Store`` for the holders of leases."""

    @writes(lane="worker")
    async def claim(
        self, worker_id: str, group: str, workflows: Sequence[str], limit: int, *, token: str | None = None
    ) -> Sequence[Claim]:
        """Lease up to ``limit`` ready runs of these workflows in this group.

        The order is by priority, then by the time at which they became ready, then by creation. Not claimed are

        - all runs of a paused group;
        - runs beyond the group's ``max_running``;
        - a run with a concurrency key, while at least ``concurrency_limit`` (its own) runs of its workflow, group and
          key are running. Any number of waiting runs of a key must not slow claims down;
        - runs that never started, while the group's rate allows none. The rate is a bucket: ``count`` runs may start at
          once, then one more every ``seconds / count``, until it is full again. When it holds a run back, the time of
          the next possible start becomes due.

        A run with two or more takeovers since its journal last grew is a suspect (``stores/shared/suspect_runs.py``).
        A worker holds at most 100 suspects without progress that have two takeovers, 10 that have three, and one that
        has more, and only suspects of one of these levels at a time. If a claim can return suspects, it returns only
        those of the highest level. A run that makes progress does not count, and is no longer a suspect once it is
        paused or released.

        Each run gets ``epoch + 1`` and a lease of ``lease_seconds``. A run's first lease has epoch 1, and its journal
        is empty. With the ``token`` of an earlier call, the runs still held under that call's leases are returned, if
        there are any, and no others are leased.
        """

    @writes(lane="run")
    async def append(self, write: Write) -> None:
        """Write one fenced batch.

        Raises:
            LeaseLost: The run has another epoch, or is not running.
        """

    @writes(lane="run")
    async def pause(self, write: Write, *, wakes: int, wake_at: float | None) -> bool:
        """Write the batch and move the run to ``paused``, unless ``wakes`` has changed.

        The batch is written in either case. A suspended run is paused regardless of ``wakes``, without a ``wake_at``. A
        promise or child run that this batch joins and that is already settled counts as a wake.

        Returns:
            Whether the run is paused. If not, it is still leased: read its messages and continue.

        Raises:
            LeaseLost: As in ``append``.
        """

    @writes(lane="run")
    async def complete(self, write: Write, outcome: Outcome) -> None:
        """Write the batch and end the run: notify its parent and other waiters, cancel its pending promises.

        A retryable failure only sets the state: promises stay open, no waiter is notified, messages are kept.

        Raises:
            LeaseLost: As in ``append``.
        """

    @writes(is_patient=False)
    async def heartbeat(self, worker_id: str, held: Mapping[str, int]) -> set[str]:
        """Extend the leases of the runs in ``held`` (run id -> epoch), in one statement.

        Returns:
            The ids of runs that this worker no longer holds, or not in that epoch.
        """

    @writes(lane="worker", is_patient=False)
    async def release(self, worker_id: str, *, dead: bool = False) -> int:
        """Take a worker off the register and make every run it holds ready.

        Called by a worker that stops in order, and by others that know that its process is ``dead``: then each run
        counts a takeover, as when its lease expires.

        Returns:
            The number of runs that became ready.
        """
