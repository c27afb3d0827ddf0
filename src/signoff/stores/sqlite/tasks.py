"""Tasks in SQLite: invocations, their states, and what they await."""

from __future__ import annotations

import functools
import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial
from typing import Any, ParamSpec, TypeVar

from signoff.errors import IdConflict, InvalidValue, NotFound, TaskConflict
from signoff.records import Promise, PromiseState, Settlement
from signoff.records.paging import Page
from signoff.records.tasks import (
    RESEND_SECONDS,
    Invocation,
    Listener,
    NewInvocation,
    Task,
    TaskLease,
    TaskMessage,
    TaskRef,
    TaskState,
    queue_of,
)
from signoff.stores.shared.listed_payloads import PAGE_BYTES, bytes_of, first_of
from signoff.stores.shared.rows import PROMISE_COLUMNS
from signoff.stores.sqlite import promises
from signoff.stores.sqlite import task_states as states
from signoff.stores.sqlite.rows import to_promise
from signoff.stores.sqlite.transaction import Refused, Transaction

P = ParamSpec("P")
T = TypeVar("T")

INSERT = f"""
INSERT INTO tasks (namespace, id, state, target, queue, version, pid, ttl, send_at, lease_until)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
RETURNING {states.COLUMNS}
"""

ACQUIRE = f"""
UPDATE tasks
SET state = 'acquired', version = version + 1, pid = :pid, ttl = :ttl, resumes = :resumes, send_at = NULL,
    lease_until = :lease_until
WHERE namespace = :namespace AND id = :id
RETURNING {states.COLUMNS}
"""

EXTEND = """
UPDATE tasks SET lease_until = :now + ttl / 1000.0
WHERE namespace = :namespace AND id = :id AND version = :version AND pid = :pid AND state = 'acquired'
"""

EXTEND_ALL = """
UPDATE tasks INDEXED BY tasks_by_process SET lease_until = ? + ttl / 1000.0
WHERE namespace = ? AND pid = ? AND state = 'acquired'
"""

AWAIT = """
INSERT INTO task_awaits (namespace, awaited, awaiter, address) VALUES (?, ?, ?, ?)
ON CONFLICT (namespace, awaited, awaiter) DO NOTHING
"""

LISTEN = """
INSERT INTO promise_listeners (namespace, promise_id, address, queue) VALUES (?, ?, ?, ?)
ON CONFLICT DO NOTHING
"""

FINISH = "DELETE FROM promise_listeners WHERE namespace = ? AND promise_id = ? AND address = ? AND send_at IS NOT NULL"

ADD_TO_BRANCH = (
    "INSERT INTO promise_branches (namespace, branch, promise_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
)

LIST_BRANCH = f"""
SELECT {", ".join(f"promises.{column.strip()}" for column in PROMISE_COLUMNS.split(","))}
FROM promise_branches CROSS JOIN promises
    ON promises.namespace = promise_branches.namespace AND promises.id = promise_branches.promise_id
WHERE promise_branches.namespace = :namespace AND branch = :branch
ORDER BY promise_id LIMIT :limit
"""

LIST = f"SELECT {states.COLUMNS} FROM tasks WHERE namespace = ? AND id > ? ORDER BY id LIMIT ?"

LIST_IN_STATE = f"""
SELECT {states.COLUMNS} FROM tasks INDEXED BY tasks_by_state
WHERE namespace = ? AND id > ? AND state = ?
ORDER BY id LIMIT ?
"""

LIST_OF_PROCESS = f"""
SELECT {states.COLUMNS} FROM tasks INDEXED BY tasks_by_process
WHERE namespace = ? AND id > ? AND pid = ? AND state = 'acquired'
ORDER BY id LIMIT ?
"""

TAKE_TASKS = f"""
UPDATE tasks SET send_at = :again_at
WHERE (namespace, id) IN (
    SELECT namespace, id FROM tasks INDEXED BY tasks_to_send
    WHERE namespace = :namespace AND queue = :queue AND state = 'pending' AND send_at <= :now
    ORDER BY send_at LIMIT :limit
)
RETURNING {states.COLUMNS}
"""

