"""THE contract of a store: a small set of atomic operations on runs, journals, promises and messages.

Every method is one transaction: it happens whole or not at all, and what it did is durable when it
returns. ``tests/stores/`` holds the rules as one suite that runs against every store.

A store object is bound to one namespace; nothing it does or returns concerns another, except ``due``,
``due_schedules``, ``due_questions``, ``heads``, ``unsealed``, ``find_token``, ``has_token``, ``release`` and the
workers' register, which serve the whole database.

The run's states and who moves them (no other transition exists):

    create_run  -> ready, or paused (delayed, awaiting its turn)     claim    ready -> running
    pause       running -> paused   wake     paused -> ready         release  running -> ready
    complete    running -> succeeded|failed|cancelled                retry    failed -> ready
    cancel      never started, or failed (retryable) -> cancelled    suspend  ready|paused -> paused
    terminate   not ended, or failed (retryable) -> cancelled        resume   paused (suspended) -> ready|paused
    due         never begun, past its deadline -> failed

A *suspended* run (``suspended_at``) waits for an operator: no worker gets it, and nothing wakes it. A running one
becomes ``paused`` when its worker has let go of it. Messages are kept and counted meanwhile.

``wake`` is part of every operation that leaves a message: ``settle``, ``signal``, ``cancel``, ``complete`` (for
the parent and other waiters), ``due``; and ``due`` wakes a paused run whose ``wake_at`` has come and returns
runs whose lease ran out to ``ready``.

A group limits which of its ready runs are claimed (``claim``); a group that nobody paused or limited limits nothing.

A run whose ``start_at`` is in the future when it is created is *delayed*: ``paused`` in epoch 0, with that ``wake_at``.
A message for it is kept and counted, but only ``due`` makes it ready.

A run of a session waits for its turn: ``paused`` in epoch 0 without a ``wake_at``. See ``stores/contract/sessions.py``.

Whoever is cut off while an operation is under way does not know whether it was done, and asks again. So every
operation may be repeated:

- ``append``, ``pause`` and ``complete`` are known by their entries. A write whose entries the journal holds already,
  word for word, while no later lease was given, was done under this lease: it succeeds without effect, also if the
  run has left ``running`` by it. (One without entries is done again, which changes nothing more; once the run
  has left ``running`` it gets ``LeaseLost``.)
- ``create_run``, ``create_promise``, ``settle``, ``amend``, ``signal``, ``retry`` and ``claim`` take a ``token``, a
  unique id of the call. With the same token and the same arguments they return what they returned, without effect.
- All others change nothing when they are repeated, but for ``claim_deliveries``, which says what happens then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from signoff.records import (
    Due,
    Entry,
    Group,
    Message,
    NewAuditEvent,
    NewPromise,
    NewRun,
    NewSchedule,
    Promise,
    PromiseKind,
    Rate,
    Run,
    RunState,
    Schedule,
    Settlement,
    WorkerInfo,
    record,
)
from signoff.records.paging import Page, PromiseFilter, RunFilter
from signoff.runtime.clock import Clock
from signoff.stores.contract.live import LiveStore
from signoff.stores.contract.outbox import OutboxStore
from signoff.stores.contract.questions import QuestionStore
from signoff.stores.contract.retries import Retry
from signoff.stores.contract.rules import RuleStore
from signoff.stores.contract.sessions import SessionStore
from signoff.stores.contract.snapshots import SnapshotStore
from signoff.stores.contract.tokens import TokenStore
from signoff.stores.contract.workflows import WorkflowStore

ENLIST_SECONDS = 15.0
FORGET_SECONDS = 60.0

COUNTED_AT_MOST = 10_000
"""Where the counts of ``list_groups`` stop."""


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


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit touched, told to listeners of its namespace in this process.

    Listeners of other namespaces hear only of ``due``, since ``due`` serves the whole database.

    Attributes:
        runs: Runs whose journal, state or promises changed. None when another process committed: then anything may
            have changed, and ``woken`` and ``ended`` say nothing.
        woken: Runs that were left a message.
        ended: Runs that ended.
        ready: Whether a run may have become claimable: one is ready now, a slot of a limited group or key is free, a
            rate lets the next start through, or a group was resumed or limited otherwise.
        due: Whether an earlier deadline may exist.
    """

    runs: frozenset[str] | None = None
    woken: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()
    ready: bool = True
    due: bool = True


PROBE: Final = "signoff:writable"
"""What ``check_writable`` writes. No worker and no token is called so."""


