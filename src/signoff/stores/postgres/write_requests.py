"""Write operations of the Postgres store: the JSON that each sends, and the parsing of its reply."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from pydantic_core import PydanticSerializationError, to_json

from signoff.codec import encode_error
from signoff.errors import (
    IdConflict,
    InvalidState,
    InvalidValue,
    LeaseLost,
    NotFound,
    RequestConflict,
    RunCancelled,
)
from signoff.records import NewPromise, NewRun, Promise, PromiseKind, PromiseState, Run, Settlement
from signoff.stores.contract.leases import Claim, Outcome, Write
from signoff.stores.postgres.rows import (
    created_run,
    digest,
    from_entry,
    from_outcome,
    from_promise,
    from_run,
    from_settlement,
    from_write,
    message_of,
    promise_of_values,
    run_of,
    run_of_values,
)
from signoff.stores.shared.equality import NO_SESSION, OTHER_SESSION, same_json, settled_before
from signoff.stores.shared.group_commit import Operation
from signoff.stores.shared.readable_rows import readable
from signoff.stores.shared.touched_runs import TouchedRuns

T = TypeVar("T")

Reply = dict[str, Any]
Read = Callable[[Reply, TouchedRuns], T]

_BEFORE: Final = b'{"operations":['
_AFTER: Final = b"]}"
"""The JSON around an operation that is sent alone."""


class Request(Operation[T], ABC):
    """A write operation for the database. It is idempotent: it may be sent again when its reply was lost.

    Args:
        namespace: The tenant.
    """

    __slots__ = ("namespace",)

    def __init__(self, namespace: str) -> None:
        super().__init__()
        self.namespace = namespace

    @property
    @abstractmethod
    def text(self) -> bytes | memoryview:
        """Its JSON in a batch."""

    @property
    def alone(self) -> bytes:
        """Its JSON if it is sent alone."""
        return b"".join((_BEFORE, self.text, _AFTER))

    @property
    @abstractmethod
    def size(self) -> int:
        """Its approximate size in bytes."""

    @abstractmethod
    def take(self, reply: Reply, touched: TouchedRuns) -> None:
        """Store the result or the error from the reply, and record the touched runs."""


class JsonRequest(Request[T]):
    """An operation that the SQL function ``signoff.operate`` performs.

    Args:
        namespace: The tenant.
        body: The JSON to send, without the namespace.
        read: Returns the result in the reply, or raises; records the touched runs.

    Raises:
        InvalidValue: The body has text that is not valid Unicode.
    """

    __slots__ = ("_alone", "_read")

    def __init__(self, namespace: str, body: dict[str, Any], read: Read[T]) -> None:
        super().__init__(namespace)
        self._read = read
        # Serialized once, in the form for sending it alone: ``text`` is a view, so that long texts are not copied.
        self._alone = _json({"operations": [{"namespace": namespace, **body}]})

    @property
    def text(self) -> memoryview:
        return memoryview(self._alone)[len(_BEFORE) : -len(_AFTER)]

    @property
    def alone(self) -> bytes:
        return self._alone

    @property
    def size(self) -> int:
        return len(self._alone)

    def take(self, reply: Reply, touched: TouchedRuns) -> None:
        self.error = None
        if "claimable" in reply:
            touched.ready.add(self.namespace)
        for run_id in reply.get("turns") or ():
            touched.touch(self.namespace, run_id, due=True)
        touched.due = touched.due or "task_due" in reply
        try:
            self.result = self._read(reply, touched)
        except Exception as error:
            self.fail(error)


class Append(Request[None]):
    """A write of journal entries only. It is the most frequent operation and has fast paths.

    Args:
        namespace: The tenant.
        write: The entries.

    Attributes:
        values: The values of the statement for a single entry, if there is only one.

    Raises:
        InvalidValue: An entry has text that is not valid Unicode.
    """

    __slots__ = ("_rows", "values", "write")

    def __init__(self, namespace: str, write: Write) -> None:
        super().__init__(namespace)
        self.write = write
        if len(write.entries) == 1:
            self.values = _entry_values(namespace, write)
            self._rows = None
        else:
            self.values = None
            self._rows = self._json_of_rows()

    @property
    def list(self) -> bytes:
        """The journal rows, as a JSON array."""
        if self._rows is None:
            self._rows = self._json_of_rows()
        return self._rows

    @property
    def rows(self) -> memoryview:
        """The journal rows for a batch, as JSON without the brackets."""
        return memoryview(self.list)[1:-1]

    def _json_of_rows(self) -> bytes:
        owner = {"run_id": self.write.run_id, "namespace": self.namespace}
        return _json([{**owner, **from_entry(entry)} for entry in self.write.entries])

    @property
    def size(self) -> int:
        if self.values is None:
            return len(self.list)
        return sum(len(value) for value in self.values if value is not None)

    @property
    def head(self) -> bytes:
        """The run, the epoch and the first seq of the rows, as JSON."""
        write = self.write
        return to_json(
            {
                "run_id": write.run_id,
                "namespace": self.namespace,
                "epoch": write.epoch,
                "seq": write.entries[0].seq,
            }
        )

    @property
    def text(self) -> bytes:
        namespace, run_id = to_json(self.namespace), to_json(self.write.run_id)
        return b'{"op":"write","namespace":%b,"write":{"run_id":%b,"epoch":%d,"entries":%b}}' % (
            namespace,
            run_id,
            self.write.epoch,
            self.list,
        )

    def take(self, reply: Reply, touched: TouchedRuns) -> None:
        self.error = None
        try:
            _note_write(reply, self.namespace, self.write, touched)
        except Exception as error:
            self.fail(error)


def create_run(namespace: str, new: NewRun, token: str | None) -> Request[tuple[Run, bool]]:
    """Create a run, or find the one with the same id."""

    def read(reply: Reply, touched: TouchedRuns) -> tuple[Run, bool]:
        if "run" not in reply:
            created_at, position = float(reply["created_at"]), reply.get("position")
            run = created_run(namespace, new, created_at, position, waits="waits" in reply)
            due = run.wake_at is not None or new.deadline_at is not None
            touched.touch(namespace, run.id, ready=not run.is_delayed, due=due)
            return run, True
        run = run_of(reply["run"])
        if run.workflow != new.workflow:
            raise IdConflict(new.id, f"it is a run of {run.workflow!r}, not of {new.workflow!r}")
        if reply["run"]["arguments_digest"] != digest(new.arguments):
            raise IdConflict(new.id, f"it is a run of {run.workflow!r} with other arguments")
        if run.session_id != new.session_id:
            raise IdConflict(new.id, OTHER_SESSION if run.session_id else NO_SESSION)
        was_created = reply["created"] is True  # by this call, or an earlier attempt of it
        if was_created:
            touched.touch(namespace, run.id, ready=True, due=True)
        return run, was_created

    body = {"op": "create_run", "new": from_run(new), "token": token or new_token()}
    return JsonRequest(namespace, body, read)


def cancel(namespace: str, run_id: str, reason: str | None, by: str | None) -> Request[Run]:
    """Request a run's cancellation."""

    def read(reply: Reply, touched: TouchedRuns) -> Run:
        if not reply:
            raise NotFound("run", run_id)
        if reply["ended"]:
            touched.touch_ended(namespace, run_id)
        note_woken(reply, namespace, touched)
        return run_of(reply["run"])

    error = encode_error(RunCancelled(run_id, reason))
    body = {"op": "cancel", "run_id": run_id, "reason": reason, "by": by, "error": error}
    return JsonRequest(namespace, body, read)