DUE_SETTLED = """
SELECT promise_id, address FROM promise_listeners INDEXED BY promise_listeners_to_send
WHERE namespace = :namespace AND queue = :queue AND send_at IS NOT NULL AND send_at <= :now
ORDER BY send_at LIMIT :limit
"""

NEXT_NAMESPACE = """
SELECT min(namespace) FROM (
    SELECT min(namespace) AS namespace FROM tasks INDEXED BY tasks_to_send
    WHERE state = 'pending' AND namespace > :after
    UNION ALL
    SELECT min(namespace) FROM promise_listeners INDEXED BY promise_listeners_to_send
    WHERE send_at IS NOT NULL AND namespace > :after
)
"""

IS_QUEUED = """
SELECT EXISTS (
    SELECT 1 FROM tasks INDEXED BY tasks_to_send
    WHERE namespace = :namespace AND queue = :queue AND state = 'pending'
) OR EXISTS (
    SELECT 1 FROM promise_listeners INDEXED BY promise_listeners_to_send
    WHERE namespace = :namespace AND queue = :queue AND send_at IS NOT NULL
)
"""

RESEND_TASK = """
UPDATE tasks SET send_at = min(send_at, :now)
WHERE namespace = :namespace AND id = :id AND version = :version AND state = 'pending'
"""

RESEND_SETTLED = """
UPDATE promise_listeners SET send_at = min(send_at, :now)
WHERE namespace = :namespace AND promise_id = :id AND address = :address AND send_at IS NOT NULL
"""

SEND_LATER = "UPDATE promise_listeners SET send_at = ? WHERE namespace = ? AND promise_id = ? AND address = ?"


def _keeping_time_outs(perform: Callable[P, T]) -> Callable[P, T | Refused]:
    """Keep the time-outs that an operation has found when it refuses its arguments: it has written nothing else."""

    @functools.wraps(perform)
    def refused(*args: P.args, **kwargs: P.kwargs) -> T | Refused:
        try:
            return perform(*args, **kwargs)
        except (IdConflict, InvalidValue, NotFound) as error:
            return Refused(error)

    return refused


@_keeping_time_outs
def open_invocation(tx: Transaction, namespace: str, new: NewInvocation) -> Invocation | Refused:
    """Create a promise with its task, or return those with this id."""
    if new.holder is not None:
        _time_out(tx, namespace, [new.holder.id])
        if refused := _not_held(tx, namespace, new.holder, "create a promise in the name of"):
            return refused
    promise = promises.insert(tx, namespace, new.promise)
    if promise is None:
        _time_out(tx, namespace, [new.promise.id])
        promise, _ = promises.create_promise(tx, namespace, new.promise, None)
        return _known(tx, namespace, promise, new.lease)
    for branch in {new.branch, new.parent} - {None}:
        tx.db.execute(ADD_TO_BRANCH, (namespace, branch, promise.id))
    task = None
    if new.target is not None:
        task = _insert(tx, namespace, new, new.target)
    late = (
        None if (promise.due_at or math.inf) > tx.now else promises.time_out_late(tx, namespace, promise.id)
    )
    if late is not None:
        task = None if task is None else states.get_task(tx.db, namespace, promise.id)
    return Invocation(late or promise, task, was_created=True)


@_keeping_time_outs
def settle_held(
    tx: Transaction, namespace: str, holder: TaskRef, promise_id: str, settlement: Settlement
) -> Promise | Refused:
    """Settle a promise in the name of an acquired task."""
    _time_out(tx, namespace, {holder.id, promise_id})
    if refused := _not_held(tx, namespace, holder, "settle a promise in the name of"):
        return refused
    promise = promises.get_promise(tx.db, namespace, promise_id)
    if promise.state is PromiseState.PENDING:
        settled = promises.settle(tx, namespace, promise_id, promise.kind, settlement, None)
        if isinstance(settled, Refused):
            return settled
        promise, _ = settled
    return promise


