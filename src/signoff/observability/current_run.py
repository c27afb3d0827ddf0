"""Which run, and which attempt of a step, the code that runs here belongs to."""

from __future__ import annotations

import contextvars
from typing import Any, Protocol

from signoff.errors import OutsideWorkflow, SignoffError
from signoff.observability.trace_context import trace_id_of, traceparent_of
from signoff.records import Run


class CurrentStep(Protocol):
    """A step whose attempt runs, as far as log lines and callers need to know it."""

    refused: SignoffError | None
    """What its code may not do: the attempt fails, also if the code catches the error."""

    @property
    def run(self) -> Run:
        """The run whose step it is."""
        ...

    @property
    def name(self) -> str:
        """The step's name."""
        ...


current_run: contextvars.ContextVar[Run] = contextvars.ContextVar("signoff_run")
current_attempt: contextvars.ContextVar[tuple[CurrentStep, int]] = contextvars.ContextVar("signoff_attempt")


def refused(error: OutsideWorkflow) -> OutsideWorkflow:
    """Note that code asks people where nobody can be asked. A step fails then, also if its code catches the error.

    Args:
        error: What the code is about to get.
    """
    attempt = current_attempt.get(None)
    if attempt is not None:
        attempt[0].refused = error
    return error


def fields_of(run: Run) -> dict[str, Any]:
    """Return what a log line about a run carries."""
    return {
        "run_id": run.id,
        "workflow": run.workflow,
        "group": run.group,
        "namespace": run.namespace,
        "worker_id": run.worker_id,
        "trace_id": trace_id_of(traceparent_of(run.namespace, run.id, run.traceparent)),
    }


def fields_here() -> dict[str, Any]:
    """Return what a log line carries that is written here; nothing outside of runs."""
    attempt = current_attempt.get(None)
    if attempt is not None:
        call, number = attempt
        return {**fields_of(call.run), "step": call.name, "attempt": number}
    run = current_run.get(None)
    return {} if run is None else fields_of(run)
