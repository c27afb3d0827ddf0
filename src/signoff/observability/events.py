"""What happens, told to whoever measures: metrics, traces, or a subscriber of your own.

Only what really happens is announced: a replay announces nothing. What is told of a run's journal is durable when it
is announced. No event holds arguments, results, answers or the text of a question; an ``AttemptFailed`` has the
exception.

Subscribers are called where it happens, on whatever thread that is, and must be quick. ``AttemptStarted`` and the
attempt's end are announced in the context of the step: what a subscriber sets in a ``ContextVar`` then, the step sees.
While nobody subscribes, nothing is made: who announces asks ``if telemetry.subscribers`` first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from signoff.observability.trace_context import traceparent_of
from signoff.records import CallKind, Run, RunState
from signoff.runtime.loggers import own_logger

log = own_logger("signoff.telemetry")


@dataclass(frozen=True, slots=True)
class RunInfo:
    """The run that an event is about, under one lease.

    Attributes:
        namespace: Its tenant.
        id: Its id.
        workflow: Its workflow's name.
        group: The group whose workers run it.
        epoch: The number of the lease.
        worker_id: The worker that holds it.
        parent_id: The run that waits for it.
        traceparent: Its trace, as W3C writes it.
    """

    namespace: str
    id: str
    workflow: str
    group: str
    epoch: int
    worker_id: str | None
    parent_id: str | None
    traceparent: str

    @classmethod
    def of(cls, run: Run) -> RunInfo:
        """Take it from a run."""
        trace = traceparent_of(run.namespace, run.id, run.traceparent)
        return cls(
            run.namespace, run.id, run.workflow, run.group, run.epoch, run.worker_id, run.parent_id, trace
        )


@dataclass(frozen=True, slots=True)
class RunClaimed:
    """A worker has taken a run up.

    ``waited_seconds``: how long it could have been started already; None if it was started before.
    """

    run: RunInfo
    waited_seconds: float | None


@dataclass(frozen=True, slots=True)
class RunPaused:
    """A run waits, and its worker has let go of it."""

    run: RunInfo
    held_seconds: float


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A run has ended. ``seconds`` counts from when it was created; ``retryable`` means that its code is at fault."""

    run: RunInfo
    held_seconds: float
    state: RunState
    retryable: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class RunReleased:
    """A worker has stopped driving a run because it is being stopped; another one takes it up."""

    run: RunInfo
    held_seconds: float


@dataclass(frozen=True, slots=True)
class RunLost:
    """A worker has lost the lease on a run, or dropped it by an error of the engine."""

    run: RunInfo
    held_seconds: float


@dataclass(frozen=True, slots=True)
class WorkerTakenOver:
    """A worker of this host has died, and so many of its runs were made ready again."""

    worker_id: str
    runs: int


@dataclass(frozen=True, slots=True)
class AttemptInfo:
    """An attempt of a step.

    Attributes:
        run: The run.
        n: The number of the step's call.
        step: The step's name.
        attempt: Which attempt it is, from 1.
        effect: ``repeatable`` or ``once``.
        idempotency_key: What the step sees.
    """

    run: RunInfo
    n: int
    step: str
    attempt: int
    effect: str
    idempotency_key: str


@dataclass(frozen=True, slots=True)
class RunSetAside:
    """A worker has suspended a run that gets nowhere: ``takeovers`` workers in turn were lost or blocked with it."""

    run: RunInfo
    takeovers: int


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """A step's function is about to be called. A ``durable=False`` step is called again after a replay."""

    attempt: AttemptInfo


@dataclass(frozen=True, slots=True)
class ThreadAwaited:
    """A step that is a plain function has a thread, after it had to wait ``seconds`` for one: all were taken.

    Announced in that thread, when the function is about to be called. The time is not counted in the attempt's.
    """

    attempt: AttemptInfo
    seconds: float


@dataclass(frozen=True, slots=True)
class AttemptSucceeded:
    """A step's function has returned."""

    attempt: AttemptInfo
    seconds: float


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """A step's function has raised, or took too long. ``retried``: whether there will be another attempt."""

    attempt: AttemptInfo
    seconds: float
    error: Exception
    retried: bool


@dataclass(frozen=True, slots=True)
class AttemptCancelled:
    """An attempt was given up: by the code, or because the worker stops or has lost the run."""

    attempt: AttemptInfo
    seconds: float


@dataclass(frozen=True, slots=True)
class WaitStarted:
    """A run waits for a question, a promise or a signal. ``name`` is the signal's."""

    run: RunInfo
    n: int
    kind: CallKind
    name: str | None


