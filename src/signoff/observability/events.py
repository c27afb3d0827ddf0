"""Telemetry events of this process, for metrics, traces and subscribers of your own.

A replay announces nothing. Events about a run's journal are announced after the entry is durable. No event has
arguments, results, answers or the text of a question; ``AttemptFailed`` has the exception.

Subscribers are called synchronously, on the thread of the event, and must be quick. ``AttemptStarted`` and the
attempt's end are announced in the step's context: the step sees ``ContextVar`` values that a subscriber sets there.
Callers check ``if events.subscribers`` before they make an event, so without subscribers events cost nothing.
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
    """The run of an event, under one lease.

    Attributes:
        namespace: Its tenant.
        id: Its id.
        workflow: The name of its workflow.
        group: The group whose workers run it.
        epoch: The number of the lease.
        worker_id: The worker that holds the lease.
        parent_id: The run that waits for it.
        traceparent: Its W3C trace context.
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
        """Return the info of a run."""
        trace = traceparent_of(run.namespace, run.id, run.traceparent)
        return cls(
            run.namespace, run.id, run.workflow, run.group, run.epoch, run.worker_id, run.parent_id, trace
        )


@dataclass(frozen=True, slots=True)
class RunClaimed:
    """A worker has claimed a run.

    ``waited_seconds``: how long it was ready to start; None if it had started before.
    """

    run: RunInfo
    waited_seconds: float | None


@dataclass(frozen=True, slots=True)
class RunPaused:
    """A run waits, and its worker has released it."""

    run: RunInfo
    held_seconds: float


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A run has ended. ``seconds`` counts from its creation; ``retryable`` means that its code must be fixed."""

    run: RunInfo
    held_seconds: float
    state: RunState
    retryable: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class RunReleased:
    """A stopping worker has released a run, which another worker will claim."""

    run: RunInfo
    held_seconds: float


@dataclass(frozen=True, slots=True)
class RunLost:
    """A worker has lost the lease on a run, or dropped the run after an error in the engine."""

    run: RunInfo
    held_seconds: float


@dataclass(frozen=True, slots=True)
class WorkerTakenOver:
    """A worker of this host has died, and ``runs`` of its runs were made ready again."""

    worker_id: str
    runs: int


@dataclass(frozen=True, slots=True)
class AttemptInfo:
    """An attempt of a step.

    Attributes:
        run: The run.
        n: The number of the step's call.
        step: The step's name.
        attempt: The number of the attempt, from 1.
        effect: ``repeatable`` or ``once``.
        idempotency_key: The key that the step sees.
    """

    run: RunInfo
    n: int
    step: str
    attempt: int
    effect: str
    idempotency_key: str


@dataclass(frozen=True, slots=True)
class RunSetAside:
    """A worker has suspended a run without progress: it has cost ``takeovers`` workers in turn, lost or blocked."""

    run: RunInfo
    takeovers: int


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """A step's function is about to be called. A ``durable=False`` step is called again after a replay."""

    attempt: AttemptInfo


@dataclass(frozen=True, slots=True)
class ThreadAwaited:
    """A plain-function step has got a thread after waiting ``seconds``, because all threads were busy.

    It is announced in that thread, before the call. The attempt's time does not include the wait.
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
    """A step's function has raised or timed out. ``retried``: whether there will be another attempt."""

    attempt: AttemptInfo
    seconds: float
    error: Exception
    retried: bool


@dataclass(frozen=True, slots=True)
class AttemptCancelled:
    """An attempt was cancelled: by the code, or because the worker stops or has lost the run."""

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
    """A wait of a run has ended: by the answer, settlement or signal, or by its deadline.

    Attributes:
        run: The run.
        n: The number of the call.
        kind: ``question``, ``promise`` or ``signal``.
        name: The signal's name.
        state: ``resolved``, ``rejected``, ``cancelled`` or ``timed_out``.
        by: The user who answered, settled or signalled, if known.
        started_at: When the run began to wait, in unix seconds.
        settled_at: When the promise was settled or the signal was sent.
        ended_at: When the run received it.
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
    """A deadline has fired in a run, or a schedule has fired (``run`` is then None).

    ``kind`` is ``timer``, ``question``, ``promise``, ``signal``, ``run`` or ``schedule``.
    """

    run: RunInfo | None
    kind: str
    late_seconds: float


@dataclass(frozen=True, slots=True)
class AnswerGiven:
    """A question was answered through this process, or the answer was refused.

    Attributes:
        namespace: The tenant.
        question_id: The question.
        run_id: The run that asked it.
        workflow: The run's workflow.
        traceparent: The run's trace.
        by: The user who answered, if known.
        outcome: ``accepted``, or the name of the error that refused it.
        seconds: How long the checks and the settlement took.
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
    """A channel of this process has tried to deliver a notification, and the outcome is stored.

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
    """A store of this process committed ``operations`` at once. ``store`` is ``sqlite`` or ``postgres``."""

    store: str
    operations: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ClockJumped:
    """The clock of a store was changed: the machine's (SQLite), the database's or the server's.

    Attributes:
        store: ``sqlite``, ``postgres`` or ``remote``.
        seconds: The change in seconds, negative if it was set back.
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
"""All subscribers. Change it with ``subscribe``."""
_changing = threading.Lock()


def subscribe(subscriber: Subscriber) -> Callable[[], None]:
    """Call a function with each event of this process. Its exceptions are logged and otherwise ignored.

    Returns:
        A function that unsubscribes it.

    Example::

        def count(event: events.Event) -> None:
            if isinstance(event, events.RunEnded):
                statsd.increment(f"runs.{event.state}")

        events.subscribe(count)
    """
    global subscribers  # noqa: PLW0603

    def once(event: Event) -> None:  # an object of its own, so that one function may subscribe twice
        subscriber(event)

    with _changing:
        subscribers = (*subscribers, once)

    def unsubscribe() -> None:
        global subscribers  # noqa: PLW0603
        with _changing:
            subscribers = tuple(other for other in subscribers if other is not once)

    return unsubscribe


def announce(event: Event) -> None:
    """Call all subscribers with an event."""
    for subscriber in subscribers:
        try:
            subscriber(event)
        except (Exception, SystemExit, GeneratorExit):
            log.exception("a subscriber failed at %s", type(event).__name__)
