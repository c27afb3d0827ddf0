"""Stores and servers that break one rule of tasks each. A simulation that does not detect them proves nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from signoff.records import Due, Promise
from signoff.records.tasks import (
    PUSH_QUEUE,
    NewInvocation,
    Task,
    TaskLease,
    TaskMessage,
    TaskRef,
    TaskState,
)
from signoff.server.resonate import function_calls, function_groups, promises, schedules, signoff_groups
from signoff.server.resonate.call import Call
from signoff.server.resonate.legacy import messages as legacy_messages
from signoff.server.resonate.legacy import schedules as legacy_schedules
from signoff.server.resonate.push import Push
from signoff.stores.contract.store import Store
from signoff.testing import MemoryStore
from signoff.testing.model.task_states import TaskStates
from signoff.testing.model.tasks import Tasks
from signoff.testing.simulation import Faults
from tests.simulation.protocol.sdk import Execution


class SameVersion(TaskStates):
    """Acquires a task in the version that it has."""

    def acquire(self, task: Task, lease: TaskLease, resumes: tuple[str, ...]) -> Task:
        return super().acquire(replace(task, version=max(0, task.version - 1)), lease, resumes)


class SleepyTasks(Tasks):
    """Suspends a task although a promise that it awaits has been settled meanwhile."""

    def suspend(self, namespace: str, ref: TaskRef, awaited: Sequence[str]) -> bool:
        pending = self._tables.promises
        open_ = [
            id for id in awaited if (namespace, id) in pending and pending[namespace, id].settled_at is None
        ]
        if len(open_) == len(awaited):
            return super().suspend(namespace, ref, awaited)
        self._states.move(self._held(namespace, ref, "suspend"), TaskState.SUSPENDED, resumes=())
        return True


class ForgetfulSender(Tasks):
    """Sends the message of a task only once."""

    def take_messages(self, namespace: str, queues: Sequence[str], limit: int) -> list[TaskMessage]:
        taken = super().take_messages(namespace, queues, limit)
        for message in taken:
            if message.task is not None:
                self._tables.task_times[namespace, message.task.id].send_at = None
        return taken


class EternalLeases(Tasks):
    """Leaves a task to a process whose lease has expired."""

    def free_expired(self, limit: int) -> None:
        now = self._state.lease_clock.now()
        for times in self._tables.task_times.values():
            if times.lease_until is not None and times.lease_until <= now:
                times.lease_until = None


class UnfencedTasks(Tasks):
    """Takes a settlement in the name of a task from any version that has held it."""

    def settle(self, namespace: str, holder: TaskRef, promise_id: str, settlement: Any) -> Promise:
        task = self._tables.tasks.get((namespace, holder.id))
        is_held = task is not None and task.state is TaskState.ACQUIRED
        held = TaskRef(holder.id, task.version) if task is not None and is_held else holder
        return super().settle(namespace, held, promise_id, settlement)


class UnfencedCreation(Tasks):
    """Creates a promise in the name of a task that the process holds no longer."""

    def open(self, namespace: str, new: NewInvocation) -> Any:
        return super().open(namespace, replace(new, holder=None))


class OneAwaiter(TaskStates):
    """Resumes only the first task that awaits a promise."""

    def settled(self, promise: Promise) -> None:
        awaits = self._tables.task_awaits.get((promise.namespace, promise.id), {})
        for awaiter in list(awaits)[1:]:
            del awaits[awaiter]
        super().settled(promise)


class DeafListeners(TaskStates):
    """Does not send a settled promise to its listeners."""

    def settled(self, promise: Promise) -> None:
        for key in [
            key for key in self._tables.promise_listeners if key[:2] == (promise.namespace, promise.id)
        ]:
            del self._tables.promise_listeners[key]
        super().settled(promise)


class UnendedTasks(TaskStates):
    """Leaves the task of a settled promise as it is."""

    def settled(self, promise: Promise) -> None:
        task = self._tables.tasks.pop((promise.namespace, promise.id), None)
        super().settled(promise)
        if task is not None:
            self._tables.tasks[promise.namespace, promise.id] = task


class UnextendedLeases(Tasks):
    """Extends no lease."""

    def heartbeat(self, namespace: str, pid: str, refs: Sequence[TaskRef] | None) -> int:
        return 0


class SilentContinuation(Tasks):
    """Does not send a task that is continued."""

    def continue_task(self, namespace: str, task_id: str) -> None:
        super().continue_task(namespace, task_id)
        self._tables.task_times[namespace, task_id].send_at = None


class SilentRelease(Tasks):
    """Does not send a task that was given back."""

    def release(self, namespace: str, ref: TaskRef) -> None:
        super().release(namespace, ref)
        self._tables.task_times[namespace, ref.id].send_at = None


class UnfencedRelease(Tasks):
    """Takes a task away from its process because an earlier one gives it back."""

    def release(self, namespace: str, ref: TaskRef) -> None:
        task = self._tables.tasks[namespace, ref.id]
        super().release(namespace, replace(ref, version=task.version))


class ForgetfulPosts(Tasks):
    """Posts the message of a task only once."""

    def take_messages(self, namespace: str, queues: Sequence[str], limit: int) -> list[TaskMessage]:
        taken = super().take_messages(namespace, queues, limit)
        for message in taken:
            if message.task is not None and PUSH_QUEUE in queues:
                self._tables.task_times[namespace, message.task.id].send_at = None
        return taken


class HastyCompletion(Tasks):
    """Suspends a task of the protocol of 2024 although a promise has resumed it."""

    def suspend(self, namespace: str, ref: TaskRef, awaited: Sequence[str]) -> bool:
        if awaited:
            return super().suspend(namespace, ref, awaited)
        self._states.move(self._held(namespace, ref, "suspend"), TaskState.SUSPENDED, resumes=())
        return True


class GreedyClaims(Tasks):
    """Forgets the promises that a claim of the protocol of 2024 does not hand out."""

    def acquire(self, namespace: str, ref: TaskRef, lease: TaskLease, takes_one: bool) -> Any:
        return super().acquire(namespace, ref, lease, takes_one=False)


class DeafCallbacks(Tasks):
    """Registers no callback of the protocol of 2024."""

    def await_promise(self, namespace: str, awaited: str, awaiter: str, address: str | None) -> Promise:
        if address is not None:
            return self._promise(namespace, awaited)
        return super().await_promise(namespace, awaited, awaiter, address)


class UnextendedProcesses(Tasks):
    """Extends no lease when a process of the protocol of 2024 reports."""

    def heartbeat(self, namespace: str, pid: str, refs: Sequence[TaskRef] | None) -> int:
        return 0 if refs is None else super().heartbeat(namespace, pid, refs)


STORES: dict[type[Tasks | TaskStates], Faults | None] = dict.fromkeys(
    (
        SameVersion,
        SleepyTasks,
        ForgetfulSender,
        EternalLeases,
        UnfencedTasks,
        UnfencedCreation,
        OneAwaiter,
        DeafListeners,
        UnendedTasks,
        UnextendedLeases,
        SilentContinuation,
        SilentRelease,
        UnfencedRelease,
        ForgetfulPosts,
        HastyCompletion,
        GreedyClaims,
        DeafCallbacks,
        UnextendedProcesses,
    )
)
STORES[DeafListeners] = Faults()  # callers ask again after a fault
STORES[GreedyClaims] = Faults(lost_notices=1.0)
STORES[UnextendedProcesses] = Faults()  # only then may no step begin twice


def store_of(mutant: type[Tasks | TaskStates]) -> Callable[..., MemoryStore]:
    """Make a store whose model of tasks, or a part of it, is a mutant."""

    def make(**options: Any) -> MemoryStore:
        store = MemoryStore(**options)
        part = store.model.tasks if issubclass(mutant, Tasks) else store.model.tasks._states
        part.__class__ = mutant
        return store

    return make


# Servers and processes: each breaks one part of them, for as long as the test's patch lasts.


def shows_promises_as_timed_out_too_early(patch: pytest.MonkeyPatch) -> None:
    async def early(call: Call, promise: Promise) -> Promise:
        is_late = promises.is_late(promise, call.now)
        return replace(promise, state=promises.PromiseState.TIMED_OUT) if is_late else promise

    patch.setattr(promises, "current", early)


def lets_programs_answer_questions(patch: pytest.MonkeyPatch) -> None:
    async def none(*_: Any) -> None:
        pass

    patch.setattr(promises, "check_may_settle", none)

    async def settle(call: Call, promise: Promise, data: Any) -> Promise:
        settlement = promises.settlement_of(call, data)
        return (await call.store.settle(promise.id, promise.kind, settlement))[0]

    patch.setattr(promises, "_settle", settle)


def forgets_runs_of_servers_that_have_ended(patch: pytest.MonkeyPatch) -> None:
    async def none(*_: Any) -> None:
        pass

    patch.setattr(signoff_groups.SignoffGroups, "_find_suspended", none)


def cancels_no_run_whose_promise_is_settled(patch: pytest.MonkeyPatch) -> None:
    async def none(*_: Any) -> None:
        pass

    patch.setattr(signoff_groups, "_finish", none)


def runs_steps_that_are_settled(patch: pytest.MonkeyPatch) -> None:
    create = Execution._create

    async def blind(self: Execution, id: str, node: Any) -> Any:
        record = await create(self, id, node)
        return {**record, "state": "pending"}

    patch.setattr(Execution, "_create", blind)


def counts_failed_posts_as_received(patch: pytest.MonkeyPatch) -> None:
    post = Push._post

    async def always(self: Push, url: str, body: bytes, posted: Callable[[], None]) -> None:
        await post(self, url, body, posted)
        posted()

    patch.setattr(Push, "_post", always)


def sends_no_settled_promise_to_subscribers(patch: pytest.MonkeyPatch) -> None:
    event_of = legacy_messages.event_of
    patch.setattr(
        legacy_messages, "event_of", lambda message: event_of(message) if message.task else b": nothing\n\n"
    )


def forgets_the_invocations_of_its_runs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(function_calls, "is_call_of", lambda *_: False)


def leaves_the_invocations_of_cancelled_runs(patch: pytest.MonkeyPatch) -> None:
    async def none(*_: Any) -> None:
        pass

    patch.setattr(function_calls.FunctionCalls, "_cancel", none)
    patch.setattr(function_groups, "_cancel_abandoned", none)


def advances_a_schedule_before_it_creates(patch: pytest.MonkeyPatch) -> None:
    async def fire(store: Store, due: Due) -> bool:
        schedule = await store.get_promise_schedule(due.id)
        if schedule.next_at == due.at:
            await store.advance_promise_schedule(schedule.id, due.at, due.at + 60, due.at)
            await store.open_invocation(schedules._invocation(schedule, due.at))
        return True

    patch.setattr(schedules, "_fire", fire)


def schedules_of_2024_have_no_target(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(legacy_schedules, "TARGET", "another tag")


SERVERS: dict[Callable[[pytest.MonkeyPatch], None], Faults | None] = dict.fromkeys(
    (
        shows_promises_as_timed_out_too_early,
        lets_programs_answer_questions,
        forgets_runs_of_servers_that_have_ended,
        cancels_no_run_whose_promise_is_settled,
        runs_steps_that_are_settled,
        counts_failed_posts_as_received,
        sends_no_settled_promise_to_subscribers,
        forgets_the_invocations_of_its_runs,
        leaves_the_invocations_of_cancelled_runs,
        advances_a_schedule_before_it_creates,
        schedules_of_2024_have_no_target,
    )
)
SERVERS[sends_no_settled_promise_to_subscribers] = Faults()
SERVERS[advances_a_schedule_before_it_creates] = Faults(unavailable=0.3)
