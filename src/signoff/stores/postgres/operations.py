"""Operations of the Postgres store that are one function, and nothing else.

The hot path of runs and what needs more than one function are methods of ``PostgresStore``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from signoff.stores.postgres import (
    audit,
    checkpoints,
    groups,
    interventions,
    invocations,
    live,
    outbox,
    promise_schedules,
    reads,
    rules,
    schedules,
    sessions,
    snapshots,
    tasks,
    tokens,
    workflows,
    write_requests,
)

REQUESTS: Final[Mapping[str, Callable[..., write_requests.Request[Any]]]] = {
    "cancel": write_requests.cancel,
    "retry": interventions.retry,
    "suspend": interventions.suspend,
    "resume": interventions.resume,
    "terminate": interventions.terminate,
    "create_promise": write_requests.create_promise,
    "record": audit.record,
    "open_invocation": tasks.open_invocation,
    "settle_held": tasks.settle_held,
    "acquire_task": tasks.acquire_task,
    "release_task": tasks.release_task,
    "suspend_task": tasks.suspend_task,
    "halt_task": tasks.halt_task,
    "continue_task": tasks.continue_task,
    "await_promise": tasks.await_promise,
    "listen_promise": tasks.listen_promise,
}
"""Functions that make the writer's request from the namespace and the operation's arguments."""

CHANGES: Final[Mapping[str, Callable[..., Any]]] = {
    "load_run": snapshots.load_run,
    "redeliver": outbox.redeliver,
    "pause_group": groups.pause,
    "resume_group": groups.resume,
    "limit_group": groups.set_limits,
    "put_schedule": schedules.put,
    "resume_schedule": schedules.resume,
    "fire_schedule": schedules.fire,
    "resend_task_messages": tasks.resend_messages,
}
"""Functions of a connection, the namespace and the operation's arguments that also return the touched runs."""

CALLS: Final[Mapping[str, Callable[..., Any]]] = {
    "ended": reads.ended,
    "list_runs": reads.list_runs,
    "read_live": live.read,
    "list_promises": reads.list_promises,
    "get_session": sessions.get_session,
    "list_sessions": sessions.list_sessions,
    "save_run": snapshots.save_run,
    "get_rule": rules.get_rule,
    "list_rules": rules.list_rules,
    "revoke_rule": rules.revoke_rule,
    "list_audit": audit.list_audit,
    "read_chain": audit.read_chain,
    "last_seal": audit.last_seal,
    "seal": audit.seal,
    "create_token": tokens.create,
    "get_token": tokens.get,
    "list_tokens": tokens.list_tokens,
    "revoke_token": tokens.revoke,
    "expire_token": tokens.expire,
    "touch_token": tokens.touch,
    "delete_tokens": tokens.delete,
    "read_cursor": outbox.read_cursor,
    "expand": outbox.expand,
    "claim_deliveries": outbox.claim,
    "finish_delivery": outbox.finish,
    "list_deliveries": outbox.list_deliveries,
    "delete_deliveries": outbox.delete,
    "list_groups": groups.list_groups,
    "get_schedule": schedules.get,
    "list_schedules": schedules.list_schedules,
    "pause_schedule": schedules.pause,
    "delete_schedule": schedules.delete,
    "put_promise_schedule": promise_schedules.put,
    "get_promise_schedule": promise_schedules.get,
    "list_promise_schedules": promise_schedules.list_promise_schedules,
    "delete_promise_schedule": promise_schedules.delete,
    "advance_promise_schedule": promise_schedules.advance,
    "get_task": tasks.get_task,
    "list_tasks": tasks.list_tasks,
    "list_branch": tasks.list_branch,
    "list_invocations": invocations.list_invocations,
    "list_calls": invocations.list_calls,
    "take_task_messages": tasks.take_messages,
    "finish_task_message": tasks.finish_message,
    "announce": workflows.announce,
    "list_workflows": workflows.list_workflows,
    "delete_workflows": workflows.delete,
    "put_checkpoint": checkpoints.put,
    "put_checkpoint_writes": checkpoints.put_writes,
    "get_checkpoint": checkpoints.get,
    "list_checkpoints": checkpoints.list_checkpoints,
    "delete_checkpoints": checkpoints.delete,
    "delete_thread": checkpoints.delete_thread,
}
"""Functions of a connection, the namespace and the operation's arguments whose commits no listener waits for."""

TIMED: Final = frozenset(
    name for name, call in {**CHANGES, **CALLS}.items() if "now" in inspect.signature(call).parameters
)
"""The operations whose functions take the business time as their last argument."""
