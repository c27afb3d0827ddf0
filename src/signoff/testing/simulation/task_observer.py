"""Watches the operations on tasks in a simulated world, and reports violations of their rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from signoff.records import Promise, PromiseState
from signoff.records.tasks import Invocation, NewInvocation, Task, TaskRef, TaskState
from signoff.stores.contract.operations import OPERATIONS
from signoff.stores.contract.tasks import TaskStore

if TYPE_CHECKING:
    from signoff.testing.simulation.world import World

WRITES: Final = frozenset(
    name for name, each in OPERATIONS.items() if each.noun == TaskStore.__name__ and not each.is_read
)


class TaskObserver:
    """Sees every operation on tasks, and every promise that is settled.

    Args:
        world: The world, which records violations.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._tables = world.store.model.tables
        self._versions: dict[str, int] = {}
        self._awaited: dict[str, tuple[int, frozenset[str]]] = {}  # of suspended tasks, by version
        self._before: Task | None = None

    def before(self, operation: str, args: Sequence[Any]) -> None:
        """Note the task in whose name an operation writes."""
        ref = _holder(operation, args)
        self._before = None if ref is None else self._task(ref.id)

    def after(self, operation: str, args: Sequence[Any], outcome: Any) -> None:
        """Check the effect of an operation that succeeded."""
        ref = _holder(operation, args)
        if ref is not None:
            self._check_holder(operation, ref)
        match operation, outcome:
            case "acquire_task", Invocation(task=Task() as task):
                self._acquired(task)
            case "open_invocation", Invocation(task=Task(state=TaskState.ACQUIRED) as task) if args[0].lease:
                self._acquired(task)
            case "suspend_task", True:
                self._suspended(args[0], args[1])
            case _:
                pass

    def settled(self, promise: Promise) -> None:
        """Check the tasks of a promise that has just been settled, and of those that await it."""
        task = self._task(promise.id)
        if task is not None and task.state is not TaskState.FULFILLED:
            self._world.blame(f"promise {promise.id!r} is settled, and its task {task.state}")
        for id, (version, awaited) in self._awaited.items():
            task = self._task(id)
            sleeps = task is not None and (task.state, task.version) == (TaskState.SUSPENDED, version)
            if sleeps and promise.id in awaited and not self._is_late(id):
                self._world.blame(f"promise {promise.id!r} is settled, and task {id!r} sleeps on")

    def check_end(self) -> None:
        """Check that every task has ended, and that no process waits for a message."""
        for (_, id), task in self._tables.tasks.items():
            if task.state is not TaskState.FULFILLED:
                self._world.blame(f"task {id!r} is stuck: {task}, {self._tables.task_times['default', id]}")

    def _check_holder(self, operation: str, ref: TaskRef) -> None:
        held = self._before is not None and self._before.state is TaskState.ACQUIRED
        if not held or ref.version != self._versions.get(ref.id):
            self._world.blame(f"{operation} in the name of {ref}, which does not hold {self._before}")

    def _acquired(self, task: Task) -> None:
        known = self._versions.get(task.id, 0)
        if task.version <= known:
            self._world.blame(f"task {task.id!r} was acquired in version {task.version} after {known}")
        self._versions[task.id] = task.version
        self._awaited.pop(task.id, None)

    def _suspended(self, ref: TaskRef, awaited: Sequence[str]) -> None:
        self._awaited[ref.id] = (ref.version, frozenset(awaited))
        for id in awaited:
            if self._tables.promises["default", id].state is not PromiseState.PENDING:
                self._world.blame(f"task {ref.id!r} is suspended, and {id!r} is settled")

    def _is_late(self, promise_id: str) -> bool:
        due_at = self._tables.promises["default", promise_id].due_at
        return due_at is not None and due_at <= self._world.clock.now()

    def _task(self, id: str) -> Task | None:
        return self._tables.tasks.get(("default", id))


def _holder(operation: str, args: Sequence[Any]) -> TaskRef | None:
    """Return the task in whose name an operation writes."""
    match operation:
        case "open_invocation":
            new: NewInvocation = args[0]
            return new.holder
        case "settle_held" | "suspend_task" | "release_task":
            return args[0]
        case _:
            return None
