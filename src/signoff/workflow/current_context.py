"""The context of the running workflow, for code that does not receive it as an argument."""

from __future__ import annotations

import contextvars

from signoff.errors import OutsideWorkflow
from signoff.observability.current_run import current_attempt, refused
from signoff.workflow.context import Context

_running: contextvars.ContextVar[Context] = contextvars.ContextVar("signoff_context")


def current_context() -> Context:
    """Return the context of the running workflow, for code that does not receive it as an argument.

    Returns:
        The context.

    Raises:
        OutsideWorkflow: No workflow code is running here, for example inside a step.

    Example::

        async def audited(name: str) -> None:
            await signoff.current_context().step("audit", write_audit_line, name)
    """
    context, attempt = _running.get(None), current_attempt.get(None)
    if context is None or attempt is not None:
        why = "no workflow code is running here"
        if attempt is not None:
            why += (
                f", but step {attempt[0].name!r}. Call it outside of steps; a tool's body needs @in_workflow"
            )
        raise OutsideWorkflow("current_context()", why=why)
    return context


def context_here() -> Context | None:
    """Return the context of the workflow code that runs here; None: there is none."""
    return None if current_attempt.get(None) is not None else _running.get(None)


def run_as(context: Context) -> None:
    """Make ``context`` the current context of the calling code."""
    _running.set(context)


def refuse_here(error: OutsideWorkflow) -> OutsideWorkflow:
    """Record that code asks people where this is not possible, and return the error for it to raise.

    A step then fails, and a run stops retryably, even if the code catches the error.
    """
    context = _running.get(None)
    if context is None or current_attempt.get(None) is not None:
        return refused(error)
    execution = context._execution  # pyright: ignore[reportPrivateUsage]
    if execution.loop.is_running_here():
        execution.refuse(error)
    return error
