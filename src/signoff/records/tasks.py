"""Tasks: the execution of a promise by a worker that speaks the durable promise protocol, such as a Resonate SDK.

An invocation is a promise with a task. The task is sent to its target; a process acquires it, runs the function, and
settles the promise. While the function awaits other promises, its task is suspended and costs one row.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from signoff.records.promises import NewPromise, Promise

RESEND_SECONDS: Final = 30.0
"""A message that no process has reacted to is sent again after this time."""


class TaskState(StrEnum):
    """State of a task. ``fulfilled`` is final: its promise is settled."""

    PENDING = "pending"  # to be sent, or sent and not yet acquired
    ACQUIRED = "acquired"  # leased by a process
    SUSPENDED = "suspended"  # awaits promises
    HALTED = "halted"  # stopped by an operator
    FULFILLED = "fulfilled"


@dataclass(frozen=True, slots=True)
class TaskLease:
    """The lease that a process takes on a task."""

    pid: str  # the process
    ttl: int  # milliseconds until it expires, unless extended


@dataclass(frozen=True, slots=True)
class TaskRef:
    """A task in one version. Each acquisition raises the version, so an older holder can write nothing more."""

    id: str
    version: int


@dataclass(frozen=True, slots=True)
class NewInvocation:
    """A promise of the protocol to be created, and its task if it has a target."""

    promise: NewPromise
    target: str | None = None  # address of the workers; None: no task
    branch: str | None = None  # promises with the same branch are returned together
    parent: str | None = None  # the task that created it, with which it is returned, too
    send_at: float | None = None  # when the task is sent; None: at once
    lease: TaskLease | None = None  # acquires the task at once, without sending it
    holder: TaskRef | None = None  # the task that creates it: refused unless acquired in this version

    @property
    def id(self) -> str:
        """The id of the promise."""
        return self.promise.id


@dataclass(frozen=True, slots=True)
class Task:
    """The execution of a promise. It has the promise's id.

    Attributes:
        target: Address of the workers that it is sent to.
        version: Number of acquisitions.
        resumes: Ids of awaited promises that were settled and that no acquisition has seen yet.
        pid: The process that holds it.
        ttl: Milliseconds of its lease.
    """

    namespace: str
    id: str
    state: TaskState
    target: str
    version: int = 0
    resumes: tuple[str, ...] = ()
    pid: str | None = None
    ttl: int | None = None


@dataclass(frozen=True, slots=True)
class Invocation:
    """A promise and its task.

    Attributes:
        was_created: Whether this call created the promise.
        resumes: The settled promises for which the task was resumed, if this call acquired it.
    """

    promise: Promise
    task: Task | None = None
    was_created: bool = False
    resumes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskMessage:
    """A message to a process: a task to execute, or, for a listener, a settled promise.

    It is sent again ``RESEND_SECONDS`` later, until the task is acquired or the message is finished.
    """

    namespace: str
    address: str
    task: Task | None = None
    promise: Promise | None = None


@dataclass(frozen=True, slots=True)
class Listener:
    """An address that is sent a promise once it is settled."""

    promise_id: str
    address: str


PUSH_QUEUE: Final = "push"
"""The queue of all HTTP URLs."""


def queue_of(address: str) -> str:
    """Return the queue of an address: what has to be polled to receive its messages.

    Every process of a group polls the queue of ``poll://any@group`` (any path is only a preference) and its own,
    ``poll://uni@group/pid``. A server polls ``PUSH_QUEUE``, whose messages it posts to their URLs. Any other address is
    its own queue.

    Example::

        queue_of("poll://any@default/worker-1")  # "poll://any@default"
    """
    if address.startswith(("http://", "https://")):
        return PUSH_QUEUE
    scheme, separator, rest = address.partition("://any@")
    if separator and scheme == "poll":
        return f"{scheme}{separator}{rest.partition('/')[0]}"
    return address