@_keeping_time_outs
def acquire_task(
    tx: Transaction, namespace: str, ref: TaskRef, lease: TaskLease, takes_one: bool
) -> Invocation | Refused:
    """Acquire a pending task."""
    _time_out(tx, namespace, [ref.id])
    task = states.get_task(tx.db, namespace, ref.id)
    if task.state is not TaskState.PENDING or task.version != ref.version:
        return _conflict(task, "acquire")
    taken = task.resumes[:1] if takes_one else task.resumes
    acquired = _acquire(tx, task, lease, task.resumes[len(taken) :])
    return Invocation(promises.get_promise(tx.db, namespace, ref.id), acquired, resumes=taken)


@_keeping_time_outs
def release_task(tx: Transaction, namespace: str, ref: TaskRef) -> Refused | None:
    """Give an acquired task back."""
    _time_out(tx, namespace, [ref.id])
    if refused := _not_held(tx, namespace, ref, "release"):
        return refused
    states.move(tx, namespace, ref.id, TaskState.PENDING)
    return None


@_keeping_time_outs
def suspend_task(tx: Transaction, namespace: str, ref: TaskRef, awaited: Sequence[str]) -> bool | Refused:
    """Suspend an acquired task until one of the awaited promises is settled."""
    _time_out(tx, namespace, [ref.id, *awaited])
    if refused := _not_held(tx, namespace, ref, "suspend"):
        return refused
    if not awaited:
        resumes = states.get_task(tx.db, namespace, ref.id).resumes
        states.move(tx, namespace, ref.id, TaskState.PENDING if resumes else TaskState.SUSPENDED)
        return not resumes
    found = {promise_id: _state_of(tx, namespace, promise_id) for promise_id in awaited}
    if (missing := next((id for id, state in found.items() if state is None), None)) is not None:
        raise InvalidValue("awaited", f"there is no promise {missing!r}")
    if any(state != PromiseState.PENDING for state in found.values()):
        tx.db.execute(states.SET_RESUMES, ("[]", namespace, ref.id))
        return False
    for promise_id in awaited:
        tx.db.execute(AWAIT, (namespace, promise_id, ref.id, None))
    states.move(tx, namespace, ref.id, TaskState.SUSPENDED, resumes="[]")
    return True


def heartbeat_tasks(tx: Transaction, namespace: str, pid: str, tasks: Sequence[TaskRef] | None) -> int:
    """Extend the leases of tasks that a process holds."""
    if tasks is None:
        return tx.db.execute(EXTEND_ALL, (tx.lease_now, namespace, pid)).rowcount
    held = {"namespace": namespace, "pid": pid, "now": tx.lease_now}
    return sum(
        tx.db.execute(EXTEND, {**held, "id": task.id, "version": task.version}).rowcount
        for task in set(tasks)
    )


@_keeping_time_outs
def halt_task(tx: Transaction, namespace: str, task_id: str) -> Refused | None:
    """Stop a task until it is continued."""
    _time_out(tx, namespace, [task_id])
    task = states.get_task(tx.db, namespace, task_id)
    if task.state is TaskState.FULFILLED:
        return _conflict(task, "halt")
    if task.state is not TaskState.HALTED:
        states.move(tx, namespace, task_id, TaskState.HALTED)
    return None


@_keeping_time_outs
def continue_task(tx: Transaction, namespace: str, task_id: str) -> Refused | None:
    """Send a halted task again."""
    _time_out(tx, namespace, [task_id])
    task = states.get_task(tx.db, namespace, task_id)
    if task.state is not TaskState.HALTED:
        return _conflict(task, "continue")
    states.move(tx, namespace, task_id, TaskState.PENDING)
    return None


