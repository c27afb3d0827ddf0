"""OpenTelemetry spans of runs: one trace for each run, across machines and waits.

Needs the extra ``telemetry``. Spans are made from the events of ``observability.events`` and have no arguments,
results or answers.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from time import time_ns
from typing import Any

from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.trace import Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from signoff.observability import events
from signoff.observability.events import (
    AnswerGiven,
    AttemptCancelled,
    AttemptFailed,
    AttemptInfo,
    AttemptStarted,
    AttemptSucceeded,
    Event,
    RunClaimed,
    RunEnded,
    RunInfo,
    RunLost,
    RunPaused,
    RunReleased,
    ThreadAwaited,
    WaitEnded,
)
from signoff.records import RunState
from signoff.runtime.loggers import texts_are_hidden
from signoff.version import __version__

Attributes = dict[str, str | int | float | bool]

_ends: list[Callable[[], None]] = []  # one for each active subscription
_attempt_span: contextvars.ContextVar[Span | None] = contextvars.ContextVar(
    "signoff_attempt_span", default=None
)


def trace_runs(provider: trace.TracerProvider | None = None) -> Callable[[], None]:
    """Make spans of the runs in this process from now on.

    Args:
        provider: The tracer provider; by default the global one, even if it is set later.

    Returns:
        A function that stops it.

    Example::

        trace.set_tracer_provider(TracerProvider())  # of opentelemetry.sdk, with your exporter
        signoff.observability.tracing.trace_runs()
    """
    end = events.subscribe(Tracing(trace.get_tracer("signoff", __version__, provider)))
    _ends.append(end)

    def end_once() -> None:
        if end in _ends:
            _ends.remove(end)
            end()

    return end_once


def trace_if_set_up() -> None:
    """Make spans if the program has set up OpenTelemetry, unless it already does."""
    if not _ends and not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        trace_runs()


class Instrumentor:
    """The instrumentor that ``opentelemetry-instrument`` loads from the entry point ``opentelemetry_instrumentor``."""

    def instrument(self, **options: Any) -> None:
        """Start making spans. ``tracer_provider`` is an option."""
        if not _ends:
            trace_runs(options.get("tracer_provider"))

    def uninstrument(self, **_: Any) -> None:
        """Stop making spans."""
        while _ends:
            _ends.pop()()


class Tracing:
    """A subscriber that makes spans.

    - ``run {workflow}``: from a claim until the run pauses, ends, or is released or lost;
    - ``step {name}``, its child: an attempt of a step, the current span while the step's code runs;
    - ``wait {kind}``: from the start of a wait for a question, promise or signal until the run receives it;
    - ``answer``: one answer to a question, accepted or refused.

    Args:
        tracer: Makes the spans.
    """

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer
        self._segments: dict[RunInfo, Span] = {}

    def __call__(self, event: Event) -> None:
        """Handle an event."""
        match event:
            case RunClaimed():
                self._begin_segment(event.run)
            case RunPaused():
                self._end_segment(event.run, "paused")
            case RunReleased():
                self._end_segment(event.run, "released")
            case RunLost():
                self._end_segment(event.run, "lost")
            case RunEnded():
                self._end_segment(event.run, event.state)
            case AttemptStarted():
                self._begin_attempt(event.attempt)
            case ThreadAwaited():
                trace.get_current_span().add_event("waited for a thread", {"seconds": event.seconds})
            case AttemptSucceeded():
                _end_attempt()
            case AttemptFailed():
                _fail_attempt(event)
            case AttemptCancelled():
                _end_attempt(Status(StatusCode.ERROR, "cancelled"))
            case WaitEnded():
                self._note_wait(event)
            case AnswerGiven():
                self._note_answer(event)
            case _:
                pass

    def _begin_segment(self, run: RunInfo) -> None:
        self._segments[run] = self._tracer.start_span(
            f"run {run.workflow}", _context_of(run.traceparent), SpanKind.CONSUMER, _of_run(run)
        )

    def _end_segment(self, run: RunInfo, left: str) -> None:
        span = self._segments.pop(run, None)
        if span is None:
            return
        span.set_attribute("signoff.run.left", left)
        if left == RunState.FAILED:
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    def _begin_attempt(self, attempt: AttemptInfo) -> None:
        segment = self._segments.get(attempt.run)
        started_in = _context_of(attempt.run.traceparent)
        parent = started_in if segment is None else trace.set_span_in_context(segment, started_in)
        attributes = {**_of_run(attempt.run), **_of_attempt(attempt)}
        span = self._tracer.start_span(f"step {attempt.step}", parent, attributes=attributes)
        _attempt_span.set(span)
        otel.attach(trace.set_span_in_context(span))  # never detached: the context ends with the attempt

    def _note_wait(self, event: WaitEnded) -> None:
        attributes: Attributes = {
            **_of_run(event.run),
            "signoff.wait.kind": str(event.kind),
            "signoff.wait.n": event.n,
            "signoff.wait.state": event.state,
            "signoff.wait.settled_at": event.settled_at,
        }
        if event.name is not None:
            attributes["signoff.wait.name"] = event.name
        if event.by is not None:
            attributes["signoff.wait.by"] = event.by
        span = self._tracer.start_span(
            f"wait {event.kind}",
            _context_of(event.run.traceparent),
            attributes=attributes,
            start_time=_nanoseconds(event.started_at),
        )
        span.end(_nanoseconds(max(event.started_at, event.ended_at)))

    def _note_answer(self, event: AnswerGiven) -> None:
        attributes: Attributes = {
            "signoff.namespace": event.namespace,
            "signoff.question.id": event.question_id,
            "signoff.answer.outcome": event.outcome,
        }
        for name, value in (("run.id", event.run_id), ("workflow", event.workflow), ("answer.by", event.by)):
            if value is not None:
                attributes[f"signoff.{name}"] = value
        caller = trace.get_current_span().get_span_context()
        ended_at = time_ns()
        span = self._tracer.start_span(
            "answer",
            None if event.traceparent is None else _context_of(event.traceparent),
            SpanKind.PRODUCER,
            attributes,
            links=[trace.Link(caller)] if caller.is_valid else None,
            start_time=ended_at - _nanoseconds(event.seconds),
        )
        if event.outcome != "accepted":
            span.set_status(Status(StatusCode.ERROR, event.outcome))
        span.end(ended_at)


def _fail_attempt(event: AttemptFailed) -> None:
    span = _attempt_span.get()
    if span is not None:
        if texts_are_hidden():
            span.add_event("exception", {"exception.type": type(event.error).__qualname__})
        else:
            span.record_exception(event.error)
        span.set_attribute("signoff.step.retried", event.retried)
    _end_attempt(Status(StatusCode.ERROR, type(event.error).__name__))


def _end_attempt(status: Status | None = None) -> None:
    span = _attempt_span.get()
    if span is None:
        return
    if status is not None:
        span.set_status(status)
    span.end()


def _context_of(traceparent: str) -> otel.Context:
    """Return the context in which a run was started."""
    _, trace_id, span_id, flags = traceparent.split("-")
    started_in = SpanContext(int(trace_id, 16), int(span_id, 16), True, TraceFlags(int(flags, 16)))
    return trace.set_span_in_context(trace.NonRecordingSpan(started_in), otel.Context())


def _of_run(run: RunInfo) -> Attributes:
    attributes: Attributes = {
        "signoff.namespace": run.namespace,
        "signoff.run.id": run.id,
        "signoff.workflow": run.workflow,
        "signoff.group": run.group,
        "signoff.run.epoch": run.epoch,
    }
    for name, value in (("worker.id", run.worker_id), ("run.parent_id", run.parent_id)):
        if value is not None:
            attributes[f"signoff.{name}"] = value
    return attributes


def _of_attempt(attempt: AttemptInfo) -> Attributes:
    return {
        "signoff.step.name": attempt.step,
        "signoff.step.n": attempt.n,
        "signoff.step.attempt": attempt.attempt,
        "signoff.step.effect": attempt.effect,
        "signoff.step.idempotency_key": attempt.idempotency_key,
    }


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
