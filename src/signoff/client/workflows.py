"""Looking at what workers run, from outside."""

from __future__ import annotations

from typing import Protocol

from signoff.records import WorkflowInfo
from signoff.records.paging import Page, WorkflowFilter


class WorkflowBackend(Protocol):
    """What it talks to: a store in this process, or a server."""

    async def list_workflows(
        self, which: WorkflowFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[WorkflowInfo]: ...


class AsyncWorkflows:
    """What workers run, as they last announced it.

    Example::

        [refund] = (await client.workflows.list(name="refund")).items
        print(refund.description, json.loads(refund.parameters or "{}"))
    """

    def __init__(self, backend: WorkflowBackend) -> None:
        self._backend = backend

    async def list(
        self,
        *,
        name: str | None = None,
        group: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[WorkflowInfo]:
        """List workflows by name, then by group and version.

        Workers announce what they run when they begin and every hour; what nobody announces any more stays, with its
        ``seen_at``, until retention deletes it.

        Args:
            name: Only those of this name.
            group: Only those of this group's workers.
            after: A former page's ``next``.
            limit: How many at most.
        """
        return await self._backend.list_workflows(WorkflowFilter(name, group), after=after, limit=limit)