def signal(
    namespace: str,
    run_id: str,
    name: str,
    value: str,
    by: str | None,
    request_id: str | None,
    token: str | None,
) -> Request[bool]:
    """Send a signal to a run."""
    token = token or new_token()
    known_as = token if request_id is None else request_id

    def read(reply: Reply, touched: TouchedRuns) -> bool:
        if (known := reply.get("known")) is not None:
            if known[1] is None:
                raise RequestConflict(known_as, run_id, known[0])
            if known[0] != name or not same_json(known[1], value):
                raise RequestConflict(known_as, run_id)
            return known[2] == token
        if "missing" in reply:
            raise NotFound("run", run_id)
        if "ended" in reply:
            raise InvalidState(run_id, reply["ended"], "signal")
        note_woken(reply, namespace, touched)
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
    return JsonRequest(namespace, body, read)


def claim(
    namespace: str,
    worker_id: str,
    group: str,
    workflows: Sequence[str],
    limit: int,
    lease_seconds: float,
    token: str,
) -> Request[list[Claim]]:
    """Lease ready runs to a worker."""

    def read(reply: Reply, touched: TouchedRuns) -> list[Claim]:
        touched.due = touched.due or "due" in reply
        return [claim_of(made, namespace, touched) for made in reply.get("claims") or ()]

    return JsonRequest(namespace, claim_body(worker_id, group, workflows, limit, lease_seconds, token), read)


