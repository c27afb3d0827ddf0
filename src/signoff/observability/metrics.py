"""Prometheus metrics of this process, computed from the events of ``signoff.observability.events``.

They are in prometheus_client's default registry, beside the metrics of the process and of your program.
Labels are names from code (workflow, group, step) and states, never ids.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from prometheus_client import Counter, Histogram

from signoff.observability import events
from signoff.observability.events import (
    AnswerGiven,
    AttemptCancelled,
    AttemptFailed,
    AttemptInfo,
    AttemptStarted,
    AttemptSucceeded,
    CheckpointAnchored,
    ClockJumped,
    DeadlineServed,
    DeliveryAttempted,
    Event,
    RunClaimed,
    RunEnded,
    RunLost,
    RunPaused,
    RunReleased,
    RunSetAside,
    StoreCommitted,
    ThreadAwaited,
    WaitEnded,
    WaitStarted,
    WorkerTakenOver,
)

MOST_STEPS: Final = 500
"""How many step names have metrics of their own; the rest is ``(other)``. Names made at run time are unbounded."""
OTHER: Final = "(other)"

_SHORT = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5)
_STEP = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800)
_LATE = (0.1, 0.5, 1, 5, 10, 60, 300, 3600, 86400)
_LONG = (0.1, 1, 10, 60, 300, 1800, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400)
_OF_RUN = ("workflow", "group")

CLAIMED = Counter("signoff_runs_claimed_total", "Runs claimed by workers of this process.", _OF_RUN)
LEFT = Counter(
    "signoff_runs_left_total",
    "Runs that workers of this process no longer hold: paused, ended, released at a stop, or lost with their lease.",
    (*_OF_RUN, "how"),
)
ENDED = Counter("signoff_runs_ended_total", "Runs that ended here.", (*_OF_RUN, "state"))
DURATION = Histogram(
    "signoff_run_duration_seconds",
    "From a run's creation to its end, pauses included.",
    (*_OF_RUN, "state"),
    buckets=_LONG,
)
HELD = Histogram(
    "signoff_run_held_seconds", "How long a worker held a run, from claim to release.", _OF_RUN, buckets=_STEP
)
START_DELAY = Histogram(
    "signoff_run_start_delay_seconds",
    "How long a run was ready to start before a worker claimed it.",
    _OF_RUN,
    buckets=_LATE,
)
TAKEN_OVER = Counter("signoff_runs_taken_over_total", "Runs of dead workers of this host, made ready again.")

SET_ASIDE = Counter(
    "signoff_runs_set_aside_total",
    "Runs that workers of this process suspended after takeovers without progress.",
    _OF_RUN,
)

_OF_STEP = ("workflow", "step")
ATTEMPTS = Counter(
    "signoff_step_attempts_total",
    "Step attempts that ended here, by outcome. After a retried one there is another attempt.",
    (*_OF_STEP, "outcome"),
)
ATTEMPT_SECONDS = Histogram(
    "signoff_step_attempt_seconds", "How long step attempts took.", _OF_STEP, buckets=_STEP
)

THREAD_WAIT_SECONDS = Histogram(
    "signoff_step_thread_wait_seconds",
    "How long plain-function steps waited for a thread, if all were busy.",
    ("group",),
    buckets=_STEP,
)

_OF_WAIT = ("workflow", "kind")
WAITS_STARTED = Counter(
    "signoff_waits_started_total", "Questions, promises and signals waited for.", _OF_WAIT
)
WAITED = Histogram(
    "signoff_wait_seconds",
    "How long runs waited for questions, promises and signals.",
    (*_OF_WAIT, "state"),
    buckets=_LONG,
)
ANSWERS = Counter(
    "signoff_answers_total", "Answers given through this process, including refused ones.", ("outcome",)
)
DELIVERIES = Counter(
    "signoff_deliveries_total", "Attempts of this process to deliver notifications.", ("channel", "outcome")
)
ANCHORED = Counter(
    "signoff_audit_checkpoints_total",
    "Checkpoints of audit trails that this process sent to anchors.",
    ("anchor", "outcome"),
)
LATE = Histogram("signoff_deadline_late_seconds", "How late deadlines fired.", ("kind",), buckets=_LATE)
COMMIT_SECONDS = Histogram(
    "signoff_store_commit_seconds", "How long commits took.", ("store",), buckets=_SHORT
)
COMMITTED = Counter("signoff_store_operations_total", "Committed operations of the store.", ("store",))

JUMPS = Counter(
    "signoff_clock_jumps_total",
    "How often SQLite stores saw a change of the machine's clock by more than a second.",
    ("store",),
)

_HOW: Final = {RunPaused: "paused", RunEnded: "ended", RunReleased: "released", RunLost: "lost"}
_lock = threading.Lock()
_steps: set[tuple[str, str]] = set()  # with metrics of their own
_collectors = 0
_end: Callable[[], None] | None = None


@contextmanager
def collecting() -> Generator[None]:
    """Count the events of this process while in the block. Nested and concurrent blocks share the metrics."""
    global _collectors, _end  # noqa: PLW0603
    with _lock:
        _collectors += 1
        if _end is None:
            _end = events.subscribe(count)
    try:
        yield
    finally:
        with _lock:
            _collectors -= 1
            if _collectors == 0:
                _end()
                _end = None


def count(event: Event) -> None:
    """Count an event."""
    match event:
        case RunClaimed() | RunPaused() | RunReleased() | RunLost() | RunEnded():
            _count_run(event)
        case AttemptStarted():
            pass
        case ThreadAwaited():
            THREAD_WAIT_SECONDS.labels(event.attempt.run.group).observe(event.seconds)
        case RunSetAside():
            SET_ASIDE.labels(event.run.workflow, event.run.group).inc()
        case AttemptSucceeded():
            _count_attempt(event.attempt, event.seconds, "succeeded")
        case AttemptFailed():
            _count_attempt(event.attempt, event.seconds, "retried" if event.retried else "failed")
        case AttemptCancelled():
            _count_attempt(event.attempt, event.seconds, "cancelled")
        case WaitStarted():
            WAITS_STARTED.labels(event.run.workflow, event.kind).inc()
        case WaitEnded():
            waited = max(0.0, event.settled_at - event.started_at)
            WAITED.labels(event.run.workflow, event.kind, event.state).observe(waited)
        case DeadlineServed():
            LATE.labels(event.kind).observe(event.late_seconds)
        case AnswerGiven():
            ANSWERS.labels(event.outcome).inc()
        case DeliveryAttempted():
            DELIVERIES.labels(event.channel, event.outcome).inc()
        case WorkerTakenOver():
            TAKEN_OVER.inc(event.runs)
        case StoreCommitted() | ClockJumped() | CheckpointAnchored():
            _count_of_store(event)


def _count_of_store(event: StoreCommitted | ClockJumped | CheckpointAnchored) -> None:
    if isinstance(event, CheckpointAnchored):
        ANCHORED.labels(event.anchor, event.outcome).inc()
        return
    if isinstance(event, ClockJumped):
        JUMPS.labels(event.store).inc()
        return
    COMMIT_SECONDS.labels(event.store).observe(event.seconds)
    COMMITTED.labels(event.store).inc(event.operations)


def _count_run(event: RunClaimed | RunPaused | RunReleased | RunLost | RunEnded) -> None:
    run = (event.run.workflow, event.run.group)
    if isinstance(event, RunClaimed):
        CLAIMED.labels(*run).inc()
        if event.waited_seconds is not None:
            START_DELAY.labels(*run).observe(event.waited_seconds)
        return
    LEFT.labels(*run, _HOW[type(event)]).inc()
    HELD.labels(*run).observe(event.held_seconds)
    if isinstance(event, RunEnded):
        ENDED.labels(*run, event.state).inc()
        DURATION.labels(*run, event.state).observe(event.seconds)


def _count_attempt(attempt: AttemptInfo, seconds: float, outcome: str) -> None:
    step = (attempt.run.workflow, attempt.step)
    if step not in _steps:
        if len(_steps) >= MOST_STEPS:
            step = (attempt.run.workflow, OTHER)
        else:
            _steps.add(step)
    ATTEMPTS.labels(*step, outcome).inc()
    ATTEMPT_SECONDS.labels(*step).observe(seconds)
