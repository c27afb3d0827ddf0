"""Authorizes store operations by the worker key of the request."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from fastapi import Depends, Request

from signoff.errors import AccessDenied, NotFound
from signoff.records import (
    Amendment,
    AuditEvent,
    NewAuditEvent,
    NewPromise,
    NewRun,
    Origin,
    OriginWay,
    PromiseKind,
    Run,
    WorkerInfo,
    WorkflowInfo,
)
from signoff.records.paging import AuditFilter, Page, PromiseFilter, RunFilter, WorkflowFilter
from signoff.server.auth.keyring import bearer_of
from signoff.server.services import Services
from signoff.server.store_api.worker_settlements import check_settled
from signoff.stores.contract.leases import Write
from signoff.stores.contract.operations import OPERATIONS
from signoff.stores.contract.outbox import OutboxStore
from signoff.stores.contract.store import Store
from signoff.stores.contract.tokens import TokenStore

SHOWN_OF_HASH: Final = 16
"""Characters of a hash that identify a key of the key file in audit records."""

TOKEN_OPERATIONS: Final = frozenset(
    name for name, operation in OPERATIONS.items() if operation.noun == TokenStore.__name__
)
"""Operations that create and revoke secrets. They need access to the database; no worker key allows them."""

_OF_RETENTION = frozenset({"delete_settled", "delete_tokens", "delete_deliveries", "delete_workflows"})
_OUTBOX = frozenset(
    name for name, operation in OPERATIONS.items() if operation.noun == OutboxStore.__name__
) - {"list_deliveries"}
_WRITES: Final = frozenset({"append", "pause", "complete"})
OF_A_CALL: Final = re.compile(r"(.+)\.[0-9]+", re.DOTALL)
"""Matches the default id of a promise or child run, ``RUN.N`` for call N."""

HOW_TO_GET_A_KEY: Final = (
    "On one machine, `export SIGNOFF_WORKER_KEY=$(signoff keys create --worker)` where both `signoff server` and "
    "`signoff worker` start. Elsewhere, `signoff keys create NAME --worker` on the machine with the database, and "
    "pass the key to the worker as SIGNOFF_WORKER_KEY or --key"
)


@dataclass(frozen=True)
class Access:
    """The access that a worker key grants.

    Attributes:
        caller: The hash of the key, which identifies the caller.
        namespace: The one accessible namespace.
        groups: The accessible groups; None means all.
        key: The id of a stored key; for a key of a key file, the start of its hash.
        name: The name of a stored key.
    """

    caller: str
    namespace: str
    groups: frozenset[str] | None = None
    key: str | None = None
    name: str | None = None

    def origin(self, address: str | None) -> Origin:
        """Return the origin of the caller's writes from a client address."""
        return Origin(OriginWay.WORKER, self.key, self.name, address)

    def check_namespace(self, namespace: str) -> None:
        """Raise AccessDenied unless the namespace is accessible."""
        if self.namespace != namespace:
            raise AccessDenied(f"namespace {namespace!r}", f"this worker key is for {self.namespace!r}")

    def check_group(self, what: str, group: str | None) -> None:
        """Raise AccessDenied for ``what`` unless the group is accessible."""
        if self.groups is not None and group not in self.groups:
            named = ", ".join(sorted(self.groups))
            raise AccessDenied(what, f"this worker key is for runs of the groups {named}")


async def access_of(request: Request) -> Access:
    """Return the access of a request. Every request needs a key, local ones too.

    Raises:
        AccessDenied: The request has no valid worker key.
        TooManyRequests: The client has sent too many wrong keys.
    """
    services: Services = request.app.state.services
    secret = bearer_of(request.scope)
    if secret is None:
        raise AccessDenied("a store operation", f"it needs a worker key. {HOW_TO_GET_A_KEY}")
    key = await services.keyring.worker_key(secret, request.scope)
    if key is None:
        raise AccessDenied(
            "a store operation",
            f"this worker key is unknown, expired or revoked. {HOW_TO_GET_A_KEY}",
        )
    return Access(key.hash, key.namespace, key.groups, key.id or key.hash[:SHOWN_OF_HASH], key.name)


AccessOf = Annotated[Access, Depends(access_of)]
"""Route parameter: the caller's access."""


