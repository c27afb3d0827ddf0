"""Due items in the reference model: timers, deadlines, expired leases, forgotten workers."""

from __future__ import annotations

from collections.abc import Callable

from signoff.records import MessageKind, PromiseState, Run, RunState
from signoff.stores.contract.timers import GRACE_SECONDS
from signoff.stores.contract.workers import FORGET_SECONDS
from signoff.testing.model.messages import Messages
from signoff.testing.model.promises import Promises
from signoff.testing.model.state import State
from signoff.testing.model.tasks import Tasks


class Timers:
    """Fires due items, and knows when the next is due."""

    def __init__(
        self,
        state: State,
        messages: Messages,
        promises: Promises,
        tasks: Tasks,
        expire: Callable[[Run], None],
    ) -> None:
        self._expire = expire
        self._tasks = tasks
        self._state = state
        self._tables = state.tables
        self._messages = messages
        self._promises = promises

    def due(self, limit: int = 1000) -> float | None:
        now, lease_now = self._state.now, self._state.lease_clock.now()
        late = sorted(
            filter(self._promises.is_overdue, self._tables.promises.values()),
            key=lambda late: late.due_at or 0,
        )
        for promise in late[:limit]:
            self._promises.time_out(promise)
        for run in self._first(limit, lambda run: run.wake_at if run.state is RunState.PAUSED else None, now):
            self._state.make_ready(run, wake_at=None)
        for run in self._first(limit, lambda run: run.deadline_at if self._has_deadline(run) else None, now):
            self._pass_deadline(run)
        for run in self._first(limit, self._grace_began_at, now - GRACE_SECONDS):
            self._expire(run)
        for run in self._first(limit, lambda run: run.lease_until, lease_now):
            self._state.let_go(run, taken_over=True)
        self._tasks.free_expired(limit)
        for (namespace, _), limits in self._tables.groups.items():
            if limits.opens_at is not None and limits.opens_at <= now:
                limits.opens_at = None
                self._state.commit.ready.add(namespace)
        for worker in list(self._tables.workers.values()):
            if worker.seen_at is not None and worker.seen_at <= lease_now - FORGET_SECONDS:
                del self._tables.workers[worker.id]
        return self.next_due()

    def next_due(self) -> float | None:
        """Return when the next deadline, timer or lease is due, or a worker is forgotten, in business time."""
        leases = [run.lease_until for run in self._tables.runs.values() if run.lease_until is not None]
        leases += [
            times.lease_until for times in self._tables.task_times.values() if times.lease_until is not None
        ]
        seen = [worker.seen_at for worker in self._tables.workers.values() if worker.seen_at is not None]
        times = [self.next_deadline()]
        for lease_times in (leases, [at + FORGET_SECONDS for at in seen]):
            times += (
                [self._state.now + (min(lease_times) - self._state.lease_clock.now())] if lease_times else []
            )
        return min((time for time in times if time is not None), default=None)

    def next_deadline(self) -> float | None:
        """Return when the next deadline or timer is due."""
        runs, promises = self._tables.runs.values(), self._tables.promises.values()
        times = [promise.due_at for promise in promises if promise.state is PromiseState.PENDING]
        times += [run.wake_at for run in runs if run.state is RunState.PAUSED]
        times += [limits.opens_at for limits in self._tables.groups.values()]
        times += [run.deadline_at for run in runs if self._has_deadline(run)]
        times += [at + GRACE_SECONDS for run in runs if (at := self._grace_began_at(run)) is not None]
        return min((time for time in times if time is not None), default=None)

    def _pass_deadline(self, run: Run) -> None:
        facts, now = self._tables.facts[run.namespace, run.id], self._state.now
        facts.deadline_passed = True
        is_empty = not self._tables.journals[run.namespace, run.id]
        if run.epoch == 0 or (run.state is RunState.READY and is_empty):
            self._expire(run)
            return
        if (
            run.state is RunState.READY
            and run.deadline_at is not None
            and run.deadline_at < now - GRACE_SECONDS / 2
        ):
            facts.ready_at = now
        self._messages.leave(run.namespace, run.id, MessageKind.DEADLINE)

    def _grace_began_at(self, run: Run) -> float | None:
        """Return since when a run past its deadline waits for a worker; None if it does not."""
        facts = self._tables.facts[run.namespace, run.id]
        if run.state is not RunState.READY or run.deadline_at is None or not facts.deadline_passed:
            return None
        return max(run.deadline_at, facts.ready_at)

    def _first(self, limit: int, time_of: Callable[[Run], float | None], now: float) -> list[Run]:
        """Return the due runs, the earliest first."""
        due = [
            (at, run) for run in self._tables.runs.values() if (at := time_of(run)) is not None and at <= now
        ]
        due.sort(key=lambda each: each[0])
        return [run for _, run in due[:limit]]

    def _has_deadline(self, run: Run) -> bool:
        passed = self._tables.facts[run.namespace, run.id].deadline_passed
        return run.deadline_at is not None and not passed and run.ended_at is None
