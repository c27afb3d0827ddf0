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

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from signoff.runtime.clock import Clock
from signoff.stores.contract.groups import GroupStore
from signoff.stores.contract.leases import LeaseStore
from signoff.stores.contract.live import LiveStore
from signoff.stores.contract.operations import Operation
from signoff.stores.contract.outbox import OutboxStore
from signoff.stores.contract.promises import PromiseStore
from signoff.stores.contract.questions import QuestionStore
from signoff.stores.contract.rules import RuleStore
from signoff.stores.contract.runs import RunStore
from signoff.stores.contract.schedules import ScheduleStore
from signoff.stores.contract.sessions import SessionStore
from signoff.stores.contract.snapshots import SnapshotStore
from signoff.stores.contract.timers import TimerStore
from signoff.stores.contract.tokens import TokenStore
from signoff.stores.contract.workers import WorkerStore
from signoff.stores.contract.workflows import WorkflowStore


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
    RunStore,
    LeaseStore,
    PromiseStore,
    QuestionStore,
    TokenStore,
    OutboxStore,
    RuleStore,
    SessionStore,
    WorkflowStore,
    LiveStore,
    SnapshotStore,
    TimerStore,
    GroupStore,
    ScheduleStore,
    WorkerStore,
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

    async def perform(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        """Perform an operation whose method a subclass does not override.

        Args:
            operation: The operation.
            arguments: All its arguments by name, in the order of their declaration.

        Example::

            class Counting(Store):
                async def perform(self, operation: Operation, arguments: dict[str, Any]) -> Any:
                    self.calls[operation.name] += 1
                    return await operation.call(self.inner, arguments)
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement {operation.name}")

    @property
    def location(self) -> str:
        """The database's address without secrets, for messages."""

    async def open(self) -> None:
        """Connect, and bring the schema up to date.

        Raises:
            StoreUnavailable: The database cannot be opened or written.
            SchemaTooNew: A newer Signoff has migrated it.
        """

    async def close(self) -> None:
        """Finish what was begun and disconnect. Safe to call twice; on a view of ``within`` it does nothing."""

    def within(self, namespace: str) -> Store:
        """Return a view of the same open database bound to another namespace."""

    def listen(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Have ``callback`` called after each commit, from any thread; returns a function that ends it.

        A store that hears of commits from afar tells ``Change(runs=None)`` when it begins to hear, and after a gap.
        """

    def hold_leases(self) -> None:
        """Count the time until now as one in which no lease could be extended.

        For a server that begins, and a process that was stopped: others could not reach it. ``due`` frees no lease for
        ``lease_seconds``; where this is called again and again, see there. Other processes on the database free leases.
        """

    async def check_writable(self) -> None:
        """Write some kilobytes and take them back: nothing is left, and nobody is told.

        Raises:
            StoreUnavailable: The store takes no writes now: it is full, read-only, locked, or does not answer.
        """
