"""Tasks in Postgres: the JSON of their operations, and their reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, LiteralString, cast

from signoff.errors import IdConflict, InvalidValue, NotFound, RequestConflict, TaskConflict
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
)
from signoff.stores.postgres.reads import Connection
from signoff.stores.postgres.rows import from_promise, from_settlement, promise_of_values, to_promise
from signoff.stores.postgres.write_requests import JsonRequest, Reply, Request, note_woken
from signoff.stores.shared.listed_payloads import cut, within_page
from signoff.stores.shared.rows import PROMISE_COLUMNS, found
from signoff.stores.shared.touched_runs import TouchedRuns

TASK_COLUMNS: Final = "namespace, id, state, target, version, resumes, pid, ttl"

GET = f"""
SELECT {TASK_COLUMNS} FROM signoff.tasks
WHERE shard = signoff.shard_of(%(id)s) AND namespace = %(namespace)s AND id = %(id)s
"""

LIST = f"""
SELECT {TASK_COLUMNS} FROM signoff.tasks
WHERE (namespace || '') = %s AND id > %s
ORDER BY id LIMIT %s
"""

LIST_IN_STATE = f"""
SELECT {TASK_COLUMNS} FROM signoff.tasks
WHERE namespace = %s AND (state || '') = %s AND id > %s
ORDER BY id LIMIT %s
"""

LIST_OF_PROCESS = f"""
SELECT {TASK_COLUMNS} FROM signoff.tasks
WHERE pid = %s AND namespace = %s AND id > %s
ORDER BY id LIMIT %s
"""

_OF_BRANCH = f"""
SELECT promise.* FROM (
    SELECT shard, promise_id FROM signoff.promise_branches
    WHERE namespace = %(namespace)s AND branch = %(branch)s
    ORDER BY promise_id LIMIT %(limit)s
) AS listed
CROSS JOIN LATERAL (
    SELECT {PROMISE_COLUMNS}, coalesce(octet_length(data), 0) + coalesce(octet_length(value), 0) AS bytes
    FROM signoff.promises
    WHERE shard = listed.shard AND namespace = %(namespace)s AND id = listed.promise_id OFFSET 0
) AS promise
"""

LIST_BRANCH = within_page(_OF_BRANCH, "id")

HEARTBEAT = "SELECT signoff.heartbeat_tasks(%s, %s, %s::text[], %s::numeric[], %s)"

TAKE = "SELECT signoff.take_task_messages(%s, %s::text[], %s, %s, %s)"

_NEXT_NAMESPACE = """
least(
    (
        SELECT min(namespace) FROM signoff.tasks
        WHERE queue = %(queue)s AND state = 'pending' AND namespace > {after}
    ),
    (
        SELECT min(namespace) FROM signoff.promise_listeners
        WHERE queue = %(queue)s AND send_at IS NOT NULL AND namespace > {after}
    )
)
"""

QUEUED_NAMESPACES = f"""
WITH RECURSIVE found (namespace, place) AS (
    SELECT {_NEXT_NAMESPACE.format(after="%(after)s")}, 1
    UNION ALL
    SELECT {_NEXT_NAMESPACE.format(after="found.namespace")}, place + 1 FROM found
    WHERE namespace IS NOT NULL AND place < %(limit)s
)
SELECT namespace FROM found WHERE namespace IS NOT NULL ORDER BY place
"""

FINISH = """
DELETE FROM signoff.promise_listeners
WHERE shard = signoff.shard_of(%(id)s) AND namespace = %(namespace)s AND promise_id = %(id)s AND address = %(address)s
    AND send_at IS NOT NULL