async def do_for(access: Access, store: Store, name: str, arguments: dict[str, Any]) -> Any:
    """Perform an operation if the caller may, and limit its result to what the caller may see.

    A key for some groups gives access to the runs of these groups only: it starts, claims, writes, reads, signals and
    cancels them, and settles and amends their promises. Outside of runs it may create promises, but no questions. Child
    runs may be in any group, as in any workflow; they are started by the same user as their parent. The key cannot join
    promises and runs of other groups' runs, or take the default ids ``RUN.N`` of such runs. It cannot start runs in
    sessions. It lists its groups, and announces and lists the workflows of their workers, but it cannot pause or limit
    groups. It adds to the audit trail of its runs' questions, and reads that trail.

    Work for the whole database is left to the server: due schedules and questions, and sealing the audit trail. No
    worker key gives access to tokens. Notifications can only be listed.

    Args:
        access: The caller's access.
        store: The store, bound to the requested namespace.
        name: The operation.
        arguments: Its arguments.

    Raises:
        AccessDenied: The caller may not perform it.
        WrongAnswer, NotAllowed, InvalidValue, UnreadableRecord: A question does not accept the answer.
    """
    access.check_namespace(store.namespace)
    if name in _OF_RETENTION:
        return (0, None) if name == "delete_settled" else 0  # the server deletes them
    await _check_key(access, store, name, arguments)
    await check_settled(store, name, arguments)
    if access.groups is not None and name == "list_groups":
        return [group for group in await store.list_groups() if group.name in access.groups]
    if access.groups is not None and name == "list_audit":
        return await _list_audit(store, **arguments)
    if name in ("due_schedules", "due_promise_schedules", "due_questions"):
        return [], None
    if name == "due":
        return None  # due work concerns all namespaces: the server does it
    if name in ("unsealed", "heads", "queued_namespaces"):
        return []
    if name == "seal":
        raise AccessDenied("the seals of an audit trail", "the server adds them")
    if name in _OUTBOX:
        raise AccessDenied("the outbox of notifications", "the server sends them")
    # The register of workers covers the whole database.
    if name == "list_workers":
        return [worker for worker in await store.list_workers() if _is_open(access, worker)]
    if name == "release" and not await _is_known(access, store, arguments["worker_id"]):
        return 0
    if name == "enlist" and await _is_others(access, store, arguments["worker"].id):
        raise AccessDenied(
            f"worker {arguments['worker'].id!r}", "another namespace or group has registered this id"
        )
    if name == "enlist":
        arguments = {"worker": replace(arguments["worker"], namespace=store.namespace)}
    return await getattr(store, name)(**arguments)


async def _check_key(access: Access, store: Store, name: str, arguments: Mapping[str, Any]) -> None:
    """Raise AccessDenied for an operation that the key does not allow."""
    if name in TOKEN_OPERATIONS:
        raise AccessDenied("a token", "worker keys give no access to tokens; use the server's HTTP API")
    if name == "create_run" and arguments["new"].parent_id is not None:
        raise AccessDenied("a child run", "a run starts its children itself")
    if access.groups is not None:
        await _CHECKS.get(name, _refused)(access, store, arguments)
    elif name in _WRITES:
        await _by_write(access, store, arguments)


def _is_open(access: Access, worker: WorkerInfo) -> bool:
    return worker.namespace == access.namespace and (access.groups is None or worker.group in access.groups)


async def _is_known(access: Access, store: Store, worker_id: str) -> bool:
    """Whether a worker is registered, and the caller may release its runs."""
    return any(worker.id == worker_id and _is_open(access, worker) for worker in await store.list_workers())


async def _is_others(access: Access, store: Store, worker_id: str) -> bool:
    """Whether a worker is registered that the caller has no access to."""
    return any(
        worker.id == worker_id and not _is_open(access, worker) for worker in await store.list_workers()
    )


async def _list_audit(store: Store, which: AuditFilter, **page: Any) -> Page[AuditEvent]:
    """List a run's audit events, without those of an earlier run with the same id: it may be another group's."""
    assert which.run_id is not None
    run = await store.get_run(which.run_id)
    listed = await store.list_audit(which, **page)
    return replace(listed, items=tuple(event for event in listed.items if event.at >= run.created_at))


# The checks of each operation for keys that are limited to some groups

_Check = Callable[[Access, Store, Mapping[str, Any]], Awaitable[None]]


async def _check_runs(access: Access, store: Store, run_ids: Iterable[str]) -> None:
    for run_id in run_ids:
        with contextlib.suppress(NotFound):  # the operation itself raises it
            access.check_group(f"run {run_id!r}", (await store.get_run(run_id)).group)


async def _by_run(access: Access, store: Store, arguments: Mapping[str, Any]) -> None:
    await _check_runs(access, store, [arguments["run_id"]])


