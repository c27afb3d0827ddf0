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
        epoch: The epoch of the lease. If the store has another one, ``LeaseLost`` is raised and nothing is written.
        entries: Journal entries; their ``seq`` must continue the journal (``InvalidValue`` if not).
        opens: Promises to create. A call that opens its own promise again (after a crash) changes nothing.
            A plain promise whose id belongs to another plain one is joined: the run becomes a further waiter, and gets
            a message at once if the promise is settled. Questions are never joined, since then another run would have
            chosen what is asked and who may answer: if the id is taken and one of the two is a question, call ``n``
            gets a ``SETTLED`` message with state ``rejected`` and an ``IdConflict`` error. A new question's
            ``callback`` is kept as a token (``signoff.stores.contract.tokens.callback_token``).
        closes: Ids of promises this run no longer waits for. Its own pending ones become ``cancelled``, and other runs
            that joined them get a message; one that it joined itself is only left.
        starts: Child runs to create. One whose id exists with the same workflow, arguments and session is joined in
            the same way; if they differ, call ``parent_n`` gets a ``SETTLED`` message with state ``failed`` and an
            ``IdConflict`` error. Without ``parent_n`` (a detached run) nothing is joined, and no message is left.
        cancels: Ids of child runs to cancel. One that the run only joined is left; unknown ids are ignored.
        taken: Ids of the messages that ``entries`` journal; they are not returned again.
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

        Runs are ordered by priority, then by when they became ready, then by when they were created. Skipped are

        - all runs of a paused group;
        - runs that would exceed the group's ``max_running``;
        - a run with a concurrency key, while ``concurrency_limit`` (its own) or more runs of its workflow, group and
          key are running. Claims must stay fast, however many runs wait for one key;
        - runs that never started, while the group's rate allows no start. The rate is a token bucket: it allows
        ``count``
          starts at once, and refills by one every ``seconds / count``. When a run is skipped for that reason, the time
          of the next allowed start becomes due.

        A run with two or more takeovers since its journal last grew is a suspect (``stores/shared/suspect_runs.py``).
        A worker holds at most 100 suspects with two takeovers that have made no progress, 10 with three, and one with
        more; and only suspects of one of these three levels at a time. A claim that can have suspects returns only
        them, from the highest level there is. A run that makes progress does not count towards these numbers,
        and stops being a suspect once it is paused or released.

        Each run gets ``epoch + 1`` and a lease of ``lease_seconds``. A run's first lease has epoch 1, and its
        journal is empty then. With the ``token`` of an earlier call it returns the runs that are still held under
        the leases of that call, if there are any, and leases no others.
        """

    @writes(lane="run")
    async def append(self, write: Write) -> None:
        """Write one fenced batch.

        Raises:
                LeaseLost: The epoch differs, or the run is not running.
        """

    @writes(lane="run")
    async def pause(self, write: Write, *, wakes: int, wake_at: float | None) -> bool:
        """Write the batch and move the run to ``paused``, unless ``wakes`` has increased since.

        A suspended run is paused whatever ``wakes`` says, without a ``wake_at``.
        The batch is written in either case. A promise joined or a child started by this very batch counts as a
        wake too if it is already settled.

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
                The ids of the runs that this worker no longer holds, or not in that epoch.
        """

    @writes(lane="worker", is_patient=False)
    async def release(self, worker_id: str, *, dead: bool = False) -> int:
        """Remove a worker from the register and make every run it holds ready.

        Called by a worker that shuts down in an orderly way, and by others that know its process is ``dead``: then
        each run counts a takeover, as when its lease expires.

        Returns:
            How many runs became ready.
        """
