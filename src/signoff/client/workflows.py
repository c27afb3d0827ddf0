"""Client operations on workflows: list those that workers announced."""

from __future__ import annotations

from typing import Protocol

from signoff.records import WorkflowInfo
from signoff.records.paging import Page, WorkflowFilter


class WorkflowBackend(Protocol):
    """Operations of the backend: a store in this process, or a server."""

    async def list_workflows(
        self, which: WorkflowFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[WorkflowInfo]: ...


class AsyncWorkflows:
    """Lists the workflows that workers last announced.

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

        Workers announce their workflows when they start and every hour. A workflow that is no longer announced stays
        in the list, with its ``seen_at``, until retention deletes it.

        Args:
            name: Only workflows with this name.
            group: Only workflows of this group's workers.
            after: The ``next`` of the previous page.
            limit: The most to return.
        """
        return await self._backend.list_workflows(WorkflowFilter(name, group), after=after, limit=limit)