async def _by_runs(access: Access, store: Store, arguments: Mapping[str, Any]) -> None:
    await _check_runs(access, store, arguments["run_ids"])


async def _by_held(access: Access, store: Store, arguments: Mapping[str, Any]) -> None:
    await _check_runs(access, store, arguments["held"])


async def _by_write(access: Access, store: Store, arguments: Mapping[str, Any]) -> None:
    write: Write = arguments["write"]
    if access.groups is None and not write.starts:
        return
    with contextlib.suppress(NotFound):  # the operation itself raises it
        run = await store.get_run(write.run_id)
        access.check_group(f"run {run.id!r}", run.group)
        for child in write.starts:
            await _check_child(access, store, run, child)
        for promise in write.opens:
            await _check_opened(access, store, run, promise)


async def _check_child(access: Access, store: Store, run: Run, new: NewRun) -> None:
    """Check that a run starts only its own children, for the same user, and joins no run of an inaccessible group."""
    if new.parent_id not in (None, run.id) or (new.parent_id is None) != (new.parent_n is None):
        raise AccessDenied(f"a child of run {new.parent_id!r}", f"it is started by run {run.id!r}")
    if new.started_by != run.started_by:
        raise AccessDenied(
            f"a run for {new.started_by!r}", f"run {run.id!r} was started by {run.started_by!r}"
        )
    if new.session_id is not None:
        raise AccessDenied(
            f"session {new.session_id!r}", "this worker key is for some groups, sessions for all"
        )
    await _check_id(access, store, new.id, run.id)
    with contextlib.suppress(NotFound):
        known = await store.get_run(new.id)
        if known.parent_id != run.id:
            access.check_group(f"run {known.id!r}", known.group)


async def _check_opened(access: Access, store: Store, run: Run, new: NewPromise) -> None:
    """Check that a run opens only its own promises, and joins none of a run of an inaccessible group."""
    if new.run_id not in (None, run.id):
        raise AccessDenied(f"a promise of run {new.run_id!r}", f"it is opened by run {run.id!r}")
    await _check_id(access, store, new.id, run.id)
    with contextlib.suppress(NotFound):
        known = await store.get_promise(new.id)
        if known.run_id not in (None, run.id):
            await _check_runs(access, store, [known.run_id])


async def _check_id(access: Access, store: Store, id: str, owner: str | None = None) -> None:
    """Refuse the default id of a call in another group's run: that call would join whatever has its id."""
    found = OF_A_CALL.fullmatch(id)
    if found is None or found[1] == owner:
        return
    group = None
    with contextlib.suppress(NotFound):
        group = (await store.get_run(found[1])).group
    access.check_group(f"id {id!r}, which is reserved for a call of run {found[1]!r},", group)


async def _by_pieces(access: Access, store: Store, arguments: Mapping[str, Any]) -> None:
    await _check_runs(access, store, {piece.run_id for piece in arguments["pieces"]})


async def _by_promise(access: Access, store: Store, arguments: Mapping[str, Any]) -> None:
    with contextlib.suppress(NotFound):
        promise = await store.get_promise(arguments["promise_id"])
        if promise.run_id is not None:
            await _check_runs(access, store, [promise.run_id])


async def _by_group(access: Access, store: Store, arguments: Mapping[str, Any]) -> None:
    access.check_group(f"group {arguments['group']!r}", arguments["group"])


async def _by_new_run(access: Access, store: Store, arguments: Mapping[str, Any]) -> None:
    new: NewRun = arguments["new"]
    access.check_group(f"group {new.group!r}", new.group)
    if new.session_id is not None:
        raise AccessDenied(
            f"session {new.session_id!r}", "this worker key is for some groups, sessions for all"
        )
    await _check_id(access, store, new.id)
    await _check_runs(access, store, [new.id])


async def _by_new_promise(access: Access, store: Store, arguments: Mapping[str, Any]) -> None:
    new: NewPromise = arguments["new"]
    if new.kind is not PromiseKind.PROMISE:
        raise AccessDenied(
            f"question {new.id!r} of no run", "this worker key is for some groups: its runs ask questions"
        )
    if new.run_id is not None:
        await _check_runs(access, store, [new.run_id])
    await _check_id(access, store, new.id)


async def _by_worker(access: Access, store: Store, arguments: Mapping[str, Any]) -> None:
    worker: WorkerInfo = arguments["worker"]
    access.check_group(f"group {worker.group!r}", worker.group)


async def _by_workflows(access: Access, store: Store, arguments: Mapping[str, Any]) -> None:
    workflows: Sequence[WorkflowInfo] = arguments["workflows"]
    for each in workflows:
        access.check_group(f"group {each.group!r}", each.group)


