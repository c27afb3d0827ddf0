"""THE contract of a store: a small set of atomic operations on runs, journals, promises and messages.

Every method is one transaction: it happens as a whole or not at all, and it is durable when the method returns.
``tests/stores/`` holds the rules as one suite that runs against every store.

A store object is bound to one namespace and neither reads nor changes another. Exceptions are ``due``,
``due_schedules``, ``due_promise_schedules``, ``due_questions``, ``queued_namespaces``, ``heads``, ``unsealed``,
``find_token``, ``has_token``, ``release`` and the register of workers, which serve the whole database.

The states of a run, and the operations that change them (no other transition exists):

    create_run  -> ready, or paused (delayed, awaiting its turn)     claim    ready -> running
    pause       running -> paused   wake     paused -> ready         release  running -> ready
    complete    running -> succeeded|failed|cancelled                retry    failed -> ready
    cancel      never started, or failed (retryable) -> cancelled    suspend  ready|paused -> paused
    terminate   not ended, or failed (retryable) -> cancelled        resume   paused (suspended) -> ready|paused
    due         never begun, or without workers, past its deadline -> failed

A *suspended* run (``suspended_at``) waits for an operator: no worker claims it, and nothing wakes it. A running one
becomes ``paused`` when its worker releases it. Messages that arrive meanwhile are kept and counted.

``wake`` is part of every operation that leaves a message: ``settle``, ``signal``, ``cancel``, ``complete`` (for
the parent and other waiters), ``due``; and ``due`` wakes a paused run whose ``wake_at`` has come and returns
runs whose lease ran out to ``ready``.

A group limits which of its ready runs are claimed (``claim``). By default it limits nothing.

A run whose ``start_at`` is in the future when it is created is *delayed*: ``paused`` in epoch 0, with that ``wake_at``.
Messages for it are kept and counted, but only ``due`` makes it ready.

A run of a session waits for its turn: ``paused`` in epoch 0 without a ``wake_at``. See ``stores/contract/sessions.py``.

A caller whose connection breaks during an operation does not know its outcome, and repeats it. So every operation can
be repeated:

- ``append``, ``pause`` and ``complete`` are identified by their entries. If the journal already holds identical entries
  and no later lease was granted, the write was done under this lease: it succeeds without effect, even if it ended
  ``running``. (A write without entries is done again, which changes nothing; once the run has left ``running``, it
  raises ``LeaseLost``.)
- ``create_run``, ``create_promise``, ``settle``, ``amend``, ``signal``, ``retry`` and ``claim`` take a ``token``, a
  unique id of the call. Repeated with the same token and arguments, they return the same result without effect.
- Operations on tasks that are repeated return the promise or the conflict as it is by then, as their protocol expects.
- All others change nothing when repeated, except ``claim_deliveries``, which documents what happens.
"""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from signoff.records.record import record
from signoff.runtime.clock import Clock
from signoff.stores.contract.checkpoints import CheckpointStore
from signoff.stores.contract.groups import GroupStore
from signoff.stores.contract.leases import LeaseStore
from signoff.stores.contract.live import LiveStore
from signoff.stores.contract.operations import Operation
from signoff.stores.contract.outbox import OutboxStore
from signoff.stores.contract.promise_schedules import PromiseScheduleStore
from signoff.stores.contract.promises import PromiseStore
from signoff.stores.contract.questions import QuestionStore
from signoff.stores.contract.rules import RuleStore
from signoff.stores.contract.runs import RunStore
from signoff.stores.contract.schedules import ScheduleStore
from signoff.stores.contract.sessions import SessionStore
from signoff.stores.contract.snapshots import SnapshotStore
from signoff.stores.contract.tasks import TaskStore
from signoff.stores.contract.timers import TimerStore
from signoff.stores.contract.tokens import TokenStore
from signoff.stores.contract.workers import WorkerStore
from signoff.stores.contract.workflows import WorkflowStore


@record
class Change:
    """The effects of a commit, as reported to listeners in this process.

    Listeners of other namespaces are notified of ``due`` only, which serves the whole database.

    Attributes:
        runs: Runs whose journal, state or promises changed. None if another process committed: then anything may have
            changed, and ``woken`` and ``ended`` are empty.
        woken: Runs that received a message.
        ended: Runs that ended.
        ready: Whether a run may have become claimable: one is ready, a slot of a limited group or key is free, a rate
            allows the next start, or a group was resumed or its limits changed.
        due: Whether an earlier deadline may exist.
        settled: Whether a promise that belongs to no run was settled.
    """

    runs: frozenset[str] | None = None
    woken: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()
    ready: bool = True
    due: bool = True
    settled: bool = False


PROBE: Final = "signoff:writable"
"""The key that ``check_writable`` writes. No worker and no token has this name."""


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
    TaskStore,
    TimerStore,
    GroupStore,
    ScheduleStore,
    PromiseScheduleStore,
    CheckpointStore,
    WorkerStore,
):
    """Durable storage for runs. The module's docstring states what holds for every method.

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
        """Connect, and migrate the schema.

        Raises:
            StoreUnavailable: The database cannot be opened or written.
            SchemaTooNew: A newer version of Signoff has migrated it.
        """

    async def close(self) -> None:
        """Finish pending operations and disconnect. Safe to call twice. On a view from ``within`` it does nothing."""

    def within(self, namespace: str) -> Store:
        """Return a view of the same open database bound to another namespace."""

    def listen(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Call ``callback`` after each commit, from any thread. Returns a function that stops it.

        A store that learns of commits over a connection reports ``Change(runs=None)`` at first, and after each gap.
        """

    def hold_leases(self) -> None:
        """Count the time until now as an outage, in which no lease could be extended.

        Called when a server starts, and when a process was stopped: workers could not reach it. ``due`` then frees no
        lease for ``lease_seconds``; it documents repeated outages. Other processes on the database still free leases.
        """

    async def check_writable(self) -> None:
        """Write some kilobytes and roll them back. Nothing remains, and no listener is notified.

        Raises:
            StoreUnavailable: The store cannot be written now: it is full, read-only, locked, or does not respond.
        """
