"""The states of tasks in the reference model, and the effects of a settled promise on them."""

from __future__ import annotations

from dataclasses import replace

from signoff.errors import NotFound
from signoff.records import Promise
from signoff.records.tasks import Task, TaskLease, TaskState
from signoff.testing.model.state import State
from signoff.testing.model.tables import Key, TaskTimes


class TaskStates:
    """The transitions of tasks."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._tables = state.tables

    def get(self, namespace: str, task_id: str) -> Task:
        task = self._tables.tasks.get((namespace, task_id))
        if task is None:
            raise NotFound("task", task_id)
        return task

    def add(self, task: Task, times: TaskTimes) -> Task:
        """Store a new task."""
        self._tables.tasks[task.namespace, task.id] = task
        self._tables.task_times[task.namespace, task.id] = times
        self._state.commit.due |= task.state is not TaskState.SUSPENDED
        return task

    def acquire(self, task: Task, lease: TaskLease, resumes: tuple[str, ...]) -> Task:
        """Lease a task to a process."""
        acquired = replace(
            task,
            state=TaskState.ACQUIRED,
            version=task.version + 1,
            resumes=resumes,
            pid=lease.pid,
            ttl=lease.ttl,
        )
        return self.add(acquired, self.leased(lease))

    def leased(self, lease: TaskLease) -> TaskTimes:
        """Return the times of a task with a new lease."""
        return TaskTimes(lease_until=self._state.lease_clock.now() + lease.ttl / 1000)

    def move(
        self,
        task: Task,
        state: TaskState,
        *,
        resumes: tuple[str, ...] | None = None,
        address: str | None = None,
    ) -> None:
        """Change the state of a task that no process holds any longer. A pending one is sent at once."""
        moved = replace(
            task,
            state=state,
            target=address or task.target,
            resumes=task.resumes if resumes is None else resumes,
            pid=None,
            ttl=None,
        )
        self.add(moved, TaskTimes(send_at=self._state.now if state is TaskState.PENDING else None))

    def change_resumes(self, task: Task, resumes: tuple[str, ...]) -> None:
        """Change the settled promises that no acquisition has seen."""
        self._tables.tasks[task.namespace, task.id] = replace(task, resumes=tuple(dict.fromkeys(resumes)))

    def settled(self, promise: Promise) -> None:
        """Fulfil the task of a settled promise, resume those that await it, and send it to its listeners."""
        key = (promise.namespace, promise.id)
        task = self._tables.tasks.get(key)
        if task is not None and task.state is not TaskState.FULFILLED:
            self.move(task, TaskState.FULFILLED, resumes=())
            self._end_awaits_of(key)
        for awaiter, address in self._tables.task_awaits.pop(key, {}).items():
            self._resume(self.get(promise.namespace, awaiter), promise.id, address)
        for listener, send_at in self._tables.promise_listeners.items():
            if listener[:2] == key and send_at is None:
                self._tables.promise_listeners[listener] = self._state.now
                self._state.commit.due = True

    def delete(self, key: Key) -> None:
        """Delete the task of a promise, and everything that waits for the promise."""
        tables = self._tables
        for table in (tables.tasks, tables.task_times, tables.task_awaits):
            table.pop(key, None)
        self._end_awaits_of(key)
        for listener in [listener for listener in tables.promise_listeners if listener[:2] == key]:
            del tables.promise_listeners[listener]
        tables.promise_branches -= {each for each in tables.promise_branches if (each[0], each[2]) == key}

    def _resume(self, task: Task, promise_id: str, address: str | None) -> None:
        promise = self._tables.promises[task.namespace, task.id]
        if promise.due_at is not None and promise.due_at <= self._state.now:
            return  # it is about to be timed out
        if task.state is TaskState.SUSPENDED:
            self.move(task, TaskState.PENDING, resumes=(promise_id,), address=address)
        else:
            self.change_resumes(task, (*task.resumes, promise_id))

    def _end_awaits_of(self, key: Key) -> None:
        for (namespace, _), awaiters in self._tables.task_awaits.items():
            if namespace == key[0]:
                awaiters.pop(key[1], None)