def claim_body(
    worker_id: str, group: str, workflows: Sequence[str], limit: int, lease_seconds: float, token: str
) -> dict[str, Any]:
    """Return the JSON of a claim."""
    return {
        "op": "claim",
        "worker_id": worker_id,
        "group": group,
        "workflows": list(workflows),
        "limit": limit,
        "lease_seconds": lease_seconds,
        "token": token,
    }


def claim_of(made: Sequence[Any], namespace: str, touched: TouchedRuns) -> Claim:
    """Return the claim in its part of a reply."""
    values, messages = made
    run = run_of_values(values)
    touched.touch(namespace, run.id)
    waiting = readable(messages or (), message_of, lambda _: f"a message of run {run.id!r}")
    return Claim(run, tuple(waiting))


def append(namespace: str, write: Write) -> Request[None]:
    """Write one batch, fenced by the lease's epoch."""
    _check_order(write)
    if write.entries and not (
        write.opens
        or write.closes
        or write.starts
        or write.cancels
        or write.taken
        or write.first_seq
        or write.unpublishes
    ):
        return Append(namespace, write)

    def read(reply: Reply, touched: TouchedRuns) -> None:
        _note_write(reply, namespace, write, touched)

    return JsonRequest(namespace, {"op": "write", "write": from_write(write)}, read)


def pause(namespace: str, write: Write, wakes: int, wake_at: float | None) -> Request[bool]:
    """Write the batch and pause the run, unless a message has arrived meanwhile."""
    _check_order(write)

    def read(reply: Reply, touched: TouchedRuns) -> bool:
        _note_write(reply, namespace, write, touched)
        if reply["paused"]:
            touched.touch(namespace, write.run_id, due=wake_at is not None)
        return reply["paused"]

    made = {**from_write(write), "pause": {"wakes": wakes, "wake_at": wake_at}}
    return JsonRequest(namespace, {"op": "write", "write": made}, read)


def complete(namespace: str, write: Write, outcome: Outcome) -> Request[None]:
    """Write the batch and end the run."""
    if not outcome.state.is_final:
        raise InvalidValue("outcome.state", f"{outcome.state.value} is not an end")
    _check_order(write)

    def read(reply: Reply, touched: TouchedRuns) -> None:
        _note_write(reply, namespace, write, touched)
        touched.touch_ended(namespace, write.run_id)

    made = {**from_write(write), "outcome": from_outcome(outcome)}
    return JsonRequest(namespace, {"op": "write", "write": made}, read)


def create_promise(namespace: str, new: NewPromise, token: str | None) -> Request[tuple[Promise, bool]]:
    """Create a standalone promise, or find the one with the same id."""

    def read(reply: Reply, touched: TouchedRuns) -> tuple[Promise, bool]:
        promise = promise_of_values(reply["promise"])
        if reply["new"]:
            touched.runs.setdefault(namespace, set())
            touched.due = touched.due or _is_timed(new)
        elif promise.kind is not new.kind:
            raise IdConflict(new.id, f"it is a {promise.kind.value}, not a {new.kind.value}")
        elif promise.run_id is not None:
            raise IdConflict(new.id, f"it belongs to run {promise.run_id!r}")
        return promise, reply["created"] is True

    body = {"op": "create_promise", "new": from_promise(new), "token": token or new_token()}
    return JsonRequest(namespace, body, read)


