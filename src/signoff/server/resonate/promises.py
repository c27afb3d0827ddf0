"""The operations ``promise.*``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from signoff.codec import MAX_BYTES
from signoff.errors import AccessDenied, AlreadySettled, IdConflict, InvalidValue, NotFound, PayloadTooLarge
from signoff.people.schemas.promise_returns import check_value
from signoff.records import Promise, PromiseKind, PromiseState, Settlement
from signoff.records.tasks import Invocation, NewInvocation, TaskLease, TaskRef
from signoff.server.resonate.call import Call
from signoff.server.resonate.durable_promises import Details, is_late, to_new, to_record
from signoff.server.resonate.protocol import Refusal, Reply
from signoff.server.resonate.questions import named_people, terms_of, to_new_question
from signoff.server.resonate.requests import (
    BRANCH,
    DELAY,
    PARENT,
    TARGET,
    ById,
    CreatePromise,
    RegisterCallback,
    RegisterListener,
    SettlePromise,
)
from signoff.wire.durable_values import to_text

SETTLED = {
    "resolved": PromiseState.RESOLVED,
    "rejected": PromiseState.REJECTED,
    "rejected_canceled": PromiseState.CANCELLED,
}


async def get(call: Call, data: ById) -> Reply:
    """Show a promise."""
    return shown(await known(call, data.id))


async def create(call: Call, data: CreatePromise) -> Reply:
    """Create a promise, and its task if it has a target; or show the promise with this id."""
    try:
        invocation = await call.store.open_invocation(await new_invocation(call, data))
    except IdConflict:  # a question, or the promise of a run
        return shown(await known(call, data.id))
    if not invocation.was_created:
        await call.sender.check_promise(call.store, invocation.promise)
    return shown_invocation(invocation, data)


async def settle(call: Call, data: SettlePromise) -> Reply:
    """Settle a promise, or show it as it was settled before."""
    promise = await known(call, data.id)
    if promise.state is PromiseState.PENDING:
        promise = await _settle(call, promise, data)
    return shown(promise)


async def register_callback(call: Call, data: RegisterCallback) -> Reply:
    """Resume a task once a promise is settled."""
    await known(call, data.awaited, "awaited promise")
    await check_task(call, data.awaiter)
    try:
        return shown(await call.store.await_promise(data.awaited, data.awaiter))
    except InvalidValue:
        raise Refusal(422, f"awaiter {data.awaiter!r} has no task") from None


async def check_task(call: Call, task_id: str) -> None:
    """Raise AccessDenied if the sender has a worker key for some groups, and there is such a task of another one."""
    if call.sender.is_for_groups:
        with suppress(NotFound):  # the operation itself says so
            call.sender.check_target(f"task {task_id!r}", (await call.store.get_task(task_id)).target)


async def register_listener(call: Call, data: RegisterListener) -> Reply:
    """Send a promise to an address once it is settled."""
    call.check_address(data.address)
    await known(call, data.awaited, "awaited promise")
    return shown(await call.store.listen_promise(data.awaited, data.address))


async def new_invocation(
    call: Call, data: CreatePromise, *, lease: TaskLease | None = None, holder: TaskRef | None = None
) -> NewInvocation:
    """Return the promise to be created, and its task.

    Raises:
        InvalidValue: It is a question whose terms are not valid.
        Refusal, AccessDenied, PayloadTooLarge: As for ``check_new``.
    """
    new = to_invocation(data.id, _details(data), call.now, lease=lease, holder=holder)
    await check_new(call, new)
    return new


async def check_new(call: Call, new: NewInvocation) -> None:
    """Check that the sender may create a promise, now or by a schedule.

    Raises:
        Refusal: Messages may not be sent to its target.
        AccessDenied: The sender may not call its group, take its id, or choose who answers its question.
        PayloadTooLarge: Its parameter and tags are over the limit of a value.
    """
    promise = new.promise
    if new.target is not None:
        call.check_address(new.target)
        call.sender.check_call(new.target)
    check_bytes("param and tags", promise.data)
    named = named_people(promise)
    if named:
        call.sender.actor.check_names_people(f"question {promise.id!r}", named)
    await call.sender.check_id(call.store, promise.id)


def to_invocation(
    id: str, details: Details, now: int, *, lease: TaskLease | None = None, holder: TaskRef | None = None
) -> NewInvocation:
    """Return a promise to be created, and its task. A question has no task: a person settles it.

    Args:
        id: The promise's id.
        details: Its parameter, tags and timeout.
        now: The time, in unix milliseconds.
        lease: Acquires the task at once.
        holder: The task that creates it.

    Raises:
        InvalidValue: It is a question whose terms are not valid.
    """
    tags = details.tags
    branch, parent = tags.get(BRANCH) or None, tags.get(PARENT) or None
    terms = terms_of(details)
    if terms is not None:
        question = to_new_question(id, details, terms, now / 1000)
        return NewInvocation(question, branch=branch, parent=parent, holder=holder)
    send_at = int(tags[DELAY]) / 1000 if DELAY in tags else None
    return NewInvocation(to_new(id, details), tags.get(TARGET), branch, parent, send_at, lease, holder)


def settlement_of(call: Call, data: SettlePromise) -> Settlement:
    """Return the settlement for the store. Raises PayloadTooLarge."""
    text = to_text(data.value.plain())
    check_bytes("value", text)
    return Settlement(SETTLED[data.state], text, by=call.sender.by)


def check_bytes(path: str, text: str | None) -> None:
    """Raise PayloadTooLarge for JSON over the limit of a value."""
    size = 0 if text is None else len(text.encode())
    if size > MAX_BYTES:
        raise PayloadTooLarge(path, size, MAX_BYTES)


def shown(promise: Promise) -> Reply:
    """Return the reply with a promise."""
    return Reply({"promise": to_record(promise)})


def shown_invocation(invocation: Invocation, data: CreatePromise) -> Reply:
    """Return the reply with the promise that a request has created, or found."""
    details = _details(data) if invocation.was_created else None
    return Reply({"promise": to_record(invocation.promise, details)})


async def known(call: Call, promise_id: str, what: str = "promise") -> Promise:
    """Return a promise that the sender may see.

    Raises:
        Refusal: There is no such promise.
        AccessDenied: The sender may not see it.
    """
    try:
        promise = await call.store.get_promise(promise_id)
    except NotFound:
        raise Refusal(404, f"there is no {what} {promise_id!r}") from None
    await call.sender.check_promise(call.store, promise)
    return await current(call, promise)


async def current(call: Call, promise: Promise) -> Promise:
    """Return a promise as it is now: one past its timeout is settled first.

    Shown as timed out before the store settles it, it could still be settled otherwise: the store has its own clock.
    """
    return (await all_current(call, [promise]))[0]


async def all_current(call: Call, promises: Sequence[Promise]) -> Sequence[Promise]:
    """Return promises as they are now, see ``current``."""
    late = {promise.id for promise in promises if is_late(promise, call.now)}
    if not late:
        return promises
    await call.store.due()
    return [await call.store.get_promise(each.id) if each.id in late else each for each in promises]


async def check_may_settle(call: Call, promise: Promise, settlement: Settlement) -> None:
    """Check that a request may settle a pending promise.

    Raises:
        Refusal: It is a question, which a person answers.
        AccessDenied: It belongs to a run, and the sender is a worker; or its task is for a group that the sender's
            worker key is not for.
        InvalidValue: The value does not fit the promise's return type.
    """
    if call.sender.worker is not None and promise.run_id is not None:
        raise AccessDenied(
            f"promise {promise.id!r}", f"a worker key settles no promise of run {promise.run_id!r}"
        )
    await check_task(call, promise.id)
    is_cancelled = settlement.state is PromiseState.CANCELLED
    if promise.kind is PromiseKind.QUESTION and not is_cancelled:
        raise Refusal(
            422, f"promise {promise.id!r} is a question: a person answers it, a program can only cancel it"
        )
    await check_value(promise, settlement)


def _details(data: CreatePromise) -> Details:
    return Details(data.param.plain(), data.tags, data.timeout_at)


async def _settle(call: Call, promise: Promise, data: SettlePromise) -> Promise:
    settlement = settlement_of(call, data)
    await check_may_settle(call, promise, settlement)
    try:
        if promise.kind is PromiseKind.QUESTION:
            backend = call.services.backend
            return await backend.cancel_question(promise.id, by=settlement.by, reason=None, request_id=None)
        return (await call.store.settle(promise.id, PromiseKind.PROMISE, settlement))[0]
    except AlreadySettled:
        return await call.store.get_promise(promise.id)
