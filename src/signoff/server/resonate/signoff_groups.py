"""Groups of Signoff workers as targets of the durable promise protocol.

A task whose target is such a group starts a run of the workflow that it names. The run has the promise's id, arguments
and deadline, and settles the promise when it ends. Meanwhile the task is suspended. If the promise is settled first, by
a deadline or a cancellation, the run is cancelled.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Container
from contextlib import suppress
from typing import Any, Final

from signoff.codec.strict_json import read_object
from signoff.errors import AlreadySettled, IdConflict, InvalidValue, NotFound, TaskConflict
from signoff.records import NewRun, Promise, PromiseKind, PromiseState, Run, RunState, Settlement
from signoff.records.paging import RunFilter, WorkflowFilter
from signoff.records.tasks import RESEND_SECONDS, Task, TaskLease, TaskRef, TaskState, queue_of
from signoff.runtime.event_waits import wait_at_most
from signoff.server.resonate.durable_promises import called_by, details_of, rejection
from signoff.server.resonate.function_calls import is_function_worker, run_id_of
from signoff.server.resonate.isolated import isolated
from signoff.stores.contract.store import Change, Store

LOOK_SECONDS: Final = 5.0
"""How often runs and promises are compared, besides each time that a run ends."""

AT_ONCE: Final = 100

MOST_EXAMINED: Final = 1000
"""Suspended tasks that each look examines, to find those of servers that have ended and of groups that were empty."""

RUNS_EXAMINED: Final = 200
"""Open runs that each look examines, to find those whose promises were settled while no server knew their tasks."""

UNANNOUNCED_SECONDS: Final = 1.0
"""How often tasks are looked at whose workflows no worker has announced: a worker is in the list before it does."""

MOST_UNANNOUNCED: Final = 100
"""Such tasks of one namespace that are looked at. The others are sent again after ``RESEND_SECONDS``."""

LEASE: Final = TaskLease("signoff", 5_000)
"""The lease of a task while its run is started. If the server is killed then, another one starts the run after it."""

_OPEN: Final = RunFilter(states=frozenset({RunState.READY, RunState.RUNNING, RunState.PAUSED}))
_WAITS: Final = "tasks for groups of Signoff workers"


class SignoffGroups:
    """Starts runs for the tasks of a database, and settles their promises.

    Args:
        store: A store of the database; its namespace does not matter.

    Example::

        groups = SignoffGroups(store)
        serving = asyncio.create_task(groups.serve())
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._changed = asyncio.Event()
        self._begun: dict[str, set[str]] = {}  # ids of tasks whose runs have not ended, by namespace
        self._examined: dict[str, str | None] = {}  # the last task that a look has examined, by namespace
        self._runs_after: dict[str, str | None] = {}  # where the next page of open runs begins, by namespace
        self._unannounced: dict[
            str, dict[TaskRef, tuple[str, str, float]]
        ] = {}  # group, workflow, since when
        self._ended: dict[str, set[str]] = {}  # ids of runs that have ended since the last look
        self._looked_at = 0.0

    async def serve(self) -> None:
        """Serve until cancelled. A failure is logged, and tried again."""
        loop = asyncio.get_running_loop()
        stop: dict[str, Callable[[], None]] = {}

        def listen(namespace: str) -> None:
            def noticed(change: Change) -> None:
                if change.due or change.ended or change.runs is None:
                    loop.call_soon_threadsafe(self._notice, namespace, change.ended)

            stop[namespace] = self._store.within(namespace).listen(noticed)

        listen(self._store.namespace)  # learns of due tasks of all namespaces
        try:
            while True:
                self._changed.clear()
                is_look = loop.time() >= self._looked_at + LOOK_SECONDS
                if is_look:
                    self._looked_at = loop.time()
                await isolated(self._serve_all(stop, listen, is_look=is_look), _WAITS)
                await wait_at_most(
                    UNANNOUNCED_SECONDS if any(self._unannounced.values()) else LOOK_SECONDS, self._changed
                )
        finally:
            for end in stop.values():
                end()

    async def _serve_all(self, stop: Container[str], listen: Callable[[str], None], *, is_look: bool) -> None:
        """Serve each namespace that has groups, and listen to its changes."""
        found = await self._groups()
        for namespace, groups in found.items():
            if namespace not in stop:
                listen(namespace)
            store = self._store.within(namespace)
            await isolated(self._serve_namespace(store, groups, is_look=is_look), _WAITS)
        for namespace in self._ended.keys() - found.keys():
            del self._ended[namespace]
        for namespace in self._unannounced.keys() - found.keys():
            del self._unannounced[namespace]

    def _notice(self, namespace: str, ended: frozenset[str]) -> None:
        self._ended.setdefault(namespace, set()).update(ended)
        self._changed.set()

    async def _groups(self) -> dict[str, set[str]]:
        """Return the groups that have workers with workflows, by namespace."""
        found: dict[str, set[str]] = {}
        for worker in await self._store.list_workers():
            if not is_function_worker(worker):
                found.setdefault(worker.namespace, set()).add(worker.group)
        return found

    async def _serve_namespace(self, store: Store, groups: set[str], *, is_look: bool) -> None:
        """Start the runs of due tasks, and settle the promises of runs that have ended."""
        queues = {f"poll://any@{group}": group for group in groups}
        begun = self._begun.setdefault(store.namespace, set())
        if is_look:
            await self._find_suspended(store, queues, begun)
            await self._cancel_settled(store, groups, begun)
        await self._send_announced(store)
        while messages := await store.take_task_messages(sorted(queues), AT_ONCE):
            for message in messages:
                if message.task is not None:
                    await isolated(self._begin(store, begun, message.task, queues), _WAITS)
            if len(messages) < AT_ONCE:
                break
        ended = begun & self._ended.pop(store.namespace, set())
        looked_at = sorted(begun if is_look else ended)
        for start in range(0, len(looked_at), AT_ONCE):
            await _finish(store, begun, looked_at[start : start + AT_ONCE])

    async def _begin(self, store: Store, begun: set[str], task: Task, queues: dict[str, str]) -> None:
        """Start the run of a task, and suspend the task until the run ends.

        A task whose function is no workflow of the group stays pending: a worker with it may start. So does one that a
        run has opened, which waits for it: it calls a function of a process on an SDK.
        """
        group = queues[queue_of(task.target)]
        promise = await store.get_promise(task.id)
        called = None if run_id_of(promise) is not None else called_by(details_of(promise))
        if called is None:
            return
        if not await _is_known(store, group, called["func"]):
            waiting = self._unannounced.setdefault(store.namespace, {})
            if len(waiting) < MOST_UNANNOUNCED:
                waiting[TaskRef(task.id, task.version)] = (
                    group,
                    called["func"],
                    asyncio.get_running_loop().time(),
                )
            return
        new = _to_run(promise, called, group)
        try:
            await store.acquire_task(TaskRef(task.id, task.version), LEASE)
            holder = TaskRef(task.id, task.version + 1)
            try:
                await store.create_run(new)
            except (IdConflict, InvalidValue) as error:
                await store.settle_held(holder, task.id, rejection(type(error).__name__, str(error)))
                return
            begun.add(task.id)
            await store.suspend_task(holder, ())
        except (NotFound, TaskConflict):
            pass  # another process has it, or its promise was settled

    async def _send_announced(self, store: Store) -> None:
        """Send tasks again whose workflows have meanwhile been announced."""
        waiting = self._unannounced.get(store.namespace)
        if not waiting:
            return
        old = asyncio.get_running_loop().time() - RESEND_SECONDS
        for ref in [ref for ref, (_, _, since) in waiting.items() if since < old]:
            del waiting[ref]  # it is sent again by itself
        names = {(group, workflow) for group, workflow, _ in waiting.values()}
        known = {each for each in names if await _is_known(store, *each)}
        announced = [ref for ref, (group, workflow, _) in waiting.items() if (group, workflow) in known]
        if announced:
            await store.resend_task_messages(announced, [])
            for ref in announced:
                del waiting[ref]

    async def _find_suspended(self, store: Store, queues: dict[str, str], begun: set[str]) -> None:
        """Add suspended tasks that were sent to these queues: the first time all, then the next ones in turn."""
        is_first = store.namespace not in self._examined
        after = self._examined.get(store.namespace)
        while True:
            page = await store.list_tasks(state=TaskState.SUSPENDED, after=after, limit=MOST_EXAMINED)
            begun |= {task.id for task in page.items if queue_of(task.target) in queues}
            after = self._examined[store.namespace] = page.next
            if after is None or not is_first:
                return

    async def _cancel_settled(self, store: Store, groups: set[str], begun: set[str]) -> None:
        """Cancel runs whose promises were settled while no server knew their tasks, on a page of the open runs."""
        after = self._runs_after.get(store.namespace)
        page = await store.list_runs(_OPEN, after=after, limit=RUNS_EXAMINED)
        self._runs_after[store.namespace] = page.next
        for run in page.items:
            if run.parent_id is None and run.group in groups and run.id not in begun:
                await isolated(_cancel_if_settled(store, run.id), _WAITS)


