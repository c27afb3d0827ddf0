"""Messages to runs in the reference model. A message wakes its run."""

from __future__ import annotations

from typing import Any

from signoff.codec import encode_error
from signoff.errors import SignoffError
from signoff.records import Message, MessageKind, Promise, RunState
from signoff.stores.contract.leases import Outcome
from signoff.testing.model.state import State
from signoff.testing.model.task_states import TaskStates


class Messages:
    """Notifies runs of events, and knows which runs wait for what."""

    def __init__(self, state: State, tasks: TaskStates) -> None:
        self._state = state
        self._tasks = tasks
        self._tables = state.tables

    def leave(self, namespace: str, run_id: str, kind: MessageKind, **what: Any) -> None:
        """Add a message for a run and wake it. A run that has ended permanently gets none."""
        run = self._tables.runs.get((namespace, run_id))
        if run is None or (run.ended_at is not None and not run.retryable):
            return
        run = self._state.change(run, wakes=run.wakes + 1)
        self._state.commit.woken.add((namespace, run_id))
        if run.state is RunState.READY:
            self._state.commit.ready.add(namespace)
        if run.state is RunState.PAUSED and run.epoch > 0 and not run.is_suspended:
            self._state.make_ready(run, wake_at=None)
        self._tables.messages[namespace, run_id].append(
            Message(run.wakes, run_id, kind, self._state.now, **what)
        )

    def refuse(self, namespace: str, run_id: str, n: int, id: str, state: str, error: SignoffError) -> None:
        """Notify a run, once, that its call cannot wait for the target with this id."""
        left = self._tables.messages[namespace, run_id]
        if any((each.kind, each.n, each.name) == (MessageKind.SETTLED, n, id) for each in left):
            return
        details = encode_error(error)
        self.leave(namespace, run_id, MessageKind.SETTLED, n=n, name=id, state=state, error=details)

    def notify_all(self, promise: Promise) -> None:
        """Notify a promise's run, and all other waiting runs, of its outcome."""
        if promise.run_id is not None and promise.n is not None:
            self.notify_of_promise(promise, promise.run_id, promise.n)
        self.notify_waiters(promise)

    def notify_waiters(self, promise: Promise) -> None:
        """Notify the other runs that wait for a promise, and its task and those that await it, of its outcome."""
        for run_id, n in self.waiters(promise.namespace, "promise", promise.id):
            self.notify_of_promise(promise, run_id, n)
        self._tasks.settled(promise)

    def notify_of_promise(self, promise: Promise, run_id: str, n: int) -> None:
        """Notify a run's call of a promise's outcome."""
        self.leave(
            promise.namespace,
            run_id,
            MessageKind.SETTLED,
            n=n,
            name=promise.id,
            state=promise.state.value,
            value=promise.value,
            by=promise.settled_by,
            note=promise.note,
        )

    def notify_of_run(self, namespace: str, waiter: str, n: int, run_id: str, outcome: Outcome) -> None:
        """Notify a waiting run's call of another run's outcome."""
        self.leave(
            namespace,
            waiter,
            MessageKind.SETTLED,
            n=n,
            name=run_id,
            state=outcome.state.value,
            value=outcome.result,
            error=outcome.error,
        )

    def waiters(self, namespace: str, target: str, target_id: str) -> list[tuple[str, int]]:
        """Return the runs and calls that wait for a run or a promise."""
        return sorted(self._tables.waiters.get((namespace, target, target_id), ()))

    def join(self, namespace: str, target: str, target_id: str, run_id: str, n: int) -> bool:
        """Let a run's call wait for a run or a promise. Returns whether that is new."""
        waiters = self._tables.waiters.setdefault((namespace, target, target_id), set())
        is_new = (run_id, n) not in waiters
        waiters.add((run_id, n))
        return is_new

    def unjoin_all(self, namespace: str, run_id: str) -> None:
        """End all waits of a run."""
        for (owner, _, _), waiters in self._tables.waiters.items():
            if owner == namespace:
                waiters -= {waiter for waiter in waiters if waiter[0] == run_id}

    def unjoin(self, namespace: str, target: str, target_id: str, run_id: str) -> None:
        """End a run's wait for a run or a promise."""
        waiters = self._tables.waiters.get((namespace, target, target_id), set())
        waiters -= {waiter for waiter in waiters if waiter[0] == run_id}
