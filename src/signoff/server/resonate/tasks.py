"""The operations ``task.*``."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from signoff.errors import IdConflict, InvalidValue, NotFound
from signoff.records import Promise, PromiseState
from signoff.records.tasks import Invocation, Task, TaskLease, TaskRef, TaskState
from signoff.server.resonate import promises
from signoff.server.resonate.call import Call
from signoff.server.resonate.durable_promises import details_of, to_record
from signoff.server.resonate.protocol import Refusal, Reply, to_envelope
from signoff.server.resonate.requests import (
    BRANCH,
    AcquireTask,
    ById,
    CreateAction,
    CreateTask,
    FenceTask,
    FulfillTask,
    Heartbeat,
    SuspendTask,
    TaskVersion,
)

DONE: Final = Reply({})

MOST_AT_ONCE: Final = 10
"""How often a task may be acquired before a release is delayed."""

DELAY_SECONDS: Final = 0.05
"""The delay of a release for each further acquisition."""

LONGEST_DELAY_SECONDS: Final = 1.0

MOST_PRELOADED: Final = 1000
"""Maximum number of promises of a branch that are returned with a task."""


async def get(call: Call, data: ById) -> Reply:
    """Show a task. It is fulfilled once its promise is settled."""
    task = await _known(call, data.id)
    if task.state is not TaskState.FULFILLED:
        promise = await promises.current(call, await call.store.get_promise(task.id))
        if promise.state is not PromiseState.PENDING:
            task = replace(task, state=TaskState.FULFILLED, resumes=(), pid=None, ttl=None)
    return Reply({"task": to_task_record(task)})


async def create(call: Call, data: CreateTask) -> Reply:
    """Create a promise whose task its creator acquires; or acquire the task with this id, if it is pending."""
    action = data.action.data
    lease = TaskLease(data.pid, data.ttl)
    call.sender.check_target(f"task {action.id!r}", action.target or "")
    await promises.check_task(call, action.id)  # a known task keeps its target
    new = await promises.new_invocation(call, action, lease=lease)
    try:
        invocation = await call.store.open_invocation(new)
    except (IdConflict, InvalidValue):
        raise Refusal(
            422, f"promise {action.id!r} exists without a resonate:target tag: it has no task"
        ) from None
    return await _acquired(call, invocation)


async def acquire(call: Call, data: AcquireTask) -> Reply:
    """Acquire a pending task."""
    await check_group(call, data.id)
    invocation = await call.store.acquire_task(_ref(data), TaskLease(data.pid, data.ttl))
    call.acquired(data.id, data.pid)
    return await _acquired(call, invocation)


async def release(call: Call, data: TaskVersion) -> Reply:
    """Give an acquired task back. One that was acquired often is sent again later: no process may have its function."""
    await check_group(call, data.id)
    if data.version > MOST_AT_ONCE:
        task = await call.store.get_task(data.id)
        if (task.state, task.version) == (TaskState.ACQUIRED, data.version):
            excess = data.version - MOST_AT_ONCE
            await asyncio.sleep(min(excess * DELAY_SECONDS, LONGEST_DELAY_SECONDS))
    await call.store.release_task(_ref(data))
    return DONE


async def fulfill(call: Call, data: FulfillTask) -> Reply:
    """Settle the promise of an acquired task."""
    await check_group(call, data.id)
    settlement = promises.settlement_of(call, data.action.data)
    return promises.shown(await call.store.settle_held(_ref(data), data.id, settlement))


async def suspend(call: Call, data: SuspendTask) -> Reply:
    """Suspend an acquired task until one of the awaited promises is settled: 300 if one is settled already."""
    await check_group(call, data.id)
    awaited = list(dict.fromkeys(action.data.awaited for action in data.actions))
    try:
        is_suspended = await call.store.suspend_task(_ref(data), awaited)
    except InvalidValue as error:
        raise Refusal(422, f"awaited promise: {error.reason}") from None
    if is_suspended:
        return DONE
    return Reply({"preload": await _preload(call, data.id)}, 300)


async def fence(call: Call, data: FenceTask) -> Reply:
    """Create or settle a promise in the name of an acquired task.

    Its process has the other promises of the task since it acquired it, so none are returned.
    """
    await check_group(call, data.id)
    inner = await _perform(call, data)
    return Reply({"action": to_envelope(data.action.kind, call.correlation_id, inner), "preload": []})


async def heartbeat(call: Call, data: Heartbeat) -> Reply:
    """Extend the leases of tasks that a process holds."""
    for task in data.tasks:
        await promises.check_task(call, task.id)
    held = [TaskRef(task.id, task.version) for task in data.tasks]
    await call.store.heartbeat_tasks(data.pid, held)
    return DONE


async def halt(call: Call, data: ById) -> Reply:
    """Stop a task until it is continued."""
    await check_group(call, data.id)
    await call.store.halt_task(data.id)
    return DONE


async def resume(call: Call, data: ById) -> Reply:
    """Send a halted task again."""
    await check_group(call, data.id)
    await call.store.continue_task(data.id)
    return DONE


async def check_group(call: Call, task_id: str) -> None:
    """Raise AccessDenied if the sender has a worker key for some groups, and the task is for another one."""
    if call.sender.is_for_groups:
        await _known(call, task_id)


def to_task_record(task: Task) -> dict[str, Any]:
    """Return a task as the protocol shows it."""
    record: dict[str, Any] = {
        "id": task.id,
        "state": task.state.value,
        "version": task.version,
        "resumes": len(task.resumes),
    }
    lease = {"ttl": task.ttl, "pid": task.pid}
    return {**record, **{name: value for name, value in lease.items() if value is not None}}


async def _perform(call: Call, data: FenceTask) -> Reply:
    action, holder = data.action, _ref(data)
    if isinstance(action, CreateAction):
        try:
            new = await promises.new_invocation(call, action.data, holder=holder)
            return promises.shown_invocation(await call.store.open_invocation(new), action.data)
        except IdConflict:  # a question, or the promise of a run
            return promises.shown(await promises.known(call, action.data.id))
    settlement = promises.settlement_of(call, action.data)
    promise: Promise | None = None
    with suppress(Refusal):  # there is none: the store checks the task first
        promise = await promises.known(call, action.data.id)
    if promise is not None and promise.state is PromiseState.PENDING:
        await promises.check_may_settle(call, promise, settlement)
    try:
        return promises.shown(await call.store.settle_held(holder, action.data.id, settlement))
    except NotFound as error:
        if error.noun == "task":
            raise
        return Reply(f"there is no promise {action.data.id!r}", 404)


async def _acquired(call: Call, invocation: Invocation) -> Reply:
    if invocation.task is None:  # it asks people a question
        raise Refusal(422, f"promise {invocation.promise.id!r} has no task: a person answers it")
    reply = {
        "task": to_task_record(invocation.task),
        "promise": to_record(invocation.promise),
        "preload": await _preload_of(call, invocation.promise),
    }
    return Reply(reply)


async def _preload(call: Call, promise_id: str) -> list[dict[str, Any]]:
    return await _preload_of(call, await call.store.get_promise(promise_id))


async def _preload_of(call: Call, promise: Promise) -> list[dict[str, Any]]:
    """Return the other promises of a promise's branch and those that its task created.

    Its process need not ask for them then: a replay makes no request for what it has created before.
    """
    branch = details_of(promise).tags.get(BRANCH)
    if not branch:
        return []
    found = await call.store.list_branch(branch, limit=MOST_PRELOADED)
    return [to_record(each) for each in found if each.id != promise.id]


async def _known(call: Call, task_id: str) -> Task:
    task = await call.store.get_task(task_id)
    call.sender.check_target(f"task {task_id!r}", task.target)
    return task


def _ref(data: TaskVersion) -> TaskRef:
    return TaskRef(data.id, data.version)
