"""Runs that nobody serves: a slip of the pen in a workflow's name would wait for ever without a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from signoff.client.workflows import WorkflowBackend
from signoff.records import Run, RunState, WorkerInfo
from signoff.records.paging import WorkflowFilter

_AT_ONCE = 1_000
_NAMED = 10


class WorkBackend(WorkflowBackend, Protocol):
    """What it asks: a store in this process, or a server."""

    async def list_workers(self) -> Sequence[WorkerInfo]: ...


async def name_unserved(backend: WorkflowBackend, run: Run) -> str | None:
    """Say that the workers of a run's group have announced workflows, but none of its name; None: not so.

    Args:
        backend: Where the run is.
        run: A run that was just started, or waits.
    """
    if run.state is not RunState.READY:
        return None
    return await name_unserved_workflow(backend, run.workflow, run.group)


async def name_unserved_workflow(backend: WorkflowBackend, workflow: str, group: str) -> str | None:
    """Say that the workers of a group have announced workflows, but none of this name; None: not so."""
    announced = await backend.list_workflows(WorkflowFilter(group=group), limit=_AT_ONCE)
    names = sorted({each.name for each in announced.items})
    if not names or workflow in names or announced.next is not None:
        return None
    there = ", ".join(names[:_NAMED])
    return f"no worker of group {group!r} runs {workflow!r}; it waits until one does. There are: {there}"


async def unserved(backend: WorkBackend, run: Run) -> str | None:
    """Say why a run that has waited for a worker for some time may wait for long; None: nobody can say.

    Args:
        backend: Where the run is.
        run: A run that waits.
    """
    if run.state is not RunState.READY:
        return None
    if not any(each.group == run.group for each in await backend.list_workers()):
        return (
            f"no worker of group {run.group!r} runs at all; {run.workflow!r} waits until one does: "
            "begin one with app.worker(), signoff worker or signoff dev"
        )
    return await name_unserved(backend, run)