def _to_run(promise: Promise, called: dict[str, Any], group: str) -> NewRun:
    arguments = json.dumps({"args": called.get("args", []), "kwargs": called.get("kwargs", {})})
    return NewRun(promise.id, called["func"], group, arguments, deadline_at=promise.due_at)


async def _is_known(store: Store, group: str, workflow: str) -> bool:
    return bool((await store.list_workflows(WorkflowFilter(workflow, group), limit=1)).items)


async def _finish(store: Store, begun: set[str], ids: list[str]) -> None:
    """Settle the promises of runs that have ended, and cancel runs whose promises are settled."""
    ended = await store.ended(ids)
    for task_id in ids:
        finish = _settle_ended if task_id in ended else _cancel_fulfilled
        await isolated(finish(store, begun, task_id), _WAITS)


async def _settle_ended(store: Store, begun: set[str], task_id: str) -> None:
    run = await store.get_run(task_id)
    if run.state is RunState.FAILED and run.retryable:  # an operator may retry it
        await _cancel_fulfilled(store, begun, task_id)
        return
    with suppress(AlreadySettled, NotFound):
        await store.settle(task_id, PromiseKind.PROMISE, _settlement(run))
    begun.discard(task_id)


async def _cancel_fulfilled(store: Store, begun: set[str], task_id: str) -> None:
    with suppress(NotFound):
        if (await store.get_task(task_id)).state is TaskState.FULFILLED:
            if run_id_of(await store.get_promise(task_id)) is None:  # else the run waits for the promise
                await _cancel(store, task_id)
            begun.discard(task_id)


