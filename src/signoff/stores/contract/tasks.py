"""The operations on tasks: invocations of the durable promise protocol. ``server/resonate`` speaks it over HTTP.

The states of a task, and the operations that change them (no other transition exists):

    open_invocation -> pending, or acquired (with a lease)     acquire_task   pending -> acquired
    release_task    acquired -> pending                        suspend_task   acquired -> suspended, pending
    halt_task       not fulfilled -> halted                    continue_task  halted -> pending
    due             acquired, its lease expired -> pending
    settle, settle_held, due: a promise is settled -> its task is fulfilled, and suspended tasks that await it
                    become pending

A promise past its deadline is settled before any operation on it or its task.
"""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from collections.abc import Sequence

from signoff.records import Promise, Settlement
from signoff.records.invocations import InvocationFilter, InvocationNode
from signoff.records.paging import Page
from signoff.records.tasks import (
    Invocation,
    Listener,
    NewInvocation,
    Task,
    TaskLease,
    TaskMessage,
    TaskRef,
    TaskState,
)
from signoff.stores.contract.operations import reads, writes


class TaskStore:
    """The part of ``signoff.stores.contract.store.Store`` that keeps tasks."""

    @writes(lane="promise")
    async def open_invocation(self, new: NewInvocation) -> Invocation:
        """Create a promise with its task, or return those with this id.

        With ``new.lease`` the task is acquired: a new one, and one that is pending. A promise that is created past its
        deadline is timed out, and its task fulfilled.

        Raises:
            IdConflict: The id belongs to a run's promise, or to one of another kind.
            NotFound: ``new.holder`` has no task.
            TaskConflict: ``new.holder`` is not acquired in this version; or ``new.lease`` is given, and the task is
                acquired, suspended or halted.
            InvalidValue: ``new.lease`` is given, and the promise exists without a task.
        """

    @writes(lane="promise")
    async def settle_held(self, holder: TaskRef, promise_id: str, settlement: Settlement) -> Promise:
        """Settle a promise in the name of an acquired task: its own, or one that it has created.

        Returns:
            The promise as it is. One that was settled before is returned unchanged.

        Raises:
            NotFound: There is no such task, or no such promise.
            TaskConflict: The task is not acquired in this version.
        """

    @writes(lane="promise")
    async def acquire_task(self, ref: TaskRef, lease: TaskLease, *, takes_one: bool = False) -> Invocation:
        """Acquire a pending task. Its version rises by one.

        Args:
            ref: The task, as it was sent.
            lease: The process and its lease.
            takes_one: Take the first of the promises that resumed the task, and leave the others in ``resumes``.

        Raises:
            NotFound: There is no such task.
            TaskConflict: It is not pending, or has another version.
        """

    @writes(lane="promise")
    async def release_task(self, ref: TaskRef) -> None:
        """Give an acquired task back: it is sent again. Raises NotFound, TaskConflict."""

    @writes(lane="promise")
    async def suspend_task(self, ref: TaskRef, awaited: Sequence[str]) -> bool:
        """Suspend an acquired task until one of the awaited promises is settled.

        Args:
            ref: The task.
            awaited: Ids of promises. If empty, the promises registered with ``await_promise`` count: the task is
                pending at once if one of them was settled since it was acquired.

        Returns:
            Whether it is suspended. False if an awaited promise is settled already: it stays acquired, and its
            ``resumes`` are empty. (With empty ``awaited``: it is pending.)

        Raises:
            NotFound: There is no such task.
            TaskConflict: It is not acquired in this version.
            InvalidValue: An awaited promise does not exist.
        """

    @writes(is_patient=False)
    async def heartbeat_tasks(self, pid: str, tasks: Sequence[TaskRef] | None) -> int:
        """Extend the leases of tasks that a process holds: of these, or of all if None. Returns their number."""

    @writes(lane="promise")
    async def halt_task(self, task_id: str) -> None:
        """Stop a task until ``continue_task``. Repeated, it has no effect.

        Raises:
            NotFound: There is no such task.
            TaskConflict: It is fulfilled.
        """

    @writes(lane="promise")
    async def continue_task(self, task_id: str) -> None:
        """Send a halted task again.

        Raises:
            NotFound: There is no such task.
            TaskConflict: It is not halted.
        """

    @writes(lane="promise")
    async def await_promise(self, awaited: str, awaiter: str, *, address: str | None = None) -> Promise:
        """Resume a task once a promise is settled; at once if it is settled and the task suspended.

        Args:
            awaited: The id of the promise.
            awaiter: The id of the task.
            address: Where the task is sent then. If given, a missing task is created, suspended.

        Returns:
            The awaited promise.

        Raises:
            NotFound: There is no such promise.
            InvalidValue: The awaiter has no task.
        """

    @writes(lane="promise")
    async def listen_promise(self, promise_id: str, address: str) -> Promise:
        """Send a promise to an address once it is settled. One that is settled already is only returned.

        Raises:
            NotFound: There is no such promise.
        """

    @reads
    async def get_task(self, task_id: str) -> Task:
        """Raises NotFound."""

    @reads
    async def list_tasks(
        self,
        *,
        state: TaskState | None = None,
        pid: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[Task]:
        """List tasks by id: those in a state, and those that a process holds.

        ``after`` is the ``next`` of the previous page.
        """

    @reads
    async def list_branch(self, branch: str, *, limit: int = 1000) -> Sequence[Promise]:
        """List the promises of a branch by id, with their payloads.

        It ends after ``PAGE_BYTES`` of payloads (``stores/shared/listed_payloads.py``), as ``take_task_messages`` does.
        """

    @reads
    async def list_invocations(
        self, which: InvocationFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[InvocationNode]:
        """List promises with tasks, newest first, and no questions. ``after`` is the ``next`` of the previous page.

        One that another promise has created is left out while that promise exists, unless ``which.nested``. A page
        examines ``LOOKED_THROUGH`` promises, so it may be short or empty and still have a ``next``.
        """

    @reads
    async def list_calls(
        self, promise_id: str, *, after: str | None = None, limit: int = 100
    ) -> Page[InvocationNode]:
        """List the promises that a promise has created, and the others of its branch, by id."""

    @reads
    async def queued_namespaces(self, queue: str, *, after: str = "", limit: int = 100) -> Sequence[str]:
        """List the namespaces that have messages for a queue, due now or later, by name. ``after`` is the last one.

        It serves the whole database.
        """

    @writes(is_patient=False)
    async def take_task_messages(self, queues: Sequence[str], limit: int) -> Sequence[TaskMessage]:
        """Take due messages of these queues (``records.tasks.queue_of``).

        Each is due again in ``RESEND_SECONDS``.
        """

    @writes(is_patient=False)
    async def finish_task_message(self, promise_id: str, address: str) -> None:
        """Delete the message about a settled promise to a listener: it has been sent."""

    @writes(is_patient=False)
    async def resend_task_messages(self, tasks: Sequence[TaskRef], listeners: Sequence[Listener]) -> None:
        """Make messages due at once that were taken and may not have reached their receivers.

        Tasks that are no longer pending in this version, and messages to listeners that were finished, are left alone.
        """