@_keeping_time_outs
def await_promise(
    tx: Transaction, namespace: str, awaited: str, awaiter: str, address: str | None
) -> Promise:
    """Resume a task once a promise is settled."""
    _time_out(tx, namespace, [awaited, awaiter])
    promise = promises.get_promise(tx.db, namespace, awaited)
    row = tx.db.execute(states.GET, (namespace, awaiter)).fetchone()
    if row is None:
        if address is None or (state := _state_of(tx, namespace, awaiter)) is None:
            raise InvalidValue("awaiter", f"there is no task {awaiter!r}")
        if state != PromiseState.PENDING:
            return promise
        values = (namespace, awaiter, "suspended", address, queue_of(address), 0, None, None, None, None)
        row = tx.db.execute(INSERT, values).fetchone()
    task = states.to_task(row)
    if task.state is TaskState.FULFILLED:
        return promise
    if promise.state is PromiseState.PENDING:
        tx.db.execute(AWAIT, (namespace, awaited, awaiter, address))
    elif task.state is TaskState.SUSPENDED:
        states.move(tx, namespace, awaiter, TaskState.PENDING, address=address)
    elif task.state is not TaskState.HALTED:
        states.add_resume(tx, task, awaited)
    return promise


@_keeping_time_outs
def listen_promise(tx: Transaction, namespace: str, promise_id: str, address: str) -> Promise:
    """Send a promise to an address once it is settled."""
    _time_out(tx, namespace, [promise_id])
    promise = promises.get_promise(tx.db, namespace, promise_id)
    if promise.state is PromiseState.PENDING:
        tx.db.execute(LISTEN, (namespace, promise_id, address, queue_of(address)))
    return promise


def take_task_messages(
    tx: Transaction, namespace: str, queues: Sequence[str], limit: int
) -> Sequence[TaskMessage]:
    """Take due messages of these queues."""
    taken: list[TaskMessage] = []
    size = 0
    for queue in queues:
        values = {
            "namespace": namespace,
            "queue": queue,
            "now": tx.now,
            "again_at": tx.now + RESEND_SECONDS,
        }
        for row in tx.db.execute(TAKE_TASKS, {**values, "limit": limit - len(taken)}).fetchall():
            task = states.to_task(row)
            taken.append(TaskMessage(namespace, task.target, task=task))
        for promise_id, address in tx.db.execute(
            DUE_SETTLED, {**values, "limit": limit - len(taken)}
        ).fetchall():
            promise = promises.get_promise(tx.db, namespace, promise_id)
            tx.db.execute(SEND_LATER, (values["again_at"], namespace, promise_id, address))
            taken.append(TaskMessage(namespace, address, promise=promise))
            size += bytes_of(promise)
            if size >= PAGE_BYTES:
                return taken
    return taken


def queued_namespaces(db: sqlite3.Connection, queue: str, after: str, limit: int) -> list[str]:
    """Return the namespaces after ``after`` that have messages for a queue."""
    found: list[str] = []
    namespace: str | None = after
    while len(found) < limit:
        (namespace,) = db.execute(NEXT_NAMESPACE, {"after": namespace}).fetchone()
        if namespace is None:
            break
        if db.execute(IS_QUEUED, {"namespace": namespace, "queue": queue}).fetchone()[0]:
            found.append(namespace)
    return found


def finish_task_message(tx: Transaction, namespace: str, promise_id: str, address: str) -> None:
    """Delete the message about a settled promise to a listener."""
    tx.db.execute(FINISH, (namespace, promise_id, address))


def resend_task_messages(
    tx: Transaction, namespace: str, tasks: Sequence[TaskRef], listeners: Sequence[Listener]
) -> None:
    """Make messages due at once that were taken."""
    values = {"namespace": namespace, "now": tx.now}
    for task in tasks:
        tx.db.execute(RESEND_TASK, {**values, "id": task.id, "version": task.version})
    for each in listeners:
        tx.db.execute(RESEND_SETTLED, {**values, "id": each.promise_id, "address": each.address})
    tx.due = True


