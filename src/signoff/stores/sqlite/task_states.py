"""The states of tasks in SQLite, and what settling a promise does to them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from signoff.errors import NotFound
from signoff.records import Promise
from signoff.records.tasks import Task, TaskState, queue_of
from signoff.stores.sqlite.transaction import Transaction

COLUMNS: Final = "namespace, id, state, target, version, resumes, pid, ttl"

GET = f"SELECT {COLUMNS} FROM tasks WHERE namespace = ? AND id = ?"

# Give up the lease. A task that becomes pending is sent at once.
MOVE = """
UPDATE tasks
SET state = :state, pid = NULL, ttl = NULL, lease_until = NULL, resumes = coalesce(:resumes, resumes),
    send_at = CASE WHEN :state = 'pending' THEN :now END,
    target = coalesce(:target, target), queue = coalesce(:queue, queue)
WHERE namespace = :namespace AND id = :id
"""

# Whether a promise has a task, an awaiter or a listener. Most have none, and one read is cheaper than three writes.
IS_OF_TASKS = """
SELECT EXISTS (SELECT 1 FROM tasks WHERE namespace = :namespace AND id = :id)
    OR EXISTS (SELECT 1 FROM task_awaits WHERE namespace = :namespace AND awaited = :id)
    OR EXISTS (SELECT 1 FROM promise_listeners WHERE namespace = :namespace AND promise_id = :id)
"""

FULFIL = """
UPDATE tasks
SET state = 'fulfilled', pid = NULL, ttl = NULL, lease_until = NULL, send_at = NULL, resumes = '[]'
WHERE namespace = ? AND id = ? AND state <> 'fulfilled'
"""

SET_RESUMES = "UPDATE tasks SET resumes = ? WHERE namespace = ? AND id = ?"

FREE_EXPIRED = """
UPDATE tasks
SET state = 'pending', pid = NULL, ttl = NULL, lease_until = NULL, send_at = :now
WHERE (namespace, id) IN (
    SELECT namespace, id FROM tasks INDEXED BY tasks_leases
    WHERE state = 'acquired' AND lease_until <= :until
    ORDER BY lease_until LIMIT :limit
)
"""

END_AWAITS_OF = "DELETE FROM task_awaits WHERE namespace = ? AND awaiter = ?"

END_AWAITS_FOR = "DELETE FROM task_awaits WHERE namespace = ? AND awaited = ? RETURNING awaiter, address"

SEND_TO_LISTENERS = (
    "UPDATE promise_listeners SET send_at = ? WHERE namespace = ? AND promise_id = ? AND send_at IS NULL"
)


def to_task(row: Sequence[Any]) -> Task:
    """Return the task of a row."""
    namespace, id, state, target, version, resumes, pid, ttl = row
    return Task(namespace, id, TaskState(state), target, version, tuple(json.loads(resumes)), pid, ttl)


def get_task(db: sqlite3.Connection, namespace: str, task_id: str) -> Task:
    """Return a task. Raises NotFound."""
    row = db.execute(GET, (namespace, task_id)).fetchone()
    if row is None:
        raise NotFound("task", task_id)
    return to_task(row)


def settled(tx: Transaction, promise: Promise) -> None:
    """Fulfil the task of a settled promise, resume those that await it, and send it to its listeners."""
    namespace, promise_id = promise.namespace, promise.id
    if not tx.db.execute(IS_OF_TASKS, {"namespace": namespace, "id": promise_id}).fetchone()[0]:
        return
    fulfil(tx, namespace, promise_id)
    for awaiter, address in tx.db.execute(END_AWAITS_FOR, (namespace, promise_id)).fetchall():
        row = tx.db.execute(GET, (namespace, awaiter)).fetchone()
        task = None if row is None else to_task(row)
        if task is None or task.state is TaskState.FULFILLED or _is_late(tx, namespace, awaiter):
            continue
        if task.state is TaskState.SUSPENDED:
            move(tx, namespace, awaiter, TaskState.PENDING, resumes=json.dumps([promise_id]), address=address)
        else:
            add_resume(tx, task, promise_id)
    if tx.db.execute(SEND_TO_LISTENERS, (tx.now, namespace, promise_id)).rowcount:
        tx.due = True


def free_expired(tx: Transaction, until: float, limit: int) -> int:
    """Make acquired tasks pending whose leases expired, in all namespaces. Returns their number."""
    freed = tx.db.execute(FREE_EXPIRED, {"now": tx.now, "until": until, "limit": limit}).rowcount
    tx.due = tx.due or freed > 0  # they are sent again
    return freed


def free(tx: Transaction, namespace: str, task_id: str) -> None:
    """Make a task pending whose lease expired."""
    move(tx, namespace, task_id, TaskState.PENDING)


def move(
    tx: Transaction,
    namespace: str,
    task_id: str,
    state: TaskState,
    *,
    resumes: str | None = None,
    address: str | None = None,
) -> None:
    """Change the state of a task that no process holds any longer."""
    values = {
        "namespace": namespace,
        "id": task_id,
        "state": state.value,
        "resumes": resumes,
        "now": tx.now,
        "target": address,
        "queue": None if address is None else queue_of(address),
    }
    tx.db.execute(MOVE, values)
    tx.due = True


def add_resume(tx: Transaction, task: Task, promise_id: str) -> None:
    """Note a settled promise for the next acquisition of a task."""
    resumes = json.dumps(list(dict.fromkeys([*task.resumes, promise_id])))
    tx.db.execute(SET_RESUMES, (resumes, task.namespace, task.id))


def fulfil(tx: Transaction, namespace: str, task_id: str) -> None:
    """End the task of a settled promise, if it has one."""
    if tx.db.execute(FULFIL, (namespace, task_id)).rowcount:
        tx.db.execute(END_AWAITS_OF, (namespace, task_id))


def _is_late(tx: Transaction, namespace: str, promise_id: str) -> bool:
    """Whether the deadline of a promise has passed."""
    query = "SELECT due_at <= ? FROM promises WHERE namespace = ? AND id = ?"
    row = tx.db.execute(query, (tx.now, namespace, promise_id)).fetchone()
    return row is not None and bool(row[0])
