"""The operations on tasks in the protocol of 2024."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request as HttpRequest

from signoff.errors import NotFound, TaskConflict
from signoff.records import Promise
from signoff.records.tasks import TaskRef, TaskState
from signoff.server.resonate.call import Call
from signoff.server.resonate.legacy.errors import WRONG_STATE, LegacyRefusal
from signoff.server.resonate.legacy.records import to_legacy_record
from signoff.server.resonate.legacy.requests import ClaimTask, CompleteTask, Heartbeat
from signoff.server.resonate.protocol import Reply
from signoff.server.resonate.tasks import check_group


async def claim(call: Call, _: HttpRequest, data: ClaimTask) -> Reply:
    """Acquire a task: with the promise that resumed it, or none if its function is to be invoked."""
    await check_group(call, data.id)
    try:
        found = await call.store.acquire_task(TaskRef(data.id, data.counter - 1), data.lease, takes_one=True)
    except TaskConflict as conflict:
        raise LegacyRefusal.of_task(conflict) from None
    leaf = await _leaf(call, found.resumes)
    promises = {"root": _shown(found.promise)}
    if leaf is None:
        return Reply({"type": "invoke", "promises": promises}, 201)
    return Reply({"type": "resume", "promises": {**promises, "leaf": _shown(leaf)}}, 201)


async def complete(call: Call, _: HttpRequest, data: CompleteTask) -> Reply:
    """Suspend a task until a promise is settled for which its process has registered a callback."""
    await check_group(call, data.id)
    try:
        await call.store.suspend_task(TaskRef(data.id, data.counter), ())
    except TaskConflict as conflict:
        if not await _was_completed(call, data, conflict):
            raise _refusal(data, conflict) from None
        return Reply(data.model_dump())
    return Reply(data.model_dump(), 201)


async def drop(call: Call, _: HttpRequest, data: CompleteTask) -> Reply:
    """Give a claimed task back: it is sent again."""
    await check_group(call, data.id)
    try:
        await call.store.release_task(TaskRef(data.id, data.counter))
    except TaskConflict as conflict:
        raise _refusal(data, conflict) from None
    return Reply({})


async def heartbeat(call: Call, _: HttpRequest, data: Heartbeat) -> Reply:
    """Extend the leases of all tasks of a process."""
    held = await _held(call, data.process_id) if call.sender.is_for_groups else None
    return Reply({"tasksAffected": await call.store.heartbeat_tasks(data.process_id, held)})


async def _held(call: Call, process_id: str) -> list[TaskRef]:
    """Return the tasks of a process that a key for some groups may extend."""
    held: list[TaskRef] = []
    after: str | None = None
    while True:
        page = await call.store.list_tasks(pid=process_id, after=after, limit=1000)
        held += [
            TaskRef(task.id, task.version) for task in page.items if call.sender.sees_target(task.target)
        ]
        after = page.next
        if after is None:
            return held


async def _was_completed(call: Call, data: CompleteTask, conflict: TaskConflict) -> bool:
    """Whether a task was completed before, so that the request is a repetition.

    A pending task with this counter may also be one whose lease has expired. If a promise has resumed it, both come to
    the same: it is sent again.
    """
    if conflict.state in (TaskState.SUSPENDED, TaskState.FULFILLED):
        return True
    if conflict.state != TaskState.PENDING or conflict.version != data.counter:
        return False
    return bool((await call.store.get_task(data.id)).resumes)


def _refusal(data: CompleteTask, conflict: TaskConflict) -> LegacyRefusal:
    if conflict.state == TaskState.PENDING:
        return LegacyRefusal(WRONG_STATE, f"task {data.id!r} is not claimed")
    if conflict.state == TaskState.ACQUIRED:
        return LegacyRefusal.wrong_counter(conflict)
    return LegacyRefusal.of_task(conflict)


async def _leaf(call: Call, resumes: tuple[str, ...]) -> Promise | None:
    if not resumes:
        return None
    try:
        return await call.store.get_promise(resumes[0])
    except NotFound:  # it was deleted meanwhile
        return None


def _shown(promise: Promise) -> dict[str, Any]:
    return {"id": promise.id, "data": to_legacy_record(promise)}
