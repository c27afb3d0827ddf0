"""Operations of the SQLite store that are a function of a connection or a transaction, and nothing else.

The hot path of runs and what needs more than one function are methods of ``SqliteStore``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from signoff.stores.sqlite import (
    audit,
    checkpoints,
    groups,
    invocations,
    live,
    outbox,
    promise_schedules,
    promises,
    rules,
    runs,
    schedules,
    sessions,
    snapshots,
    task_states,
    tasks,
    tokens,
    workflows,
)

WRITES: Final[Mapping[str, Callable[..., Any]]] = {
    "cancel": runs.cancel,
    "retry": runs.retry,
    "suspend": runs.suspend,
    "resume": runs.resume,
    "terminate": runs.terminate,
    "create_promise": promises.create_promise,
    "load_run": snapshots.load_run,
    "revoke_rule": rules.revoke_rule,
    "record": audit.record,
    "seal": audit.seal,
    "create_token": tokens.create,
    "revoke_token": tokens.revoke,
    "expire_token": tokens.expire,
    "delete_tokens": tokens.delete,
    "expand": outbox.expand,
    "finish_delivery": outbox.finish,
    "redeliver": outbox.redeliver,
    "delete_deliveries": outbox.delete,
    "pause_group": groups.pause,
    "resume_group": groups.resume,
    "limit_group": groups.set_limits,
    "put_schedule": schedules.put,
    "pause_schedule": schedules.pause,
    "resume_schedule": schedules.resume,
    "delete_schedule": schedules.delete,
    "fire_schedule": schedules.fire,
    "put_promise_schedule": promise_schedules.put,
    "delete_promise_schedule": promise_schedules.delete,
    "advance_promise_schedule": promise_schedules.advance,
    "open_invocation": tasks.open_invocation,
    "settle_held": tasks.settle_held,
    "acquire_task": tasks.acquire_task,
    "release_task": tasks.release_task,
    "suspend_task": tasks.suspend_task,
    "heartbeat_tasks": tasks.heartbeat_tasks,
    "halt_task": tasks.halt_task,
    "continue_task": tasks.continue_task,
    "await_promise": tasks.await_promise,
    "listen_promise": tasks.listen_promise,
    "take_task_messages": tasks.take_task_messages,
    "finish_task_message": tasks.finish_task_message,
    "resend_task_messages": tasks.resend_task_messages,
    "announce": workflows.announce,
    "delete_workflows": workflows.delete,
    "put_checkpoint": checkpoints.put,
    "put_checkpoint_writes": checkpoints.put_writes,
    "delete_checkpoints": checkpoints.delete,
    "delete_thread": checkpoints.delete_thread,
}
"""Functions of a transaction, the namespace and the operation's arguments."""

SMALL_READS: Final[Mapping[str, Callable[..., Any]]] = {
    "read_live": live.read,
    "get_session": sessions.get_session,
    "get_rule": rules.get_rule,
    "last_seal": audit.last_seal,
    "get_token": tokens.get,
    "read_cursor": outbox.read_cursor,
    "get_schedule": schedules.get,
    "get_promise_schedule": promise_schedules.get,
    "get_task": task_states.get_task,
    "list_branch": tasks.list_branch,
}
"""Functions of a connection, the namespace and the operation's arguments. They may run on the event loop."""

READS: Final[Mapping[str, Callable[..., Any]]] = {
    "ended": runs.ended,
    "list_runs": runs.list_runs,
    "list_promises": promises.list_promises,
    "list_sessions": sessions.list_sessions,
    "save_run": snapshots.save_run,
    "list_audit": audit.list_audit,
    "read_chain": audit.read_chain,
    "list_tokens": tokens.list_tokens,
    "list_deliveries": outbox.list_deliveries,
    "list_groups": groups.list_groups,
    "list_tasks": tasks.list_tasks,
    "list_invocations": invocations.list_invocations,
    "list_calls": invocations.list_calls,
    "list_schedules": schedules.list_schedules,
    "list_promise_schedules": promise_schedules.list_promise_schedules,
    "list_workflows": workflows.list_workflows,
    "get_checkpoint": checkpoints.get,
    "list_checkpoints": checkpoints.list_checkpoints,
}
"""The same, for a reader's thread."""
