"""Promises and tasks as the protocol of 2024 shows them."""

from __future__ import annotations

from typing import Any

from signoff.records import Promise
from signoff.records.tasks import Task, TaskState
from signoff.server.resonate.durable_promises import details_of, to_record


def to_legacy_record(promise: Promise) -> dict[str, Any]:
    """Return a promise as the protocol shows it."""
    record = to_record(promise)
    shown: dict[str, Any] = {
        "id": promise.id,
        "state": record["state"].upper(),
        "param": record["param"],
        "value": record["value"],
        "timeout": record["timeoutAt"],
        "idempotencyKeyForCreate": details_of(promise).key,
        "idempotencyKeyForComplete": promise.request_id,
        "tags": record["tags"],
        "createdOn": record["createdAt"],
        "completedOn": record.get("settledAt"),
    }
    return {name: value for name, value in shown.items() if value is not None}


def to_legacy_task(task: Task, timeout: int) -> dict[str, Any]:
    """Return a task as the protocol shows it."""
    record = {"id": task.id, "rootPromiseId": task.id, "counter": counter_of(task), "timeout": timeout}
    return record if task.pid is None else {**record, "processId": task.pid}


def counter_of(task: Task) -> int:
    """Return the counter of a task: its version, or the one that its next acquisition gives it."""
    return task.version + 1 if task.state is TaskState.PENDING else task.version