"""

RESEND_TASKS = """
UPDATE signoff.tasks SET send_at = least(tasks.send_at, coalesce(%(now)s, extract(epoch FROM clock_timestamp())))
FROM (
    SELECT task.shard, task.id FROM unnest(%(ids)s::text[], %(versions)s::numeric[]) AS sent (id, version)
    CROSS JOIN LATERAL (
        SELECT shard, id FROM signoff.tasks
        WHERE shard = signoff.shard_of(sent.id) AND namespace = %(namespace)s AND id = sent.id
            AND version = sent.version AND state = 'pending'
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS task
) AS found
WHERE tasks.shard = found.shard AND tasks.namespace = %(namespace)s AND tasks.id = found.id
"""

RESEND_SETTLED = """
UPDATE signoff.promise_listeners AS listener
SET send_at = least(listener.send_at, coalesce(%(now)s, extract(epoch FROM clock_timestamp())))
FROM (
    SELECT known.shard, known.promise_id, known.address
    FROM unnest(%(ids)s::text[], %(addresses)s::text[]) AS sent (promise_id, address)
    CROSS JOIN LATERAL (
        SELECT shard, promise_id, address FROM signoff.promise_listeners
        WHERE shard = signoff.shard_of(sent.promise_id) AND namespace = %(namespace)s
            AND promise_id = sent.promise_id AND address = sent.address AND send_at IS NOT NULL
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS known
) AS found
WHERE listener.shard = found.shard AND listener.namespace = %(namespace)s
    AND listener.promise_id = found.promise_id AND listener.address = found.address
"""


def open_invocation(namespace: str, new: NewInvocation) -> Request[Invocation]:
    """Create a promise with its task, or return those with this id."""
    holder = new.holder

    def read(reply: Reply, touched: TouchedRuns) -> Invocation:
        _note(reply, namespace, touched)
        _refuse(reply, "acquire" if holder is None else "create a promise in the name of", holder)
        promise = promise_of_values(reply["promise"])
        if "new" in reply:
            touched.runs.setdefault(namespace, set())
            touched.due = touched.due or promise.due_at is not None
        elif promise.kind is not new.promise.kind:
            raise IdConflict(promise.id, f"it is a {promise.kind.value}, not a {new.promise.kind.value}")
        elif promise.run_id is not None:
            raise IdConflict(promise.id, f"it belongs to run {promise.run_id!r}")
        elif new.lease is not None and "task" not in reply:
            raise InvalidValue("id", f"promise {promise.id!r} has no target, so it has no task to acquire")
        return _invocation(reply, was_created="new" in reply)

    ids = [new.promise.id, *([] if holder is None else [holder.id])]
    body: dict[str, Any] = {"new": from_promise(new.promise), "promise_ids": ids, "task_ids": ids}
    optional = {
        "target": new.target,
        "branches": sorted(each for each in {new.branch, new.parent} if each is not None) or None,
        "send_at": new.send_at,
        "lease": _from_lease(new.lease),
        "holder": None if holder is None else {"id": holder.id, "version": holder.version},
    }
    body |= {name: value for name, value in optional.items() if value is not None}
    return JsonRequest(namespace, {"op": "open_invocation", **body}, read)


def settle_held(namespace: str, holder: TaskRef, promise_id: str, settlement: Settlement) -> Request[Promise]:
    """Settle a promise in the name of an acquired task."""
    if settlement.state is PromiseState.PENDING:
        raise InvalidValue("settlement.state", "a promise cannot be settled as pending")

    def read(reply: Reply, touched: TouchedRuns) -> Promise:
        _note(reply, namespace, touched)
        _refuse(reply, "settle a promise in the name of", holder)
        if "used" in reply:
            request_id, used_for = reply["used"]
            raise RequestConflict(request_id, promise_id, used_for)
        return promise_of_values(reply["promise"])

    body = _held(holder, promise_id) | {"promise_id": promise_id, "settlement": from_settlement(settlement)}
    return JsonRequest(namespace, {"op": "settle_held", **body}, read)


def acquire_task(namespace: str, ref: TaskRef, lease: TaskLease, takes_one: bool) -> Request[Invocation]:
    """Acquire a pending task."""

    def read(reply: Reply, touched: TouchedRuns) -> Invocation:
        _note(reply, namespace, touched)
        _refuse(reply, "acquire", ref)
        return _invocation(reply)

    body = _held(ref) | {"lease": _from_lease(lease), "takes_one": takes_one}
    return JsonRequest(namespace, {"op": "acquire_task", **body}, read)


def release_task(namespace: str, ref: TaskRef) -> Request[None]:
    """Give an acquired task back."""
    return _move(namespace, "release_task", _held(ref), "release")


def suspend_task(namespace: str, ref: TaskRef, awaited: Sequence[str]) -> Request[bool]:
    """Suspend an acquired task until one of the awaited promises is settled."""

    def read(reply: Reply, touched: TouchedRuns) -> bool:
        _note(reply, namespace, touched)
        _refuse(reply, "suspend", ref)
        if "invalid" in reply:
            raise InvalidValue("awaited", f"there is no promise {reply['invalid']!r}")
        return reply["suspended"]

    body = _held(ref, *awaited) | {"awaited": list(awaited)}
    return JsonRequest(namespace, {"op": "suspend_task", **body}, read)


def halt_task(namespace: str, task_id: str) -> Request[None]:
    """Stop a task until it is continued."""
    return _move(namespace, "halt_task", _of_task(task_id), "halt")


def continue_task(namespace: str, task_id: str) -> Request[None]:
    """Send a halted task again."""
    return _move(namespace, "continue_task", _of_task(task_id), "continue")


def await_promise(namespace: str, awaited: str, awaiter: str, address: str | None) -> Request[Promise]:
    """Resume a task once a promise is settled."""

    def read(reply: Reply, touched: TouchedRuns) -> Promise:
        _note(reply, namespace, touched)
        _refuse(reply, "await")
        if "invalid" in reply:
            raise InvalidValue("awaiter", f"there is no task {reply['invalid']!r}")
        return promise_of_values(reply["promise"])

    body = _of_task(awaiter, awaited) | {"awaited": awaited, "address": address}
    return JsonRequest(namespace, {"op": "await_promise", **body}, read)


def listen_promise(namespace: str, promise_id: str, address: str) -> Request[Promise]:
    """Send a promise to an address once it is settled."""

    def read(reply: Reply, touched: TouchedRuns) -> Promise:
        _note(reply, namespace, touched)
        _refuse(reply, "listen to")
        return promise_of_values(reply["promise"])

    body = {"op": "listen_promise", "promise_ids": [promise_id], "address": address}
    return JsonRequest(namespace, body, read)


def heartbeat(
    db: Connection, namespace: str, pid: str, tasks: Sequence[TaskRef] | None, lease_now: float | None
) -> int:
    """Extend the leases of tasks that a process holds."""
    ids = None if tasks is None else [task.id for task in tasks]
    versions = None if tasks is None else [task.version for task in tasks]
    row = db.execute(HEARTBEAT, (namespace, pid, ids, versions, lease_now)).fetchone()
    assert row is not None
    return row[0]


def take_messages(
    db: Connection, namespace: str, queues: Sequence[str], limit: int, now: float | None
) -> Sequence[TaskMessage]:
    """Take due messages of these queues."""
    rows = db.execute(TAKE, (namespace, list(queues), limit, now, RESEND_SECONDS)).fetchall()
    return [
        TaskMessage(
            namespace,
            address,
            None if task is None else to_task(task),
            None if promise is None else promise_of_values(promise),
        )
        for ((address, task, promise),) in rows
    ]


def finish_message(db: Connection, namespace: str, promise_id: str, address: str) -> None:
    """Delete the message about a settled promise to a listener."""
    db.execute(FINISH, {"namespace": namespace, "id": promise_id, "address": address})


def resend_messages(
    db: Connection, namespace: str, tasks: Sequence[TaskRef], listeners: Sequence[Listener], now: float | None
) -> tuple[None, TouchedRuns]:
    """Make messages due at once that were taken. Rows that another transaction has locked are left alone."""
    values = {"namespace": namespace, "now": now}
    if tasks:
        ids, versions = [task.id for task in tasks], [task.version for task in tasks]
        db.execute(RESEND_TASKS, {**values, "ids": ids, "versions": versions})
    if listeners:
        ids, addresses = [each.promise_id for each in listeners], [each.address for each in listeners]
        db.execute(RESEND_SETTLED, {**values, "ids": ids, "addresses": addresses})
    touched = TouchedRuns()
    touched.due = True
    return None, touched


def get_task(db: Connection, namespace: str, task_id: str) -> Task:
    """Return a task. Raises NotFound."""
    return found(
        "task", task_id, db.execute(GET, {"namespace": namespace, "id": task_id}).fetchone(), to_task
    )


def list_tasks(
    db: Connection, namespace: str, state: TaskState | None, pid: str | None, after: str | None, limit: int
) -> Page[Task]:
    """Return a page of tasks by id."""
    if pid is not None:
        is_held = state in (None, TaskState.ACQUIRED)
        values = (pid, namespace, after or "", limit + 1 if is_held else 0)
        rows = db.execute(LIST_OF_PROCESS, values).fetchall()
    elif state is None:
        rows = db.execute(LIST, (namespace, after or "", limit + 1)).fetchall()
    else:
        rows = db.execute(LIST_IN_STATE, (namespace, state.value, after or "", limit + 1)).fetchall()
    tasks = tuple(to_task(row) for row in rows[:limit])
    return Page(tasks, tasks[-1].id if len(rows) > limit else None)


def queued_namespaces(db: Connection, queue: str, after: str, limit: int) -> list[str]:
    """Return the namespaces after ``after`` that have messages for a queue."""
    values = {"queue": queue, "after": after, "limit": limit}
    return [namespace for (namespace,) in db.execute(QUEUED_NAMESPACES, values)]


def list_branch(db: Connection, namespace: str, branch: str, limit: int) -> Sequence[Promise]:
    """Return the promises of a branch by id."""
    values = {"namespace": namespace, "branch": branch, "limit": limit}
    rows, _ = cut(db.execute(cast("LiteralString", LIST_BRANCH), values).fetchall(), limit)
    return [to_promise(row[:-1]) for row in rows]


def to_task(row: Sequence[Any]) -> Task:
    """Return the task in ``TASK_COLUMNS``."""
    namespace, id, state, target, version, resumes, pid, ttl = row
    return Task(namespace, id, TaskState(state), target, version, tuple(resumes), pid, ttl)


def _move(namespace: str, op: str, body: dict[str, Any], operation: str) -> Request[None]:
    def read(reply: Reply, touched: TouchedRuns) -> None:
        _note(reply, namespace, touched)
        _refuse(reply, operation)

    return JsonRequest(namespace, {"op": op, **body}, read)


def _held(ref: TaskRef, *promise_ids: str) -> dict[str, Any]:
    return {**_of_task(ref.id, *promise_ids), "version": ref.version}


def _of_task(task_id: str, *promise_ids: str) -> dict[str, Any]:
    """Return the parts of an operation on a task by which the database locks what it may change."""
    return {"task_id": task_id, "task_ids": [task_id], "promise_ids": [task_id, *promise_ids]}


def _from_lease(lease: TaskLease | None) -> dict[str, Any] | None:
    return None if lease is None else {"pid": lease.pid, "ttl": lease.ttl}


def _note(reply: Reply, namespace: str, touched: TouchedRuns) -> None:
    """Record what the operation touched, also if it is refused."""
    note_woken(reply, namespace, touched)


def _refuse(reply: Reply, operation: str, ref: TaskRef | None = None) -> None:
    """Raise NotFound or TaskConflict if the database has refused the operation."""
    if "missing" in reply:
        raise NotFound(*reply["missing"])
    if "conflict" in reply:
        task = to_task(reply["conflict"])
        raise TaskConflict(task.id, task.state.value, task.version, operation)


def _invocation(reply: Reply, *, was_created: bool = False) -> Invocation:
    task = reply.get("task")
    return Invocation(
        promise_of_values(reply["promise"]),
        None if task is None else to_task(task),
        was_created,
        tuple(reply.get("resumes", ())),
    )
