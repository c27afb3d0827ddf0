"""Promises as the durable promise protocol shows them, and as the store keeps them: they are the same promises.

A promise of the protocol keeps its parameter, tags and exact timeout as its ``data``; ``wire/durable_values.py`` reads
and writes values. Promises that Signoff created are shown with the same rules.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter, ValidationError

from signoff.codec.strict_json import read_object
from signoff.records import NewPromise, Promise, PromiseKind, PromiseState, Settlement
from signoff.wire import durable_values
from signoff.wire.durable_values import PROTOCOL, Value, encoded, to_value

NEVER: Final = 2**53 - 1
"""The timeout of a promise without a deadline: the largest integer that every language reads exactly."""

LAST_DEADLINE: Final = 253_402_300_799_000  # the end of the year 9999, in milliseconds

TIMERS: Final = ("resonate:timer", "resonate:timeout")
"""The tags of promises that resolve at their timeout; the second is that of the protocol of 2024."""

STATES: Final[Mapping[PromiseState, str]] = {
    PromiseState.PENDING: "pending",
    PromiseState.RESOLVED: "resolved",
    PromiseState.REJECTED: "rejected",
    PromiseState.CANCELLED: "rejected_canceled",
    PromiseState.TIMED_OUT: "rejected_timedout",
}


@dataclass(frozen=True, slots=True)
class Details:
    """What a promise of the protocol has besides the fields of a promise.

    Attributes:
        timeout_at: In unix milliseconds.
        key: The idempotency key of its creation, in the protocol of 2024.
    """

    param: Value = field(default_factory=dict[str, Any])
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout_at: Annotated[int, Field(validation_alias="timeoutAt")] = NEVER
    key: str | None = None


_DETAILS: Final = TypeAdapter(Details)


def to_new(id: str, details: Details, *, kind: PromiseKind = PromiseKind.PROMISE) -> NewPromise:
    """Return the promise to be created."""
    data: dict[str, Any] = {"param": details.param, "tags": details.tags, "timeoutAt": details.timeout_at}
    if details.key is not None:
        data["key"] = details.key
    due_at = None if details.timeout_at > LAST_DEADLINE else details.timeout_at / 1000
    return NewPromise(id, kind, due_at=due_at, data=json.dumps({PROTOCOL: data}))


def details_of(promise: Promise) -> Details:
    """Return what a promise has in the protocol. One that Signoff created has its data as parameter, and no tags."""
    known = read_object(promise.data).get(PROTOCOL)
    if isinstance(known, dict):
        try:
            return _DETAILS.validate_python(known)
        except ValidationError:
            pass  # data of a Signoff user that has such a key
    timeout_at = NEVER if promise.due_at is None else milliseconds(promise.due_at)
    return Details({} if promise.data is None else {"data": encoded(promise.data)}, {}, timeout_at)


def called_by(details: Details) -> dict[str, Any] | None:
    """Return the call of a promise: ``{"func": ..., "args": [...], "kwargs": {...}}``; None if it is no call."""
    return durable_values.called_by(details.param)


def is_late(promise: Promise, now: int) -> bool:
    """Whether a promise is pending past its timeout, by the clock of this process: the timers are about to settle it.

    A question whose policy acts at its deadline has no timeout.
    """
    return (
        promise.state is PromiseState.PENDING
        and promise.due_at is not None
        and now >= details_of(promise).timeout_at
    )


def is_timer(tags: Mapping[str, str]) -> bool:
    """Whether a promise with these tags resolves at its timeout."""
    return any(tags.get(tag) == "true" for tag in TIMERS)


def to_record(promise: Promise, details: Details | None = None) -> dict[str, Any]:
    """Return a promise as the protocol shows it.

    Args:
        promise: The promise.
        details: Its ``details_of``, if known.
    """
    details = details or details_of(promise)
    is_timed_out = promise.state is PromiseState.TIMED_OUT
    timed_out = "resolved" if is_timer(details.tags) else "rejected_timedout"
    state = timed_out if is_timed_out else STATES[promise.state]
    record: dict[str, Any] = {
        "id": promise.id,
        "state": state,
        "param": details.param,
        "value": to_value(promise.value),
        "tags": details.tags,
        "timeoutAt": details.timeout_at,
        "createdAt": min(milliseconds(promise.created_at), details.timeout_at),
    }
    if is_timed_out:  # a deadline counts from its time, not its discovery
        record["settledAt"] = details.timeout_at
    elif promise.settled_at is not None:
        record["settledAt"] = milliseconds(promise.settled_at)
    return record


def rejection(name: str, message: str, *, is_cancelled: bool = False) -> Settlement:
    """Return a rejection with an error that the SDKs raise again."""
    state = PromiseState.CANCELLED if is_cancelled else PromiseState.REJECTED
    return Settlement(state, value=json.dumps({"__type": "error", "name": name, "message": message}))


def milliseconds(seconds: float) -> int:
    """Return unix seconds as whole milliseconds."""
    return round(seconds * 1000)
