"""Detects runs whose workflow no worker serves, usually because of a typo in its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from signoff.client.workflows import WorkflowBackend
from signoff.records import Run, RunState, WorkerInfo
from signoff.records.paging import WorkflowFilter

_AT_ONCE = 1_000
_NAMED = 10


class WorkBackend(WorkflowBackend, Protocol):
    """Operations of the backend: a store in this process, or a server."""

    async def list_workers(self) -> Sequence[WorkerInfo]: ...


async def name_unserved(backend: WorkflowBackend, run: Run) -> str | None:
    """Return a warning if the workers of a run's group have announced workflows, but not the run's; else None.

    Args:
        backend: The run's backend.
        run: A run that was just started, or waits.
    """
    if run.state is not RunState.READY:
        return None
    return await name_unserved_workflow(backend, run.workflow, run.group)


async def name_unserved_workflow(backend: WorkflowBackend, workflow: str, group: str) -> str | None:
    """Return a warning if the workers of a group have announced workflows, but not this one; else None."""
    announced = await backend.list_workflows(WorkflowFilter(group=group), limit=_AT_ONCE)
    names = sorted({each.name for each in announced.items})
    if not names or workflow in names or announced.next is not None:
        return None
    there = ", ".join(names[:_NAMED])
    return f"no worker of group {group!r} runs {workflow!r}; it waits until one does. There are: {there}"


async def unserved(backend: WorkBackend, run: Run) -> str | None:
    """Return a warning if a run that waits for a worker may wait for long; else None.

    Args:
        backend: The run's backend.
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