async def _by_workflow_filter(access: Access, store: Store, arguments: Mapping[str, Any]) -> None:
    which: WorkflowFilter = arguments["which"]
    what = "a list of workflows of any group" if which.group is None else "that list"
    access.check_group(what, which.group)


async def _by_run_filter(access: Access, store: Store, arguments: Mapping[str, Any]) -> None:
    which: RunFilter = arguments["which"]
    access.check_group("a list of runs of any group" if which.group is None else "that list", which.group)


async def _by_promise_filter(access: Access, store: Store, arguments: Mapping[str, Any]) -> None:
    which: PromiseFilter = arguments["which"]
    if which.run_id is None:
        raise AccessDenied("a list of promises of any run", "this worker key is for some groups: name a run")
    await _check_runs(access, store, [which.run_id])


async def _by_amendment(access: Access, store: Store, arguments: Mapping[str, Any]) -> None:
    question_id: str = arguments["question_id"]
    amendment: Amendment = arguments["amendment"]
    with contextlib.suppress(NotFound):
        question = await store.get_promise(question_id)
        if question.run_id is not None:
            await _check_runs(access, store, [question.run_id])
        if amendment.rule is not None or amendment.by_rule is not None:
            raise AccessDenied("a rule", "this worker key is for some groups, and rules are for all")
        if amendment.signal is not None:
            await _check_runs(access, store, [amendment.signal.run_id])
        if any(
            (event.question_id, event.run_id) != (question_id, question.run_id) for event in amendment.events
        ):
            raise AccessDenied("an audit event", "an amendment records what happened to its own question")


async def _by_events(access: Access, store: Store, arguments: Mapping[str, Any]) -> None:
    events: Sequence[NewAuditEvent] = arguments["events"]
    for event in events:
        await _check_trail(access, store, event.run_id)
        try:
            owner = (await store.get_promise(event.question_id)).run_id
        except NotFound:
            owner = None
        if owner != event.run_id:
            raise AccessDenied(
                "an audit event", f"question {event.question_id!r} does not belong to that run"
            )


async def _by_intervention(access: Access, store: Store, arguments: Mapping[str, Any]) -> None:
    event: NewAuditEvent | None = arguments.get("event")
    await _by_run(access, store, arguments)
    if event is not None and event.run_id != arguments["run_id"]:
        raise AccessDenied("an audit event", f"it does not belong to run {arguments['run_id']!r}")


async def _by_audit_filter(access: Access, store: Store, arguments: Mapping[str, Any]) -> None:
    which: AuditFilter = arguments["which"]
    await _check_trail(access, store, which.run_id)


async def _check_trail(access: Access, store: Store, run_id: str | None) -> None:
    """Check access to a run's audit trail. The trail outlives its run, and the group of a deleted run is unknown."""
    group = None
    if run_id is not None:
        with contextlib.suppress(NotFound):
            group = (await store.get_run(run_id)).group
    access.check_group(
        "the audit trail of any run" if run_id is None else f"the trail of run {run_id!r}", group
    )


async def _passed(access: Access, store: Store, arguments: Mapping[str, Any]) -> None:
    pass


async def _refused(access: Access, store: Store, arguments: Mapping[str, Any]) -> None:
    raise AccessDenied("the operation", "a worker key for some groups does not allow it")


_CHECKS: Mapping[str, _Check] = {
    **dict.fromkeys(("get_run", "read_journal", "read_live", "cancel", "signal"), _by_run),
    **dict.fromkeys(("suspend", "resume", "terminate", "retry"), _by_intervention),
    **dict.fromkeys(("ended", "read_messages"), _by_runs),
    **dict.fromkeys(_WRITES, _by_write),
    **dict.fromkeys(("get_promise", "settle"), _by_promise),
    **dict.fromkeys(
        (
            "due",
            "due_schedules",
            "due_promise_schedules",
            "due_questions",
            "unsealed",
            "heads",
            "queued_namespaces",
            "list_workers",
            "list_groups",
            "release",
        ),
        _passed,
    ),
    "create_promise": _by_new_promise,
    "amend": _by_amendment,
    "record": _by_events,
    "list_audit": _by_audit_filter,
    "heartbeat": _by_held,
    "publish": _by_pieces,
    "claim": _by_group,
    "create_run": _by_new_run,
    "enlist": _by_worker,
    "announce": _by_workflows,
    "list_workflows": _by_workflow_filter,
    "list_runs": _by_run_filter,
    "list_promises": _by_promise_filter,
}