@dataclass(frozen=True, slots=True)
class WaitEnded:
    """What a run waited for has come, or its deadline.

    Attributes:
        run: The run.
        n: The number of the call.
        kind: ``question``, ``promise`` or ``signal``.
        name: The signal's name.
        state: ``resolved``, ``rejected``, ``cancelled`` or ``timed_out``.
        by: Who answered, settled or signalled, if they said.
        started_at: When the run began to wait, in unix seconds.
        settled_at: When it came.
        ended_at: When the run got it.
    """

    run: RunInfo
    n: int
    kind: CallKind
    name: str | None
    state: str
    by: str | None
    started_at: float
    settled_at: float
    ended_at: float


@dataclass(frozen=True, slots=True)
class DeadlineServed:
    """A deadline has passed and a run was told, or a schedule has fired, which is of no run.

    ``kind`` is ``timer``, ``question``, ``promise``, ``signal``, ``run`` or ``schedule``.
    """

    run: RunInfo | None
    kind: str
    late_seconds: float


@dataclass(frozen=True, slots=True)
class AnswerGiven:
    """Somebody has answered a question through this process, or tried to.

    Attributes:
        namespace: The tenant.
        question_id: The question.
        run_id: The run that asked it.
        workflow: The run's workflow.
        traceparent: The run's trace.
        by: Who answered, if they said.
        outcome: ``accepted``, or the name of the error with which it was refused.
        seconds: How long it took to check and settle.
    """

    namespace: str
    question_id: str
    run_id: str | None
    workflow: str | None
    traceparent: str | None
    by: str | None
    outcome: str
    seconds: float


@dataclass(frozen=True, slots=True)
class DeliveryAttempted:
    """A channel of this process has tried to deliver a notification, and the store knows what came of it.

    Attributes:
        namespace: The tenant.
        channel: The channel.
        delivery_id: The delivery, the same over all attempts.
        question_id: The question.
        outcome: ``delivered``, ``dropped``, ``retried`` or ``dead``.
        seconds: How long the attempt took.
    """

    namespace: str
    channel: str
    delivery_id: str
    question_id: str
    outcome: str
    seconds: float


@dataclass(frozen=True, slots=True)
class StoreCommitted:
    """A store of this process has committed so many operations at once. ``store`` is ``sqlite`` or ``postgres``."""

    store: str
    operations: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ClockJumped:
    """The clock of a store was set: the machine's (SQLite), the database's or the server's.

    Attributes:
        store: ``sqlite``, ``postgres`` or ``remote``.
        seconds: By how much, in seconds; below 0: back.
    """

    store: str
    seconds: float


@dataclass(frozen=True, slots=True)
class CheckpointAnchored:
    """A checkpoint of an audit trail was sent to an anchor. ``outcome`` is ``kept`` or ``failed``."""

    anchor: str
    outcome: str


Event = (
    RunClaimed
    | RunPaused
    | RunEnded
    | RunReleased
    | RunLost
    | WorkerTakenOver
    | RunSetAside
    | AttemptStarted
    | ThreadAwaited
    | AttemptSucceeded
    | AttemptFailed
    | AttemptCancelled
    | WaitStarted
    | WaitEnded
    | DeadlineServed
    | AnswerGiven
    | DeliveryAttempted
    | StoreCommitted
    | ClockJumped
    | CheckpointAnchored
)
Subscriber = Callable[[Event], None]

subscribers: tuple[Subscriber, ...] = ()
"""Who is told. Change it with ``subscribe``."""
_changing = threading.Lock()


def subscribe(subscriber: Subscriber) -> Callable[[], None]:
    """Have a function called with each event of this process.

    What it raises is logged and harms nobody.

    Returns:
        A function that ends it.

    Example::

        def count(event: telemetry.Event) -> None:
            if isinstance(event, telemetry.RunEnded):
                statsd.increment(f"runs.{event.state}")

        telemetry.subscribe(count)
    """
    global subscribers  # noqa: PLW0603

    def once(event: Event) -> None:  # so that one function may subscribe twice
        subscriber(event)

    with _changing:
        subscribers = (*subscribers, once)

    def unsubscribe() -> None:
        global subscribers  # noqa: PLW0603
        with _changing:
            subscribers = tuple(other for other in subscribers if other is not once)

    return unsubscribe


def announce(event: Event) -> None:
    """Tell everybody who subscribed."""
    for subscriber in subscribers:
        try:
            subscriber(event)
        except (Exception, SystemExit, GeneratorExit):
            log.exception("a subscriber failed at %s", type(event).__name__)
