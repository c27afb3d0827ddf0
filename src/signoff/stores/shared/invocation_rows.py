"""Rows of call trees, which are the same in SQLite and Postgres: a promise, its task, and what exists beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from signoff.records import Promise
from signoff.records.invocations import InvocationNode
from signoff.records.tasks import Task
from signoff.stores.shared.listed_payloads import Listing

TASK: Final = (
    "task_namespace, task_id, task_state, task_target, task_version, task_resumes, task_pid, task_ttl"
)
"""The columns of a task that stands beside its promise; null if there is none."""

OWN_OF_TASK: Final = """namespace AS task_namespace, id AS task_id, state AS task_state, target AS task_target,
    version AS task_version, resumes AS task_resumes, pid AS task_pid, ttl AS task_ttl"""

_WIDTH: Final = 8

Row = Sequence[Any]


def node_reader(
    listing: Listing, to_promise: Callable[[Any], Promise], to_task: Callable[[Any], Task]
) -> Callable[[Row], InvocationNode]:
    """Return the reader of rows: the columns of a listed promise, ``TASK``, and two that say what exists.

    Args:
        listing: Lists promises.
        to_promise: Reads a promise.
        to_task: Reads a task.
    """

    def read(row: Row) -> InvocationNode:
        task = row[listing.width : listing.width + _WIDTH]
        has_run, has_calls = row[listing.width + _WIDTH : listing.width + _WIDTH + 2]
        return InvocationNode(
            listing.read(row, to_promise),
            None if task[1] is None else to_task(tuple(task)),
            bool(has_run),
            bool(has_calls),
        )

    return read
