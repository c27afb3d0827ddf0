"""The kinds of requests: the model of their data, and the operation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from signoff.server.resonate import debug, promises, requests, schedules, searches, tasks
from signoff.server.resonate.call import Call
from signoff.server.resonate.protocol import Reply


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of the protocol.

    Attributes:
        data: The model of its data.
        perform: Performs it.
        reads: Whether it only reads.
    """

    data: type[BaseModel]
    perform: Callable[[Call, Any], Awaitable[Reply]]
    reads: bool = False


OPERATIONS: Final[Mapping[str, Operation]] = {
    "promise.get": Operation(requests.ById, promises.get, reads=True),
    "promise.create": Operation(requests.CreatePromise, promises.create),
    "promise.settle": Operation(requests.SettlePromise, promises.settle),
    "promise.register_callback": Operation(requests.RegisterCallback, promises.register_callback),
    "promise.register_listener": Operation(requests.RegisterListener, promises.register_listener),
    "promise.search": Operation(requests.SearchPromises, searches.search_promises, reads=True),
    "task.get": Operation(requests.ById, tasks.get, reads=True),
    "task.create": Operation(requests.CreateTask, tasks.create),
    "task.acquire": Operation(requests.AcquireTask, tasks.acquire),
    "task.release": Operation(requests.TaskVersion, tasks.release),
    "task.fulfill": Operation(requests.FulfillTask, tasks.fulfill),
    "task.suspend": Operation(requests.SuspendTask, tasks.suspend),
    "task.fence": Operation(requests.FenceTask, tasks.fence),
    "task.heartbeat": Operation(requests.Heartbeat, tasks.heartbeat),
    "task.halt": Operation(requests.ById, tasks.halt),
    "task.continue": Operation(requests.ById, tasks.resume),
    "schedule.get": Operation(requests.ById, schedules.get, reads=True),
    "schedule.create": Operation(requests.CreateSchedule, schedules.create),
    "schedule.delete": Operation(requests.ById, schedules.delete),
    "schedule.search": Operation(requests.SearchSchedules, schedules.search, reads=True),
    "task.search": Operation(requests.SearchTasks, searches.search_tasks, reads=True),
    "debug.start": Operation(requests.Nothing, debug.start),
    "debug.stop": Operation(requests.Nothing, debug.stop),
    "debug.tick": Operation(requests.Tick, debug.tick),
    "debug.reset": Operation(requests.Nothing, debug.reset),
}
