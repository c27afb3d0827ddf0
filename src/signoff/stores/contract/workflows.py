"""What the contract of a store has for the register of workflows: what workers run, and what it takes.

It is there to be looked at. No claim, no start and no state depends on it: a run of a workflow that nobody has
announced is a run like any other.
"""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from collections.abc import Sequence

from signoff.records import WorkflowInfo
from signoff.records.paging import Page, WorkflowFilter
from signoff.stores.contract.operations import reads, writes


class WorkflowStore:
    """The part of ``signoff.stores.contract.store.Store`` that knows what workers run."""

    @writes(lane="workflows")
    async def announce(self, workflows: Sequence[WorkflowInfo]) -> None:
        """Put workflows on the register, or replace what it says of them. What else it holds stays as it is.

        ``namespace`` and ``seen_at`` are the store's: what the caller says of them is passed over.

        Raises:
            InvalidValue: Something in them is too long or cannot be kept, or one is there twice.
        """

    @reads
    async def list_workflows(
        self, which: WorkflowFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[WorkflowInfo]:
        """By name, then by group and version. ``after`` is a former page's ``next``."""

    @writes(lane="workflows")
    async def delete_workflows(self, before: float, limit: int) -> int:
        """Delete what was not announced since that time. Returns how many."""
