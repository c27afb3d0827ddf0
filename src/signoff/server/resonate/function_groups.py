"""Groups of processes on a Resonate SDK, as groups of workers for the runs of Signoff.

A server serves a group for which processes poll, or have polled since it started, and a group in which a run waits that
it or another server has begun. It runs a worker for the runs of the group, see ``function_calls``. A name that a worker
of Signoff has announced in the group is a workflow of that worker, and left to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from signoff.engine.worker.worker import Worker
from signoff.errors import NotFound
from signoff.records import Run, RunState
from signoff.records.paging import RunFilter, WorkflowFilter
from signoff.records.tasks import TaskState
from signoff.runtime.event_waits import wait_at_most
from signoff.runtime.loggers import own_logger
from signoff.server.resonate.addresses import ANY, PollAddress, read_address
from signoff.server.resonate.function_calls import (
    FunctionCalls,
    cancel,
    is_call_of,
    is_function_worker,
    new_function_worker,
    promise_of,
    run_id_of,
)
from signoff.server.resonate.isolated import isolated
from signoff.stores.contract.store import Change, Store

NewWorker = Callable[[Store, FunctionCalls, str], Worker]
"""Returns a worker that calls the functions of a group."""

log = own_logger("signoff.server")

LOOK_SECONDS: Final = 5.0
"""How often all is looked at, besides each time that a run becomes ready."""

POLLED_SECONDS: Final = 0.25
"""How often the connections are looked at. They are in memory."""

AFTER_LOOK: Final = 10
"""A look is followed by a pause of this many times its length: it takes a tenth of the time at most."""

IDLE_SECONDS: Final = 60.0
"""How long a worker without runs is kept."""

MOST_NAMES: Final = 1000
"""Names of functions that are known in one group. They are found again when their runs are ready."""

MOST_GROUPS: Final = 1000
"""Groups that are remembered in one namespace, besides those that are polled now."""

AT_ONCE: Final = 100
CALLS_AT_ONCE: Final = 1000

_WAITS: Final = "runs for groups of Resonate workers"


@dataclass
class _Served:
    """A worker for the runs of a group."""

    calls: FunctionCalls
    worker: Worker
    task: asyncio.Task[None]
    busy_at: float


@dataclass
class _Place:
    """A namespace.

    Attributes:
        new_worker: Makes the workers.
        groups: The groups that processes have polled for, or in which a run was begun, the latest last.
        polled: The number of groups that are polled now.
        mixed: The groups with workers of Signoff, too, that were warned about.
        after: Where the next page of ready runs begins, by group; "" for all groups.
        calls_after: Where the next page of open tasks begins, by state.
    """

    store: Store
    stop: Callable[[], None]
    new_worker: NewWorker
    groups: dict[str, None] = field(default_factory=dict[str, None])
    polled: int = 0
    mixed: set[str] = field(default_factory=set[str])
    served: dict[str, _Served] = field(default_factory=dict[str, _Served])
    after: dict[str, str] = field(default_factory=dict[str, str])
    calls_after: dict[TaskState, str | None] = field(default_factory=dict[TaskState, "str | None"])


class FunctionGroups:
    """Serves the runs of groups of processes on a Resonate SDK.

    Args:
        store: A store of the database; its namespace does not matter.
        polled: Returns the groups for which processes poll this server, by namespace.
        new_worker: Makes a worker for a group. A simulation makes others.

    Example::

        groups = FunctionGroups(store, lambda: deliveries.groups)
        serving = asyncio.create_task(groups.serve())
    """

    def __init__(
        self,
        store: Store,
        polled: Callable[[], Mapping[str, Iterable[str]]],
        new_worker: NewWorker = new_function_worker,
    ) -> None:
        self._store = store
        self._polled = polled
        self._new_worker = new_worker
        self._changed = asyncio.Event()
        self._places: dict[str, _Place] = {}

    async def serve(self) -> None:
        """Serve until cancelled. A failure is logged, and tried again."""
        self._listen(self._store.namespace)
        loop = asyncio.get_running_loop()
        looked_at = float("-inf")
        try:
            while True:
                began = loop.time()
                has_changed = self._changed.is_set()
                self._changed.clear()
                is_look = began >= looked_at + LOOK_SECONDS
                if is_look:
                    looked_at = began
                is_new = self._note_polled()
                if is_look or is_new or has_changed:
                    await isolated(self._look(is_look=is_look), _WAITS)
                await asyncio.sleep(min(AFTER_LOOK * (loop.time() - began), LOOK_SECONDS))
                await wait_at_most(POLLED_SECONDS, self._changed)
        finally:
            await self._close()

    def _listen(self, namespace: str) -> _Place:
        loop = asyncio.get_running_loop()
        store = self._store.within(namespace)

        def noticed(change: Change) -> None:
            if change.ready or change.runs is None:
                with suppress(RuntimeError):  # the server's loop is closed
                    loop.call_soon_threadsafe(self._changed.set)

        place = self._places[namespace] = _Place(store, store.listen(noticed), self._new_worker)
        return place

    def _note_polled(self) -> bool:
        """Remember the groups that are polled. Returns whether one is new."""
        is_new = False
        for namespace, groups in self._polled().items():
            place = self._places.get(namespace) or self._listen(namespace)
            polled = [*groups]
            place.polled = len(polled)
            for group in polled:
                is_new |= _remember(place, group)
        return is_new

    async def _look(self, *, is_look: bool) -> None:
        polled = self._polled()
        if is_look:
            for worker in await self._store.list_workers():
                place = self._places.get(worker.namespace) or self._listen(worker.namespace)
                if worker.group in polled.get(worker.namespace, ()) and not is_function_worker(worker):
                    _warn_of_mixed(place, worker.group)
        for place in [*self._places.values()]:
            if is_look:
                await isolated(_cancel_abandoned(place), _WAITS)
                await isolated(_find_begun(place), _WAITS)
            now = {*polled.get(place.store.namespace, ()), *place.served}
            for group in [*place.groups]:
                if is_look or group in now:
                    await isolated(_serve_group(place, group), _WAITS)
            await _end_idle(place)

    async def _close(self) -> None:
        for place in self._places.values():
            place.stop()
            await asyncio.gather(*(_end(place, group) for group in [*place.served]))


def _remember(place: _Place, group: str) -> bool:
    """Note a group as one of processes on an SDK. Returns whether it is new."""
    address = read_address(f"poll://{ANY}@{group}")
    if not isinstance(address, PollAddress) or address.group != group:
        return False  # no message is sent there
    is_new = group not in place.groups
    place.groups.pop(group, None)
    place.groups[group] = None
    while len(place.groups) > MOST_GROUPS + place.polled:  # those that are polled are the latest
        del place.groups[next(iter(place.groups))]
    return is_new


def _warn_of_mixed(place: _Place, group: str) -> None:
    """Warn once that a group has workers of both kinds."""
    if group in place.mixed:
        return
    place.mixed.add(group)
    log.warning(
        "group %r of namespace %r has workers of Signoff and processes on a Resonate SDK: a message goes to "
        "whichever is first, so calls may wait. Give one of them another group",
        group,
        place.store.namespace,
    )


async def _serve_group(place: _Place, group: str) -> None:
    """Have the runs claimed that are ready in a group."""
    names = {run.workflow for run in await _ready(place, group)}
    served = place.served.get(group)
    if served is not None and served.task.done():
        if asyncio.get_running_loop().time() < served.busy_at + LOOK_SECONDS:
            return  # it has failed just now
        await _end(place, group)
        served = None
    if served is None:
        if not names:
            return
        served = place.served[group] = _begin(place, group)
    if names:
        served.busy_at = asyncio.get_running_loop().time()
        known = served.calls.called if len(served.calls.called) < MOST_NAMES else frozenset[str]()
        served.calls.called = (known | names) - await _announced(place.store, group)
        if not served.calls.called <= known:
            served.worker.claim_again()


def _begin(place: _Place, group: str) -> _Served:
    calls = FunctionCalls(place.store, group)
    worker = place.new_worker(place.store, calls, group)
    name = f"signoff resonate functions {place.store.namespace} {group}"
    task = asyncio.create_task(worker.run(), name=name)
    return _Served(calls, worker, task, asyncio.get_running_loop().time())


async def _end_idle(place: _Place) -> None:
    now = asyncio.get_running_loop().time()
    for group, served in [*place.served.items()]:
        if served.worker.held:
            served.busy_at = now
        elif now >= served.busy_at + IDLE_SECONDS:
            await _end(place, group)


async def _end(place: _Place, group: str) -> None:
    task = place.served[group].task
    if not task.cancelling():  # else it is leaving already
        task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("the worker for functions of group %r has ended: %s", group, error)
    del place.served[group]


async def _ready(place: _Place, group: str | None = None) -> list[Run]:
    """Return the newest ready runs, and each time another page of the others."""
    which = RunFilter(states=frozenset({RunState.READY}), group=group)
    page = await place.store.list_runs(which, limit=AT_ONCE)
    runs = [*page.items]
    if page.next is not None:
        after = place.after.get(group or "", page.next)
        page = await place.store.list_runs(which, after=after, limit=AT_ONCE)
        runs += page.items
    place.after.pop(group or "", None)
    if page.next is not None:
        place.after[group or ""] = page.next
    return runs


async def _announced(store: Store, group: str) -> set[str]:
    """Return the names of the workflows that workers of Signoff have announced in a group."""
    names: set[str] = set()
    after: str | None = None
    while True:
        page = await store.list_workflows(WorkflowFilter(group=group), after=after, limit=1000)
        names |= {each.name for each in page.items}
        after = page.next
        if after is None:
            return names


async def _find_begun(place: _Place) -> None:
    """Remember the groups of ready runs that a server has begun: their processes may be gone, and the runs must end."""
    for run in await _ready(place):
        if run.epoch == 0 or run.group in place.groups:
            continue
        if await promise_of(place.store, run) is not None:
            _remember(place, run.group)


async def _cancel_abandoned(place: _Place) -> None:
    """Cancel the promises of runs that have ended without their code, on a page of the open tasks.

    An operator has terminated them, or the grace period after their deadline has passed.
    """
    for state in (TaskState.PENDING, TaskState.ACQUIRED, TaskState.SUSPENDED, TaskState.HALTED):
        page = await place.store.list_tasks(
            state=state, after=place.calls_after.get(state), limit=CALLS_AT_ONCE
        )
        place.calls_after[state] = page.next
        runs = {task.id: task.id.rpartition("~")[0] or task.id for task in page.items}
        if not runs:
            continue
        ended = await place.store.ended(sorted({*runs, *runs.values()}))
        for task_id, run_id in runs.items():
            if not ended.isdisjoint((task_id, run_id)):
                await isolated(_cancel_call(place.store, task_id), _WAITS)


async def _cancel_call(store: Store, promise_id: str) -> None:
    """Cancel a promise if a run has opened it that has ended. One that failed retryably may continue."""
    with suppress(NotFound):
        promise = await store.get_promise(promise_id)
        opened_by = run_id_of(promise)
        if opened_by is None:
            return
        run = await store.get_run(opened_by)
        if is_call_of(promise, run) and run.state.is_final and not run.retryable:
            await cancel(store, promise)
