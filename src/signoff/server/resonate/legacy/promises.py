"""The operations on promises in the protocol of 2024."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from starlette.requests import Request as HttpRequest

from signoff.errors import AlreadySettled, IdConflict, InvalidValue, NotFound, RequestConflict, TaskConflict
from signoff.people.schemas.promise_returns import has_returns
from signoff.records import Promise, PromiseKind, PromiseState, Settlement
from signoff.records.tasks import Invocation, TaskLease, TaskState
from signoff.server.resonate.call import Call
from signoff.server.resonate.durable_promises import Details, details_of, is_timer
from signoff.server.resonate.legacy.errors import (
    INVALID,
    KEY_REUSED,
    NO_PROMISE,
    PROMISE_EXISTS,
    LegacyRefusal,
)
from signoff.server.resonate.legacy.records import to_legacy_record, to_legacy_task
from signoff.server.resonate.legacy.requests import (
    SETTLED,
    CompletePromise,
    CreateCallback,
    CreatePromise,
    CreatePromiseAndTask,
    CreateSubscription,
    path_id,
)
from signoff.server.resonate.promises import (
    check_bytes,
    check_may_settle,
    check_new,
    current,
    to_invocation,
)
from signoff.server.resonate.protocol import Reply
from signoff.wire.durable_values import to_text


async def get(call: Call, http: HttpRequest, _: None) -> Reply:
    """Show a promise."""
    return Reply(to_legacy_record(await _known(call, path_id(http))))


async def create(call: Call, http: HttpRequest, data: CreatePromise) -> Reply:
    """Create a promise, and its task if it has a target; or show it, if this request created it before."""
    invocation = await _open(call, http, data)
    return Reply(to_legacy_record(invocation.promise), 201 if invocation.was_created else 200)


async def create_with_task(call: Call, http: HttpRequest, data: CreatePromiseAndTask) -> Reply:
    """Create a promise whose task its creator acquires. A known promise is shown without its task."""
    if data.promise.target is not None:
        call.sender.check_target(f"task {data.promise.id!r}", data.promise.target)
    try:
        await call.store.get_promise(data.promise.id)
        lease = None
    except NotFound:
        lease = data.task.lease
    try:
        invocation = await _open(call, http, data.promise, lease)
    except (TaskConflict, InvalidValue):  # another process created it meanwhile
        invocation = await _open(call, http, data.promise)
    reply: dict[str, Any] = {"promise": to_legacy_record(invocation.promise)}
    task = invocation.task
    if lease is not None and task is not None and task.state is TaskState.ACQUIRED:
        reply["task"] = to_legacy_task(task, data.promise.timeout)
    return Reply(reply, 201 if invocation.was_created else 200)


async def complete(call: Call, http: HttpRequest, data: CompletePromise) -> Reply:
    """Settle a promise; or show it, if it was settled before by a request with the same key."""
    promise = await _known(call, path_id(http))
    key, is_strict = _key(http), _is_strict(http)
    if promise.state is PromiseState.PENDING:
        text = to_text(data.value.plain())
        check_bytes("value", text)
        settlement = Settlement(SETTLED[data.state], text, by=call.sender.by, request_id=key)
        await check_may_settle(call, promise, settlement)
        try:
            return Reply(to_legacy_record(await _settle(call, promise, settlement)), 201)
        except (AlreadySettled, RequestConflict) as error:
            promise = await call.store.get_promise(promise.id)
            if promise.state is PromiseState.PENDING:  # the key settled another promise of its run
                raise LegacyRefusal(KEY_REUSED, str(error)) from None
    record = to_legacy_record(promise)
    is_late = promise.state is PromiseState.TIMED_OUT and not is_strict
    is_repeated = key is not None and key == promise.request_id
    if is_late or (is_repeated and (not is_strict or record["state"] == data.state)):
        return Reply(record)
    raise LegacyRefusal.settled(promise, is_timer=is_timer(details_of(promise).tags))


async def create_callback(call: Call, http: HttpRequest, data: CreateCallback) -> Reply:
    """Resume a task once a promise is settled. One that is settled already is only shown."""
    awaited = await _known(call, _id(http, data.promise_id))
    await _check_root(call, await _known(call, data.root_promise_id))
    call.sender.check_call(data.recv)
    if awaited.state is PromiseState.PENDING:
        awaited = await call.store.await_promise(awaited.id, data.root_promise_id, address=data.recv)
    return _registered(call, awaited, f"__resume:{data.root_promise_id}:{awaited.id}", data)


async def subscribe(call: Call, http: HttpRequest, data: CreateSubscription) -> Reply:
    """Send a promise to an address once it is settled. One that is settled already is only shown."""
    promise = await _known(call, _id(http, data.promise_id))
    promise = await call.store.listen_promise(promise.id, data.recv)
    return _registered(call, promise, f"__notify:{promise.id}:{data.id}", data)


async def _open(
    call: Call, http: HttpRequest, data: CreatePromise, lease: TaskLease | None = None
) -> Invocation:
    """Create a promise, or return the one that the same request created.

    Raises:
        LegacyRefusal: Another request created a promise with this id.
    """
    key = _key(http)
    details = Details(data.param.plain(), data.tags, data.timeout, key)
    new = to_invocation(data.id, details, call.now, lease=lease)
    if new.promise.kind is PromiseKind.PROMISE:
        new = replace(new, target=data.target or new.target)
    await check_new(call, new)
    try:
        invocation = await call.store.open_invocation(new)
    except IdConflict as error:
        raise LegacyRefusal(PROMISE_EXISTS, str(error)) from None
    promise = invocation.promise
    if invocation.was_created:
        return invocation
    await call.sender.check_promise(call.store, promise)
    is_repeated = key is not None and key == details_of(promise).key
    if is_repeated and (not _is_strict(http) or promise.state is PromiseState.PENDING):
        return invocation
    raise LegacyRefusal(PROMISE_EXISTS, f"promise {promise.id!r} already exists")


async def _settle(call: Call, promise: Promise, settlement: Settlement) -> Promise:
    backend = call.services.backend
    if promise.kind is PromiseKind.QUESTION:
        return await backend.cancel_question(
            promise.id, by=settlement.by, reason=None, request_id=settlement.request_id
        )
    return await backend.settle(promise.id, settlement)


async def _known(call: Call, promise_id: str) -> Promise:
    """Return a promise that the sender may see. Raises LegacyRefusal, AccessDenied."""
    try:
        promise = await call.store.get_promise(promise_id)
    except NotFound:
        raise LegacyRefusal(NO_PROMISE, f"there is no promise {promise_id!r}") from None
    await call.sender.check_promise(call.store, promise)
    return await current(call, promise)


async def _check_root(call: Call, root: Promise) -> None:
    """Check that a callback may change a promise's task, or create it.

    The holder of a new task settles the promise: a question, for one, is settled by people.

    Raises:
        LegacyRefusal: It has no task, and was not created by this protocol.
        AccessDenied: Its task is for a group that the sender's key is not for.
    """
    try:
        task = await call.store.get_task(root.id)
    except NotFound:
        if root.kind is PromiseKind.PROMISE and root.run_id is None and not has_returns(root):
            return
        raise LegacyRefusal(INVALID, f"promise {root.id!r} has no task: no worker executes it") from None
    call.sender.check_target(f"task {root.id!r}", task.target)
    call.sender.check_call(task.target)  # the callback sends it elsewhere


def _registered(call: Call, promise: Promise, id: str, data: CreateCallback | CreateSubscription) -> Reply:
    shown = {"promise": to_legacy_record(promise)}
    if promise.state is not PromiseState.PENDING:
        return Reply(shown)
    callback = {"id": id, "promiseId": promise.id, "timeout": data.timeout, "createdOn": call.now}
    return Reply({**shown, "callback": callback}, 201)


def _id(http: HttpRequest, said: str | None) -> str:
    id = said if http.path_params.get("id") is None else path_id(http)
    if id is None:
        raise LegacyRefusal(INVALID, "invalid request: promiseId: it is missing")
    return id


def _key(http: HttpRequest) -> str | None:
    return http.headers.get("idempotency-key")


def _is_strict(http: HttpRequest) -> bool:
    return http.headers.get("strict", "false").lower() in ("true", "t", "1")
