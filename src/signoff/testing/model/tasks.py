"""Tasks in the reference model: invocations, and what they await."""

from __future__ import annotations

from collections.abc import Sequence

from signoff.errors import InvalidValue, NotFound, TaskConflict
from signoff.records import Promise, PromiseKind, PromiseState, Settlement
from signoff.records.invocations import InvocationFilter, InvocationNode
from signoff.records.tasks import (
    RESEND_SECONDS,
    Invocation,
    Listener,
    NewInvocation,
    Task,
    TaskLease,
    TaskMessage,
    TaskRef,
    TaskState,
    queue_of,
)
from signoff.stores.shared.listed_payloads import PAGE_BYTES, bytes_of
from signoff.testing.model.promises import Promises
from signoff.testing.model.state import State
from signoff.testing.model.tables import TaskTimes
from signoff.testing.model.task_states import TaskStates


class Tasks:
    """The operations on tasks."""

    def __init__(self, state: State, promises: Promises, states: TaskStates) -> None:
        self._state = state
        self._tables = state.tables
        self._promises = promises
        self._states = states

    def open(self, namespace: str, new: NewInvocation) -> Invocation:
        id, holder = new.promise.id, new.holder
        self._time_out(namespace, id)
        if holder is not None:
            self._time_out(namespace, holder.id)
            self._held(namespace, holder, "create a promise in the name of")
        is_new = (namespace, id) not in self._tables.promises
        promise, _ = self._promises.create(namespace, new.promise)
        if not is_new:
            return self._known(promise, new.lease)
        for branch in {new.branch, new.parent} - {None}:
            self._tables.promise_branches.add((namespace, branch or "", id))
        if new.target is not None:
            is_late = self._promises.is_overdue(promise)
            self._add(namespace, id, new.target, None if is_late else new.lease, new.send_at)
        self._time_out(namespace, id)
        task = self._tables.tasks.get((namespace, id))
        return Invocation(self._tables.promises[namespace, id], task, was_created=True)

    def settle(self, namespace: str, holder: TaskRef, promise_id: str, settlement: Settlement) -> Promise:
        self._time_out(namespace, holder.id, promise_id)
        self._held(namespace, holder, "settle a promise in the name of")
        promise = self._promise(namespace, promise_id)
        if promise.state is not PromiseState.PENDING:
            return promise
        return self._promises.settle(namespace, promise_id, promise.kind, settlement)[0]

    def acquire(self, namespace: str, ref: TaskRef, lease: TaskLease, takes_one: bool) -> Invocation:
        self._time_out(namespace, ref.id)
        task = self._states.get(namespace, ref.id)
        if task.state is not TaskState.PENDING or task.version != ref.version:
            raise _conflict(task, "acquire")
        taken = task.resumes[:1] if takes_one else task.resumes
        acquired = self._states.acquire(task, lease, task.resumes[len(taken) :])
        return Invocation(self._tables.promises[namespace, ref.id], acquired, resumes=taken)

    def release(self, namespace: str, ref: TaskRef) -> None:
        self._time_out(namespace, ref.id)
        self._states.move(self._held(namespace, ref, "release"), TaskState.PENDING)

    def suspend(self, namespace: str, ref: TaskRef, awaited: Sequence[str]) -> bool:
        self._time_out(namespace, ref.id, *awaited)
        task = self._held(namespace, ref, "suspend")
        if not awaited:
            self._states.move(task, TaskState.PENDING if task.resumes else TaskState.SUSPENDED)
            return not task.resumes
        for id in awaited:
            if (namespace, id) not in self._tables.promises:
                raise InvalidValue("awaited", f"there is no promise {id!r}")
        if any(self._tables.promises[namespace, id].state is not PromiseState.PENDING for id in awaited):
            self._states.change_resumes(task, ())
            return False
        for id in awaited:
            self._tables.task_awaits.setdefault((namespace, id), {}).setdefault(ref.id, None)
        self._states.move(task, TaskState.SUSPENDED, resumes=())
        return True

    def heartbeat(self, namespace: str, pid: str, refs: Sequence[TaskRef] | None) -> int:
        held = [
            task
            for task in self._tables.tasks.values()
            if (task.namespace, task.pid) == (namespace, pid)
            and (refs is None or TaskRef(task.id, task.version) in refs)
        ]
        for task in held:
            times = self._states.leased(TaskLease(pid, task.ttl or 0))
            self._tables.task_times[namespace, task.id] = times
        return len(held)

    def halt(self, namespace: str, task_id: str) -> None:
        self._time_out(namespace, task_id)
        task = self._states.get(namespace, task_id)
        if task.state is TaskState.FULFILLED:
            raise _conflict(task, "halt")
        self._states.move(task, TaskState.HALTED)

    def continue_task(self, namespace: str, task_id: str) -> None:
        self._time_out(namespace, task_id)
        task = self._states.get(namespace, task_id)
        if task.state is not TaskState.HALTED:
            raise _conflict(task, "continue")
        self._states.move(task, TaskState.PENDING)

    def await_promise(self, namespace: str, awaited: str, awaiter: str, address: str | None) -> Promise:
        self._time_out(namespace, awaited, awaiter)
        promise = self._promise(namespace, awaited)
        task = self._tables.tasks.get((namespace, awaiter))
        if task is None:
            execution = self._tables.promises.get((namespace, awaiter))
            if address is None or execution is None:
                raise InvalidValue("awaiter", f"there is no task {awaiter!r}")
            if execution.state is not PromiseState.PENDING:
                return promise
            task = self._states.add(Task(namespace, awaiter, TaskState.SUSPENDED, address), TaskTimes())
        if task.state is TaskState.FULFILLED:
            return promise
        if promise.state is PromiseState.PENDING:
            self._tables.task_awaits.setdefault((namespace, awaited), {}).setdefault(awaiter, address)
        elif task.state is TaskState.SUSPENDED:
            self._states.move(task, TaskState.PENDING, address=address)
        elif task.state is not TaskState.HALTED:
            self._states.change_resumes(task, (*task.resumes, awaited))
        return promise

    def listen(self, namespace: str, promise_id: str, address: str) -> Promise:
        self._time_out(namespace, promise_id)
        promise = self._promise(namespace, promise_id)
        if promise.state is PromiseState.PENDING:
            self._tables.promise_listeners.setdefault((namespace, promise_id, address), None)
        return promise

    def get(self, namespace: str, task_id: str) -> Task:
        return self._states.get(namespace, task_id)

    def list_tasks(self, namespace: str, state: TaskState | None, pid: str | None) -> list[Task]:
        tasks = [task for task in self._tables.tasks.values() if task.namespace == namespace]
        found = [task for task in tasks if state in (None, task.state) and pid in (None, task.pid)]
        return sorted(found, key=lambda task: task.id)

    def list_branch(self, namespace: str, branch: str, limit: int) -> list[Promise]:
        ids = sorted(id for *of, id in self._tables.promise_branches if of == [namespace, branch])
        found: list[Promise] = []
        for id in ids[:limit]:
            if bytes_of(found) >= PAGE_BYTES:
                break
            found.append(self._tables.promises[namespace, id])
        return found

    def list_invocations(self, namespace: str, which: InvocationFilter) -> list[tuple[int, InvocationNode]]:
        """Return all invocations, newest first, each with its promise's number."""
        found = [
            (self._tables.promise_numbers[namespace, id], self._node(promise))
            for (of, id), promise in self._tables.promises.items()
            if of == namespace
            and promise.kind is PromiseKind.PROMISE
            and (task := self._tables.tasks.get((namespace, id))) is not None
            and which.state in (None, promise.state)
            and which.task in (None, task.state)
            and (which.nested or not self._was_called(namespace, id))
        ]
        return sorted(found, key=lambda each: -each[0])

    def list_calls(self, namespace: str, promise_id: str) -> list[InvocationNode]:
        ids = sorted(id for *of, id in self._tables.promise_branches if of == [namespace, promise_id])
        return [self._node(self._tables.promises[namespace, id]) for id in ids if id != promise_id]

    def _was_called(self, namespace: str, id: str) -> bool:
        return any(
            (of, called) == (namespace, id) and branch != id and (namespace, branch) in self._tables.promises
            for of, branch, called in self._tables.promise_branches
        )

    def _node(self, promise: Promise) -> InvocationNode:
        key = (promise.namespace, promise.id)
        return InvocationNode(
            promise,
            self._tables.tasks.get(key),
            key in self._tables.runs,
            any((of, branch) == key and id != branch for of, branch, id in self._tables.promise_branches),
        )

    def queued_namespaces(self, queue: str, after: str, limit: int) -> list[str]:
        tasks = {
            task.namespace
            for task in self._tables.tasks.values()
            if task.state is TaskState.PENDING and queue_of(task.target) == queue
        }
        listeners = {
            namespace
            for (namespace, _, address), send_at in self._tables.promise_listeners.items()
            if send_at is not None and queue_of(address) == queue
        }
        return sorted(each for each in tasks | listeners if each > after)[:limit]

    def take_messages(self, namespace: str, queues: Sequence[str], limit: int) -> list[TaskMessage]:
        taken: list[TaskMessage] = []
        size = 0
        for queue in queues:
            tasks = [
                (send_at, task)
                for key, task in self._tables.tasks.items()
                if (task.namespace, queue_of(task.target)) == (namespace, queue)
                and (send_at := self._tables.task_times[key].send_at) is not None
                and send_at <= self._state.now
            ]
            for _, task in sorted(tasks, key=lambda each: each[0])[: limit - len(taken)]:
                self._tables.task_times[namespace, task.id].send_at = self._state.now + RESEND_SECONDS
                taken.append(TaskMessage(namespace, task.target, task=task))
            listeners = [
                (send_at, key)
                for key, send_at in self._tables.promise_listeners.items()
                if (key[0], queue_of(key[2])) == (namespace, queue)
                and send_at is not None
                and send_at <= self._state.now
            ]
            for _, key in sorted(listeners, key=lambda each: each[0])[: limit - len(taken)]:
                self._tables.promise_listeners[key] = self._state.now + RESEND_SECONDS
                promise = self._tables.promises[key[:2]]
                taken.append(TaskMessage(namespace, key[2], promise=promise))
                size += bytes_of(promise)
                if size >= PAGE_BYTES:
                    return taken
        return taken

    def finish_message(self, namespace: str, promise_id: str, address: str) -> None:
        key = (namespace, promise_id, address)
        if self._tables.promise_listeners.get(key) is not None:
            del self._tables.promise_listeners[key]

    def resend_messages(
        self, namespace: str, tasks: Sequence[TaskRef], listeners: Sequence[Listener]
    ) -> None:
        now = self._state.now
        self._state.commit.due = True
        for ref in tasks:
            task, times = (
                self._tables.tasks.get((namespace, ref.id)),
                self._tables.task_times.get((namespace, ref.id)),
            )
            if (
                task is not None
                and times is not None
                and times.send_at is not None
                and (task.state, task.version) == (TaskState.PENDING, ref.version)
            ):
                times.send_at = min(times.send_at, now)
        for each in listeners:
            key = (namespace, each.promise_id, each.address)
            send_at = self._tables.promise_listeners.get(key)
            if send_at is not None:
                self._tables.promise_listeners[key] = min(send_at, now)

    def free_expired(self, limit: int) -> None:
        """Make acquired tasks pending whose leases expired."""
        now = self._state.lease_clock.now()
        expired = [
            (times.lease_until, key)
            for key, times in self._tables.task_times.items()
            if times.lease_until is not None and times.lease_until <= now
        ]
        for _, key in sorted(expired)[:limit]:
            self._states.move(self._tables.tasks[key], TaskState.PENDING)

    def _add(
        self, namespace: str, id: str, target: str, lease: TaskLease | None, send_at: float | None
    ) -> None:
        task = Task(namespace, id, TaskState.PENDING, target)
        if lease is None:
            self._states.add(task, TaskTimes(send_at=self._state.now if send_at is None else send_at))
        else:
            self._states.acquire(task, lease, ())

    def _known(self, promise: Promise, lease: TaskLease | None) -> Invocation:
        task = self._tables.tasks.get((promise.namespace, promise.id))
        if lease is None or (task is not None and task.state is TaskState.FULFILLED):
            return Invocation(promise, task)
        if task is None:
            raise InvalidValue("id", f"promise {promise.id!r} has no target, so it has no task to acquire")
        if task.state is not TaskState.PENDING:
            raise _conflict(task, "acquire")
        return Invocation(promise, self._states.acquire(task, lease, ()), resumes=task.resumes)

    def _time_out(self, namespace: str, *promise_ids: str) -> None:
        for id in promise_ids:
            promise = self._tables.promises.get((namespace, id))
            if promise is not None and self._promises.is_overdue(promise):
                self._promises.time_out(promise)

    def _promise(self, namespace: str, promise_id: str) -> Promise:
        promise = self._tables.promises.get((namespace, promise_id))
        if promise is None:
            raise NotFound("promise", promise_id)
        return promise

    def _held(self, namespace: str, ref: TaskRef, operation: str) -> Task:
        task = self._states.get(namespace, ref.id)
        if task.state is not TaskState.ACQUIRED or task.version != ref.version:
            raise _conflict(task, operation)
        return task


def _conflict(task: Task, operation: str) -> TaskConflict:
    return TaskConflict(task.id, task.state.value, task.version, operation)