def settle(
    namespace: str, promise_id: str, kind: PromiseKind, settlement: Settlement, token: str | None
) -> Request[tuple[Promise, bool]]:
    """Settle a pending promise and wake the runs that wait for it."""
    if settlement.state is PromiseState.PENDING:
        raise InvalidValue("settlement.state", "a promise cannot be settled as pending")

    def read(reply: Reply, touched: TouchedRuns) -> tuple[Promise, bool]:
        if not reply:
            raise NotFound(kind.value, promise_id)
        refuse_conflict(reply, promise_id)
        promise = promise_of_values(reply["promise"])
        if "woken" in reply:
            touched.runs.setdefault(namespace, set())
            note_woken(reply, namespace, touched)
            if promise.run_id is None and promise.state is not PromiseState.PENDING:
                touched.settled.add(namespace)
        if reply["settled"] or promise.state is PromiseState.PENDING:
            return promise, reply["settled"] is True
        was_asked_before = "woken" not in reply and promise.request_id == settlement.request_id
        return settled_before(promise, settlement, is_repeated=was_asked_before)

    body = {
        "op": "settle",
        "promise_id": promise_id,
        "kind": kind,
        "settlement": from_settlement(settlement),
        "token": token or new_token(),
    }
    return JsonRequest(namespace, body, read)


def refuse_conflict(reply: Reply, promise_id: str) -> None:
    """Raise RequestConflict if the execution has used the request id for another answer or signal."""
    if "conflict" in reply:
        request_id, used_for = reply["conflict"]
        raise RequestConflict(request_id, promise_id, used_for)


def _entry_values(namespace: str, write: Write) -> Sequence[bytes | None]:
    [entry] = write.entries
    call, name, value, error, details = entry.call, entry.name, entry.value, entry.error, entry.details
    try:
        return (
            namespace.encode(),
            write.run_id.encode(),
            b"%d" % write.epoch,
            b"%d" % entry.seq,
            b"%r" % entry.at,
            entry.kind._value_.encode(),
            None if entry.n is None else b"%d" % entry.n,
            None if call is None else call._value_.encode(),
            None if name is None else name.encode(),
            None if value is None else value.encode(),
            None if error is None else error.encode(),
            None if details is None else details.encode(),
        )
    except UnicodeEncodeError as error:
        raise _not_unicode(error) from error


def _json(body: object) -> bytes:
    try:
        return to_json(body)
    except PydanticSerializationError as error:
        raise _not_unicode(error) from error


def _not_unicode(error: Exception) -> InvalidValue:
    return InvalidValue("text", f"not Unicode text: {error}")


def new_token() -> str:
    """Return a unique id for a call, which identifies it when it is sent again after a lost reply."""
    return str(uuid.uuid4())


def _check_order(write: Write) -> None:
    for seq, entry in enumerate(write.entries, write.entries[0].seq if write.entries else 0):
        if entry.seq != seq:
            raise InvalidValue("entries", f"seq {entry.seq} follows {seq - 1} in a write to {write.run_id!r}")


def _is_timed(new: NewPromise) -> bool:
    return new.due_at is not None or new.act_at is not None


def _note_write(reply: Reply, namespace: str, write: Write, touched: TouchedRuns) -> None:
    if "lost" in reply:
        raise LeaseLost(write.run_id, write.epoch)
    if "next" in reply:
        raise InvalidValue(
            "entries",
            f"seq {write.entries[0].seq} where the journal of {write.run_id!r} continues at {reply['next']}",
        )
    if write.entries:
        touched.touch(namespace, write.run_id)
    if write.opens:
        touched.runs.setdefault(namespace, set())
        touched.due = touched.due or any(_is_timed(new) for new in write.opens)
    for new in write.starts:
        due = new.deadline_at is not None or new.start_at is not None
        touched.touch(namespace, new.id, ready=True, due=due)
    note_woken(reply, namespace, touched)


def note_woken(reply: Reply, namespace: str, touched: TouchedRuns) -> None:
    """Record the runs that received a message."""
    for run_id in reply.get("woken") or ():
        touched.touch_woken(namespace, run_id)
