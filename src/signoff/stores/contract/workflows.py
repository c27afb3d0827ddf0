"""The register of workflows: what workers run, and its parameters.

It is for display only. No claim, start or state depends on it: a workflow that no worker has announced can be started
like any other.
"""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from collections.abc import Sequence

from signoff.records import WorkflowInfo
from signoff.records.paging import Page, WorkflowFilter
from signoff.stores.contract.operations import reads, writes


class WorkflowStore:
    """The part of ``signoff.stores.contract.store.Store`` that registers workflows."""

    @writes(lane="workflows")
    async def announce(self, workflows: Sequence[WorkflowInfo]) -> None:
        """Register workflows, or replace their entries. Other entries stay as they are.

        The store sets ``namespace`` and ``seen_at``, and ignores the caller's.

        Raises:
            InvalidValue: A part of them is too long or cannot be stored, or one is given twice.
        """

    @reads
    async def list_workflows(
        self, which: WorkflowFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[WorkflowInfo]:
        """List workflows by name, group and version. ``after`` is the ``next`` of the previous page."""

    @writes(lane="workflows")
    async def delete_workflows(self, before: float, limit: int) -> int:
        """Delete workflows that were last announced before a time. Returns their number."""