class Store(
    QuestionStore,
    TokenStore,
    OutboxStore,
    RuleStore,
    SessionStore,
    WorkflowStore,
    LiveStore,
    SnapshotStore,
    Protocol,
):
    """A durable home for runs. See the module's text for what holds of every method.

    Attributes:
        namespace: The tenant.
        clock: Business time.
        lease_seconds: How long a claim or a heartbeat through this object holds a run.
    """

    namespace: str
    clock: Clock
    lease_seconds: float

    @property
    def location(self) -> str:
        """The database's address without secrets, for messages."""
        ...

    async def open(self) -> None:
        """Connect, and bring the schema up to date.

        Raises:
            StoreUnavailable: The database cannot be opened or written.
            SchemaTooNew: A newer Signoff has migrated it.
        """
        ...

    async def close(self) -> None:
        """Finish what was begun and disconnect. Safe to call twice; on a view of ``within`` it does nothing."""
        ...

    def within(self, namespace: str) -> Store:
        """Return a view of the same open database bound to another namespace."""
        ...

    def listen(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Have ``callback`` called after each commit, from any thread; returns a function that ends it.

        A store that hears of commits from afar tells ``Change(runs=None)`` when it begins to hear, and after a gap.
        """
        ...

    # Runs

    async def create_run(self, new: NewRun, *, token: str | None = None) -> tuple[Run, bool]:
        """Create a run, ready or delayed, or find the one that has the id already.

        A run keeps the ``traceparent`` of whoever created it; another one makes no other run.

        Returns:
            The run as it is, and whether this call created it.

        Raises:
            IdConflict: The id belongs to a run of another workflow, with other arguments or of another session.
            InvalidValue: A concurrency key without a limit, or the other way round; or a ``traceparent`` that is none.
        """
        ...

    async def get_run(self, run_id: str) -> Run:
        """Raises NotFound."""
        ...

    async def ended(self, run_ids: Sequence[str]) -> set[str]:
        """Which of these runs have ended (a run that failed retryably has); unknown ids are left out."""
        ...

    async def list_runs(self, which: RunFilter, *, after: str | None = None, limit: int = 100) -> Page[Run]:
        """Newest first. ``after`` is a former page's ``next``."""
        ...

    async def read_journal(
        self, run_id: str, *, after: int = -1, limit: int | None = None
    ) -> Sequence[Entry]:
        """Entries with ``seq`` greater than ``after``, in order; empty for an unknown run.

        With a limit there may be fewer, if they are large (``stores/shared/listed_payloads.py``): where a page is
        empty, the journal ends.
        """
        ...

    async def read_messages(self, run_ids: Sequence[str]) -> Sequence[tuple[Message, int]]:
        """Messages not yet taken of these runs, oldest first per run, each with its run's ``wakes`` counter.

        A message's id is unique and ascending within its run. The counter and the messages are of one snapshot:
        a worker that has seen ``wakes`` has seen every message that was counted in it. Of large ones there may be more
        than are returned: then the counter of the last run is less than it is.
        """
        ...

    async def cancel(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> Run:
        """Ask a run to stop. One that never started (also a delayed one), or failed retryably, is cancelled at once.

        Others get a message.

        Asking again, or a run that has ended, changes nothing.

        Returns:
            The run as it is afterwards.

        Raises:
            NotFound: The run does not exist.
        """
        ...

    async def retry(
        self,
        run_id: str,
        *,
        how: Retry | None = None,
        event: NewAuditEvent | None = None,
        token: str | None = None,
    ) -> Run:
        """Make a failed run ready again, with a ``RETRIED`` entry in its journal, which keeps ``token``.

        A run that failed retryably was kept whole and goes on. One that failed for good goes on as ``how`` says: the
        entry keeps which entries of the journal do not count any more, and each call that was open is sent what became
        of it. Those who waited for the run keep its failure. A deadline that has passed is dropped. A suspended run is
        resumed.

        Args:
            run_id: The run.
            how: For a run that failed for good (``stores/contract/retries.py``).
            event: Recorded in the audit trail if the run is retried.
            token: See the module's text.

        Returns:
            The run as it is afterwards.

        Raises:
            NotFound: The run does not exist.
            InvalidState: It has not failed; or it failed for good, and ``how`` is missing or of another epoch, or
                another run of its session is active.
        """
        ...

    async def suspend(
        self, run_id: str, event: NewAuditEvent, *, reason: str | None = None, epoch: int | None = None
    ) -> Run:
        """Have a run wait for an operator. One that runs is left a message; its worker lets go of it.

        Args:
            run_id: The run.
            event: Recorded in the audit trail if this call suspends the run. It says who (``by``).
            reason: Why, for people.
            epoch: The lease of the caller: its run is paused at once.

        Returns:
            The run as it is afterwards. One that is suspended already stays as it is.

        Raises:
            NotFound: The run does not exist.
            InvalidState: It has ended.
            LeaseLost: Another ``epoch``, or the run is not running.
        """
        ...

    async def resume(self, run_id: str, event: NewAuditEvent) -> Run:
        """Have a suspended run go on. Its takeovers count from zero again.

        Args:
            run_id: The run.
            event: Recorded in the audit trail if this call resumes the run.

        Returns:
            The run as it is afterwards. One that is not suspended stays as it is.

        Raises:
            NotFound: The run does not exist.
            InvalidState: It has ended.
        """
        ...

    async def terminate(self, run_id: str, event: NewAuditEvent, *, reason: str | None = None) -> Run:
        """End a run as ``cancelled`` without its code, whatever it does: none of its clean-up runs.

        Its parent and other waiters are told ``RunTerminated``, its pending promises and questions are cancelled, its
        child runs are asked to stop as by ``cancel``. A worker that holds it has lost its lease.

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
        ...

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
            InvalidState: The run has ended (one that failed retryably has not: it keeps the signal).
            RequestConflict: ``request_id`` was used for this run with another name or value.
        """
        ...

    async def delete_ended(self, before: float, limit: int) -> int:
        """Delete runs that ended before that time, the earliest first, with their journals, promises and all else.

        A run goes after its parent: one whose parent is there is kept. The children of a run that is deleted have no
        parent from then on, so they go next, or later if they have not ended or ended later. A run that failed
        retryably is kept. The id of a deleted run, or of a deleted promise, is free again.

        Returns:
            How many runs were deleted; ``limit`` means that there may be more.
        """
        ...

    # What the holder of a lease does

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
        ...

    async def append(self, write: Write) -> None:
        """Write one fenced batch.

        Raises:
            LeaseLost: Another epoch, or the run is not running.
        """
        ...

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
        ...

    async def complete(self, write: Write, outcome: Outcome) -> None:
        """Write the batch and end the run: tell its parent and other waiters, cancel its pending promises.

        A retryable failure only sets the state: promises stay open, nobody is told, messages are kept.

        Raises:
            LeaseLost: As in ``append``.
        """
        ...

    # Promises

    async def create_promise(self, new: NewPromise, *, token: str | None = None) -> tuple[Promise, bool]:
        """Create a promise that belongs to no run, or find the one that has the id.

        Returns:
            The promise as it is, and whether this call created it.

        Raises:
            IdConflict: The id is taken by a promise of another kind, or by one of a run.
            InvalidValue: It is no question, and has ``assignees`` or ``act_at``. (So do writes that open such a one.)
        """
        ...

    async def get_promise(self, promise_id: str) -> Promise:
        """Raises NotFound."""
        ...

    async def list_promises(
        self, which: PromiseFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Promise]:
        """Oldest first. A page of what some runs ask may be short, or empty, and have a ``next``."""
        ...

    async def settle(
        self, promise_id: str, kind: PromiseKind, settlement: Settlement, *, token: str | None = None
    ) -> tuple[Promise, bool]:
        """Settle a pending promise and wake the runs that wait for it.

        A promise whose ``due_at`` has passed is timed out first, so that a late answer never wins. It keeps the
        ``origin`` of what settled it. A store that is kept elsewhere may see for itself where that is, and not ask.

        Returns:
            The promise as it is, and whether this call settled it. False means that the same ``request_id`` settled
            it before with the same state and value; or, while it is pending, that it has another ``version`` than the
            settlement was made for.

        Raises:
            NotFound: There is no such promise of this kind.
            AlreadySettled: Someone else was first; the error says who.
            RequestConflict: This ``request_id`` settled it with another state or value.
        """
        ...

    # Time and leases

    async def due(self, limit: int = 1000) -> float | None:
        """Do what time has brought: promises time out, timers wake runs, deadlines pass, lost leases are freed.

        A run that was never begun ends when its deadline passes, as ``failed`` with ``RunTimeout``: nobody knows
        whether a worker will ever come for it. Any other is left a message. A run whose lease was lost counts a
        takeover; the count starts from one when its journal has grown since the last.

        All of it is one transaction. Where that fails, each item is done by itself: one that fails is set aside, and
        tried again with back-off (``stores/shared/set_aside_items.py``).

        Workers that were silent for too long are forgotten.

        Time in which this process could not write does not count against leases: after an outage of a second or more it
        frees none for ``lease_seconds``, in which their holders extend them (``stores/shared/outages.py``). Where one
        outage follows another, the time between them is counted in the store, and leases that had run out before are
        freed once it adds up to ``lease_seconds``.

        Where a rate held a claim back and lets the next start through now, listeners are told (``Change.ready``).

        Returns:
            When the next thing is due in unix seconds of ``clock`` (a lease that runs out in three seconds by the
            lease clock is due in three seconds; now or earlier if ``limit`` cut this call short), or None.
        """
        ...

    def hold_leases(self) -> None:
        """Count the time until now as one in which no lease could be extended.

        For a server that begins, and a process that was stopped: others could not reach it. ``due`` frees no lease for
        ``lease_seconds``; where this is called again and again, see there. Other processes on the database free leases.
        """
        ...

    # Groups

    async def pause_group(self, name: str) -> None:
        """Have no more runs of a group claimed. What is running goes on until it pauses or ends."""
        ...

    async def resume_group(self, name: str) -> None:
        """Have runs of a paused group claimed again."""
        ...

    async def limit_group(
        self, name: str, *, max_running: int | None = None, starts_per: Rate | None = None
    ) -> None:
        """Replace the limits of a group; None is no limit. The rate begins anew, with its whole allowance.

        Raises:
            InvalidValue: A limit is not above 0, or more than ``HIGHEST_LIMIT``.
        """
        ...

    async def list_groups(self) -> Sequence[Group]:
        """Groups that have runs, or were ever paused or limited, by name. Counts stop at ``COUNTED_AT_MOST``."""
        ...

    # Schedules: when they fire is computed above the store (``engine/timers/schedules.py``)

    async def put_schedule(self, new: NewSchedule) -> Schedule:
        """Create a schedule, or replace what the one of that id says.

        It stays paused if it was; ``next_at`` is taken over only if cron expression or time zone are others.
        """
        ...

    async def get_schedule(self, schedule_id: str) -> Schedule:
        """Raises NotFound."""
        ...

    async def list_schedules(self, *, after: str | None = None, limit: int = 100) -> Page[Schedule]:
        """By id. ``after`` is a former page's ``next``."""
        ...

    async def pause_schedule(self, schedule_id: str) -> Schedule:
        """Have a schedule not be due any more. Raises NotFound."""
        ...

    async def resume_schedule(self, schedule_id: str, next_at: float) -> Schedule:
        """Have a paused schedule be due at ``next_at``; one that is not paused stays as it is. Raises NotFound."""
        ...

    async def delete_schedule(self, schedule_id: str) -> None:
        """Raises NotFound."""
        ...

    async def due_schedules(self, limit: int) -> tuple[Sequence[Due], float | None]:
        """Schedules of all namespaces whose ``next_at`` has come, and the earliest ``next_at`` of any (None: none).

        Only which they are: a list of records would grow with their arguments, and one unreadable record would hide
        the others.
        """
        ...

    async def fire_schedule(
        self, schedule_id: str, expected: float, runs: Sequence[NewRun], next_at: float
    ) -> bool:
        """Move a schedule on from ``next_at == expected``, and create runs, in one transaction.

        A run whose id is taken is not created. Listeners are told that something may be due.

        Returns:
            Whether it was moved on now: False, with nothing done, if its ``next_at`` is another one, or it is paused or
            gone.
        """
        ...

    # Workers

    async def enlist(self, worker: WorkerInfo) -> None:
        """Put a worker on the register, before it claims; and again every ``ENLIST_SECONDS``, to say that it lives.

        One that was not heard of for ``FORGET_SECONDS`` is taken off the register by ``due``. (Its leases have run out
        long before.) ``seen_at`` and ``held`` are the store's: what the caller says of them is passed over.

        Raises:
            InvalidValue: Something in it is too long or cannot be kept.
        """
        ...

    async def list_workers(self) -> Sequence[WorkerInfo]:
        """All workers on the register, by id, with when they were last heard of and how many runs they hold."""
        ...

    async def heartbeat(self, worker_id: str, held: Mapping[str, int]) -> set[str]:
        """Extend the leases of the runs in ``held`` (run id -> epoch), in one statement.

        Returns:
            The run ids that are not this worker's any more, or not in that epoch.
        """
        ...

    async def check_writable(self) -> None:
        """Write some kilobytes and take them back: nothing is left, and nobody is told.

        Raises:
            StoreUnavailable: The store takes no writes now: it is full, read-only, locked, or does not answer.
        """
        ...

    async def release(self, worker_id: str, *, dead: bool = False) -> int:
        """Take a worker off the register and make every run it holds ready.

        For a worker that stops in order, and for others to call when they know that its process is ``dead``: then each
        run counts a takeover, as when its lease runs out.

        Returns:
            How many runs became ready.
        """
        ...