def list_tasks(
    db: sqlite3.Connection,
    namespace: str,
    state: TaskState | None,
    pid: str | None,
    after: str | None,
    limit: int,
) -> Page[Task]:
    """Return a page of tasks by id."""
    if pid is not None:
        is_held = state in (None, TaskState.ACQUIRED)
        values = (namespace, after or "", pid, limit + 1 if is_held else 0)
        rows = db.execute(LIST_OF_PROCESS, values).fetchall()
    elif state is None:
        rows = db.execute(LIST, (namespace, after or "", limit + 1)).fetchall()
    else:
        rows = db.execute(LIST_IN_STATE, (namespace, after or "", state.value, limit + 1)).fetchall()
    tasks = tuple(states.to_task(row) for row in rows[:limit])
    return Page(tasks, tasks[-1].id if len(rows) > limit else None)


def list_branch(db: sqlite3.Connection, namespace: str, branch: str, limit: int) -> Sequence[Promise]:
    """Return the promises of a branch by id."""
    values = {"namespace": namespace, "branch": branch, "limit": limit}
    with closing(db.execute(LIST_BRANCH, values)) as cursor:
        found, _ = first_of(map(to_promise, cursor), limit)
    return found


def _insert(tx: Transaction, namespace: str, new: NewInvocation, target: str) -> Task:
    due_at = new.promise.due_at
    lease = None if due_at is not None and due_at <= tx.now else new.lease
    values: tuple[Any, ...]
    if lease is None:
        values = ("pending", target, queue_of(target), 0, None, None, new.send_at or tx.now, None)
        tx.due = True
    else:
        until = tx.lease_now + lease.ttl / 1000
        values = ("acquired", target, queue_of(target), 1, lease.pid, lease.ttl, None, until)
    return states.to_task(tx.db.execute(INSERT, (namespace, new.promise.id, *values)).fetchone())


def _known(
    tx: Transaction, namespace: str, promise: Promise, lease: TaskLease | None
) -> Invocation | Refused:
    """Return an invocation that exists, with its task acquired if a lease is given."""
    row = tx.db.execute(states.GET, (namespace, promise.id)).fetchone()
    task = None if row is None else states.to_task(row)
    if lease is None or (task is not None and task.state is TaskState.FULFILLED):
        return Invocation(promise, task)
    if task is None:
        raise InvalidValue("id", f"promise {promise.id!r} has no target, so it has no task to acquire")
    if task.state is not TaskState.PENDING:
        return _conflict(task, "acquire")
    return Invocation(promise, _acquire(tx, task, lease, ()), resumes=task.resumes)


def _acquire(tx: Transaction, task: Task, lease: TaskLease, resumes: Sequence[str]) -> Task:
    values = {
        "namespace": task.namespace,
        "id": task.id,
        "pid": lease.pid,
        "ttl": lease.ttl,
        "resumes": json.dumps(resumes),
        "lease_until": tx.lease_now + lease.ttl / 1000,
    }
    tx.due = True  # its lease may be the first to expire
    return states.to_task(tx.db.execute(ACQUIRE, values).fetchone())


def _not_held(tx: Transaction, namespace: str, ref: TaskRef, operation: str) -> Refused | None:
    """Return the refusal, if a task is not acquired in this version. Raises NotFound."""
    task = states.get_task(tx.db, namespace, ref.id)
    if task.state is TaskState.ACQUIRED and task.version == ref.version:
        return None
    return _conflict(task, operation)


def _conflict(task: Task, operation: str) -> Refused:
    return Refused(TaskConflict(task.id, task.state.value, task.version, operation))


def _time_out(tx: Transaction, namespace: str, promise_ids: Iterable[str]) -> list[Promise]:
    """Settle those of these promises whose deadline has passed. Returns them."""
    late = partial(promises.time_out_late, tx, namespace)
    return [promise for promise in map(late, promise_ids) if promise is not None]


def _state_of(tx: Transaction, namespace: str, promise_id: str) -> str | None:
    query = "SELECT state FROM promises WHERE namespace = ? AND id = ?"
    row = tx.db.execute(query, (namespace, promise_id)).fetchone()
    return None if row is None else row[0]
