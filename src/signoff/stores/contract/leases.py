"""The operations of workers on the runs that they lease."""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from collections.abc import Mapping, Sequence

from signoff.records import Entry, Message, NewPromise, NewRun, Run, RunState, record
from signoff.stores.contract.operations import writes


@record
class Write:
    """What the holder of a run's lease writes in one atomic step.

    Attributes:
        run_id: The run.
        epoch: The epoch of the lease; another one in the store means ``LeaseLost`` and nothing is written.
        entries: Journal entries; their ``seq`` must go on where the journal ends (``InvalidValue`` if not).
        opens: Promises to create. The same call opening its own promise again (after a crash) changes nothing.
            A plain one whose id another plain one has is joined: the run becomes a further waiter, and is sent a
            message at once if it is settled. Questions are never joined, since whoever had made them would have
            chosen what is asked, and of whom: if the id is taken and one of the two is a question, a ``SETTLED``
            message with state ``rejected`` and an ``IdConflict`` error is left for call ``n``. A new question's
            ``callback`` is kept as a token (``signoff.stores.contract.tokens.callback_token``).
        closes: Ids of promises this run waits for no longer. Its own pending ones become ``cancelled``, which
            is told to others that joined; one that it joined itself is only left.
        starts: Child runs to create. One whose id exists with the same workflow, arguments and session is joined
            likewise; with others, a ``SETTLED`` message with state ``failed`` and an ``IdConflict`` error is left for
            call ``parent_n``. Without ``parent_n`` (a detached run) nothing is joined, told or refused.
        cancels: Ids of child runs to cancel. One that the run only joined is left; unknown ids are passed over.
        taken: Ids of the messages that ``entries`` journal; they are not seen again.
        unpublishes: Numbers of calls whose live text goes, since an attempt has ended.
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
        False  # the engine's finding about the code: keep everything, tell nobody, allow `retry`
    )


@record
class Claim:
    """A run leased to a worker, and the messages waiting for it, oldest first."""

    run: Run
    messages: tuple[Message, ...] = ()


class LeaseStore:
    """The part of ``signoff.stores.contract.store.Store`` for the holders of leases."""

    @writes(lane="worker")
    async def claim(
        self, worker_id: str, group: str, workflows: Sequence[str], limit: int, *, token: str | None = None
    ) -> Sequence[Claim]:
        """Lease up to ``limit`` ready runs of these workflows in this group.

        Those of the highest priority come first, of one priority the one that became ready first, of those the one
        that was created first. Passed over are

        - all runs of a paused group;
        - what would make more than ``max_running`` runs of the group run at once;
        - a run with a concurrency key, while ``concurrency_limit`` (its own) or more runs of its workflow, group and
          key are running. What a key has waiting must not make claims slow, however much it is;
        - runs that never started, while the group's rate lets none start. The rate is a bucket: it lets ``count`` start
          at once, and one more each ``seconds / count`` after that, until it is full again. When a run is passed over
          for that, the time at which the next may start becomes due.

        A run with two or more takeovers since its journal last grew is a suspect (``stores/shared/suspect_runs.py``).
        Of those with two takeovers a worker holds at most 100 that have made no progress, of those with three 10, of
        those with more one; and only of one of these three levels at a time. A claim that can have suspects returns
        them and no other runs, from the highest level there is. A run that makes progress takes no
        room, and stops being a suspect once it is paused or released.

        Each gets ``epoch + 1`` and a lease of ``lease_seconds``. A run's first lease has epoch 1, and the
        run's journal is empty then. With the ``token`` of a former call it returns the runs that are still held under
        the leases of that call, if there are any, and leases no others.
        """

    @writes(lane="run")
    async def append(self, write: Write) -> None:
        """Write one fenced batch.

        Raises:
            LeaseLost: Another epoch, or the run is not running.
        """

    @writes(lane="run")
    async def pause(self, write: Write, *, wakes: int, wake_at: float | None) -> bool:
        """Write the batch and move the run to ``paused``, unless ``wakes`` has moved on since.

        A suspended run is paused whatever ``wakes`` says, without a ``wake_at``.
        The batch is written in either case. A promise joined or a child started by this very batch that turns out
        to be settled counts as a wake too.

        Returns:
            Whether the run is paused. If not it is still leased: read its messages and go on.

        Raises:
            LeaseLost: As in ``append``.
        """

    @writes(lane="run")
    async def complete(self, write: Write, outcome: Outcome) -> None:
        """Write the batch and end the run: tell its parent and other waiters, cancel its pending promises.

        A retryable failure only sets the state: promises stay open, nobody is told, messages are kept.

        Raises:
            LeaseLost: As in ``append``.
        """

    @writes(is_patient=False)
    async def heartbeat(self, worker_id: str, held: Mapping[str, int]) -> set[str]:
        """Extend the leases of the runs in ``held`` (run id -> epoch), in one statement.

        Returns:
            The run ids that are not this worker's any more, or not in that epoch.
        """

    @writes(lane="worker", is_patient=False)
    async def release(self, worker_id: str, *, dead: bool = False) -> int:
        """Take a worker off the register and make every run it holds ready.

        For a worker that stops in order, and for others to call when they know that its process is ``dead``: then each
        run counts a takeover, as when its lease runs out.

        Returns:
            How many runs became ready.
        """
