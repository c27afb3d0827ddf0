"""The run and the step attempt that the current code belongs to."""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
from typing import Any, Protocol

from signoff.errors import OutsideWorkflow, SignoffError
from signoff.observability.trace_context import trace_id_of, traceparent_of
from signoff.records import Run


class Occupied(Protocol):
    """A worker, as steps see its slots."""

    @property
    def is_full(self) -> bool:
        """Whether it has no room for another run."""
        ...

    @property
    def held(self) -> Sequence[str]:
        """The ids of the runs it holds."""
        ...


class CurrentStep(Protocol):
    """A step with a running attempt, as log lines and callers see it."""

    refused: SignoffError | None
    """The error of a call that is not allowed in a step. The attempt fails even if its code catches the error."""
    worker: Occupied | None
    """The worker that runs the attempt."""

    @property
    def run(self) -> Run:
        """The step's run."""
        ...

    @property
    def name(self) -> str:
        """The step's name."""
        ...


current_run: contextvars.ContextVar[Run] = contextvars.ContextVar("signoff_run")
current_attempt: contextvars.ContextVar[tuple[CurrentStep, int]] = contextvars.ContextVar("signoff_attempt")


def refused(error: OutsideWorkflow) -> OutsideWorkflow:
    """Record that code asks a person outside of a workflow. A step then fails, even if its code catches the error.

    Args:
        error: The error that the caller is about to raise.
    """
    attempt = current_attempt.get(None)
    if attempt is not None:
        attempt[0].refused = error
    return error


def fields_of(run: Run) -> dict[str, Any]:
    """Return the fields of a log line about a run."""
    return {
        "run_id": run.id,
        "workflow": run.workflow,
        "group": run.group,
        "namespace": run.namespace,
        "worker_id": run.worker_id,
        "trace_id": trace_id_of(traceparent_of(run.namespace, run.id, run.traceparent)),
    }


def fields_here() -> dict[str, Any]:
    """Return the fields of a log line written by the current code; none outside of runs."""
    attempt = current_attempt.get(None)
    if attempt is not None:
        call, number = attempt
        return {**fields_of(call.run), "step": call.name, "attempt": number}
    run = current_run.get(None)
    return {} if run is None else fields_of(run)
