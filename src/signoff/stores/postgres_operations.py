"""What a Postgres store is asked to write: each operation as the JSON it sends, and how its reply is read."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic_core import PydanticSerializationError, to_json

from signoff.codec import encode_error
from signoff.errors import (
    AlreadySettled,
    IdConflict,
    InvalidState,
    InvalidValue,
    LeaseLost,
    NotFound,
    RequestConflict,
    RunCancelled,
)
from signoff.records import (
    NewPromise,
    NewRun,
    Promise,
    PromiseKind,
    PromiseState,
    Run,
    Settlement,
)
from signoff.stores.base import Claim, Outcome, Write
from signoff.stores.postgres_rows import (
    digest,
    from_outcome,
    from_promise,
    from_run,
    from_settlement,
    from_write,
    message_of,
    promise_of,
    run_of,
)
from signoff.stores.same import same_json
from signoff.stores.touched import Touched
from signoff.stores.turns import Operation

T = TypeVar("T")

Reply = dict[str, Any]
Read = Callable[[Reply, Touched], T]


class Request(Operation[T]):
    """An operation on its way to the database. Sending it again, when its reply was lost, is safe.

    Args:
        namespace: The tenant.
        body: What is sent.
        read: Makes the result of the reply, or raises; notes what was touched.
        append_to: The run whose journal it appends to, if it does nothing else.
    """

    __slots__ = ("append_to", "namespace", "read", "text")

    def __init__(
        self, namespace: str, body: dict[str, Any], read: Read[T], append_to: str | None = None
    ) -> None:
        super().__init__()
        self.namespace = namespace
        self.append_to = append_to
        self.read = read
        try:
            self.text = to_json({"namespace": namespace, **body})
        except PydanticSerializationError as error:
            raise InvalidValue("text", f"it is not Unicode text: {error}") from error

    @property
    def as_operation(self) -> bytes:
        """What is sent of an append that is done as an operation of its own."""
        if self.append_to is None:
            return self.text
        return b'{"op":"write","namespace":%b,"write":%b}' % (to_json(self.namespace), self.text)

    def take(self, reply: Reply, touched: Touched) -> None:
        """Keep what the reply says."""
        self.error = None
        if "claimable" in reply:
            touched.ready.add(self.namespace)
        try:
            self.result = self.read(reply, touched)
        except Exception as error:
            self.error = error


def create_run(namespace: str, new: NewRun, token: str | None) -> Request[tuple[Run, bool]]:
    """Create a ready run, or find the one that has the id."""

    def read(reply: Reply, touched: Touched) -> tuple[Run, bool]:
        run = run_of(reply["run"])
        if reply["new"]:
            is_delayed = run.is_delayed
            due = is_delayed or new.deadline_at is not None
            touched.touch(namespace, run.id, ready=not is_delayed, due=due)
        elif run.workflow != new.workflow:
            raise IdConflict(new.id, f"it is a run of {run.workflow!r}, not of {new.workflow!r}")
        elif reply["run"]["arguments_digest"] != digest(new.arguments):
            raise IdConflict(new.id, f"it is a run of {run.workflow!r} with other arguments")
        return run, reply["created"] is True

    body = {"op": "create_run", "new": from_run(new), "token": token or _new_token()}
    return Request(namespace, body, read)


def cancel(namespace: str, run_id: str, reason: str | None, by: str | None) -> Request[Run]:
    """Ask a run to stop."""

    def read(reply: Reply, touched: Touched) -> Run:
        if not reply:
            raise NotFound("run", run_id)
        if reply["ended"]:
            touched.touch_ended(namespace, run_id)
        _note_woken(reply, namespace, touched)
        return run_of(reply["run"])

    error = encode_error(RunCancelled(run_id, reason))
    body = {"op": "cancel", "run_id": run_id, "reason": reason, "by": by, "error": error}
    return Request(namespace, body, read)


def retry(namespace: str, run_id: str, token: str | None) -> Request[Run]:
    """Make a run ready that failed retryably."""

    def read(reply: Reply, touched: Touched) -> Run:
        if not reply:
            raise NotFound("run", run_id)
        run = run_of(reply["run"])
        if "retried" not in reply:
            raise InvalidState(run_id, run.state.value, "retry")
        touched.touch(namespace, run_id, ready=True, due=run.deadline_at is not None)
        return run

    details = None if token is None else to_json({"token": token}).decode()
    return Request(namespace, {"op": "retry", "run_id": run_id, "details": details}, read)


def signal(
    namespace: str,
    run_id: str,
    name: str,
    value: str,
    by: str | None,
    request_id: str | None,
    token: str | None,
) -> Request[bool]:
    """Leave a signal for a run."""
    token = token or _new_token()
    known_as = token if request_id is None else request_id

    def read(reply: Reply, touched: Touched) -> bool:
        if (known := reply.get("known")) is not None:
            if known[0] != name or not same_json(known[1], value):
                raise RequestConflict(known_as, run_id)
            return known[2] == token
        if "missing" in reply:
            raise NotFound("run", run_id)
        if "ended" in reply:
            raise InvalidState(run_id, reply["ended"], "signal")
        _note_woken(reply, namespace, touched)
        return True

    body = {
        "op": "signal",
        "run_id": run_id,
        "name": name,
        "value": value,
        "by": by,
        "request_id": known_as,
        "token": token,
    }
    return Request(namespace, body, read)


def claim(
    namespace: str,
    worker_id: str,
    group: str,
    workflows: Sequence[str],
    limit: int,
    lease_seconds: float,
    token: str | None,
) -> Request[list[Claim]]:
    """Lease ready runs to a worker."""

    def read(reply: Reply, touched: Touched) -> list[Claim]:
        claims: list[Claim] = []
        touched.due = touched.due or "due" in reply
        for row in reply["claims"] or ():
            run = run_of(row)
            touched.touch(namespace, run.id)
            claims.append(Claim(run, tuple(message_of(message) for message in row["messages"] or ())))
        return claims

    body = {
        "op": "claim",
        "worker_id": worker_id,
        "group": group,
        "workflows": list(workflows),
        "limit": limit,
        "lease_seconds": lease_seconds,
        "token": token or _new_token(),
    }
    return Request(namespace, body, read)


def append(namespace: str, write: Write) -> Request[None]:
    """Write one fenced batch."""

    def read(reply: Reply, touched: Touched) -> None:
        _note_write(reply, namespace, write, touched)

    _check_order(write)
    if write.entries and not (
        write.opens or write.closes or write.starts or write.cancels or write.taken or write.first_seq
    ):
        return Request(namespace, from_write(write), read, append_to=write.run_id)
    return Request(namespace, {"op": "write", "write": from_write(write)}, read)


def pause(namespace: str, write: Write, wakes: int, wake_at: float | None) -> Request[bool]:
    """Write the batch and pause the run, unless something came meanwhile."""
    _check_order(write)

    def read(reply: Reply, touched: Touched) -> bool:
        _note_write(reply, namespace, write, touched)
        if reply["paused"]:
            touched.touch(namespace, write.run_id, due=wake_at is not None)
        return reply["paused"]

    made = {**from_write(write), "pause": {"wakes": wakes, "wake_at": wake_at}}
    return Request(namespace, {"op": "write", "write": made}, read)


def complete(namespace: str, write: Write, outcome: Outcome) -> Request[None]:
    """Write the batch and end the run."""
    if not outcome.state.is_final:
        raise InvalidValue("outcome.state", f"{outcome.state.value} is not an end")
    _check_order(write)

    def read(reply: Reply, touched: Touched) -> None:
        _note_write(reply, namespace, write, touched)
        touched.touch_ended(namespace, write.run_id)

    made = {**from_write(write), "outcome": from_outcome(outcome)}
    return Request(namespace, {"op": "write", "write": made}, read)


def create_promise(namespace: str, new: NewPromise, token: str | None) -> Request[tuple[Promise, bool]]:
    """Create a promise that belongs to no run, or find it."""

    def read(reply: Reply, touched: Touched) -> tuple[Promise, bool]:
        promise = promise_of(reply["promise"])
        if reply["new"]:
            touched.runs.setdefault(namespace, set())
            touched.due = touched.due or new.due_at is not None
        elif promise.kind is not new.kind:
            raise IdConflict(new.id, f"it is a {promise.kind.value}, not a {new.kind.value}")
        elif promise.run_id is not None:
            raise IdConflict(new.id, f"it belongs to run {promise.run_id!r}")
        return promise, reply["created"] is True

    body = {"op": "create_promise", "new": from_promise(new), "token": token or _new_token()}
    return Request(namespace, body, read)


def settle(
    namespace: str, promise_id: str, kind: PromiseKind, settlement: Settlement, token: str | None
) -> Request[tuple[Promise, bool]]:
    """Settle a pending promise and tell the runs that wait for it."""
    if settlement.state is PromiseState.PENDING:
        raise InvalidValue("settlement.state", "a promise cannot be settled as pending")

    def read(reply: Reply, touched: Touched) -> tuple[Promise, bool]:
        if not reply:
            raise NotFound(kind.value, promise_id)
        promise = promise_of(reply["promise"])
        if "woken" in reply:
            touched.runs.setdefault(namespace, set())
            _note_woken(reply, namespace, touched)
        if reply["settled"]:
            return promise, True
        was_asked_before = "woken" not in reply and promise.request_id == settlement.request_id
        if settlement.request_id is not None and was_asked_before:
            if promise.state is settlement.state and same_json(promise.value, settlement.value):
                return promise, False
            raise RequestConflict(settlement.request_id, promise_id)
        raise AlreadySettled(promise_id, promise.state.value, promise.settled_by, promise.settled_at)

    body = {
        "op": "settle",
        "promise_id": promise_id,
        "kind": kind,
        "settlement": from_settlement(settlement),
        "token": token or _new_token(),
    }
    return Request(namespace, body, read)


def _new_token() -> str:
    """Return an id of a call, by which it is known when its reply was lost and it is sent again."""
    return str(uuid.uuid4())


def _check_order(write: Write) -> None:
    for seq, entry in enumerate(write.entries, write.entries[0].seq if write.entries else 0):
        if entry.seq != seq:
            raise InvalidValue("entries", f"seq {entry.seq} follows {seq - 1} in a write to {write.run_id!r}")


def _note_write(reply: Reply, namespace: str, write: Write, touched: Touched) -> None:
    if "lost" in reply:
        raise LeaseLost(write.run_id, write.epoch)
    if "next" in reply:
        raise InvalidValue(
            "entries",
            f"seq {write.entries[0].seq} where the journal of {write.run_id!r} goes on at {reply['next']}",
        )
    if write.entries:
        touched.touch(namespace, write.run_id)
    if write.opens:
        touched.runs.setdefault(namespace, set())
        touched.due = touched.due or any(new.due_at is not None for new in write.opens)
    for new in write.starts:
        due = new.deadline_at is not None or new.start_at is not None
        touched.touch(namespace, new.id, ready=True, due=due)
    _note_woken(reply, namespace, touched)


def _note_woken(reply: Reply, namespace: str, touched: Touched) -> None:
    for run_id in reply.get("woken") or ():
        touched.touch_woken(namespace, run_id, ready=reply["ready"])
