"""Invocations of the durable promise protocol, and the promises that each has created: its calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from signoff.records.promises import Promise, PromiseKind, PromiseState
from signoff.records.tasks import Task, TaskState


@dataclass(frozen=True, slots=True)
class InvocationFilter:
    """Which invocations to list; None means any.

    Attributes:
        state: The state of their promises.
        task: The state of their tasks.
        nested: Whether to list also those that another invocation has created.
    """

    state: PromiseState | None = None
    task: TaskState | None = None
    nested: bool = False


@dataclass(frozen=True, slots=True)
class InvocationNode:
    """A promise in the call tree of an invocation.

    Attributes:
        promise: The promise, with its payloads as in lists.
        task: Its task; None if it is sent to no worker.
        has_run: Whether a run of Signoff has its id: it executes the promise, or called the function and waits.
        has_calls: Whether it has created promises.
    """

    promise: Promise
    task: Task | None = None
    has_run: bool = False
    has_calls: bool = False


class CallForm(StrEnum):
    """What settles a promise in a call tree."""

    REMOTE = "remote"  # a worker that its task is sent to
    LOCAL = "local"  # the process that created it
    TIMER = "timer"  # its deadline
    QUESTION = "question"  # a person
    PLAIN = "plain"  # any program or operator


@dataclass(frozen=True, slots=True)
class InvocationInfo:
    """A promise of a call tree as the HTTP API shows it: an invocation, or one of its calls."""

    namespace: str
    id: str
    kind: PromiseKind
    state: PromiseState
    created_at: float
    form: CallForm | None = None  # None: a list omits its data, or its key is missing
    has_run: bool = False  # a run of Signoff with this id executes it, or called it and waits
    has_calls: bool = False
    parent_id: str | None = None  # the promise that created it; it may be missing
    run_id: str | None = None  # the run of Signoff that waits for it
    function: str | None = None
    tags: Mapping[str, str] | None = field(default=None, hash=False)  # None: not a promise of the protocol
    data: str | None = None  # JSON: the arguments of a call; else what its creator added
    value: str | None = None  # JSON: the result, or the reason of a rejection
    due_at: float | None = None
    settled_at: float | None = None
    settled_by: str | None = None
    note: str | None = None
    target: str | None = None
    task: TaskState | None = None
    version: int | None = None  # how often its task was acquired
    pid: str | None = None  # the process that holds it
    ttl: int | None = None  # milliseconds of its lease
    left_out: Mapping[str, int] | None = field(default=None, hash=False)