async def _cancel_if_settled(store: Store, run_id: str) -> None:
    """Cancel an open run if a task has started it whose promise is settled. Others may have the same id by chance."""
    with suppress(NotFound):
        task = await store.get_task(run_id)
        if task.state is not TaskState.FULFILLED:
            return
        promise, run = await store.get_promise(run_id), await store.get_run(run_id)
        called = None if run_id_of(promise) is not None else called_by(details_of(promise))
        if called is None or queue_of(task.target) != f"poll://any@{run.group}":
            return
        new = _to_run(promise, called, run.group)
        is_its_run = (new.workflow, new.arguments) == (run.workflow, run.arguments)
        if is_its_run and promise.settled_at is not None and run.created_at <= promise.settled_at:
            await _cancel(store, run_id)


async def _cancel(store: Store, run_id: str) -> None:
    await store.cancel(run_id, reason="its promise was settled", by=None)


def _settlement(run: Run) -> Settlement:
    """Return how the promise of a run that has ended is settled."""
    if run.state is RunState.SUCCEEDED:
        return Settlement(PromiseState.RESOLVED, value=run.result)
    record = read_object(run.error)
    name = str(record.get("type", "")).rpartition(":")[2] or "Error"
    return rejection(name, str(record.get("message", "")), is_cancelled=run.state is RunState.CANCELLED)
