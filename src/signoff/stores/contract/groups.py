"""The operations on groups."""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from signoff.records import Group, Rate
from signoff.stores.contract.operations import reads, writes

COUNTED_AT_MOST: Final = 10_000
"""Where the counts of ``list_groups`` stop."""


class GroupStore:
    """The part of ``signoff.stores.contract.store.Store`` that limits groups."""

    @writes(lane="group")
    async def pause_group(self, name: str) -> None:
        """Have no more runs of a group claimed. What is running goes on until it pauses or ends."""

    @writes(lane="group")
    async def resume_group(self, name: str) -> None:
        """Have runs of a paused group claimed again."""

    @writes(lane="group")
    async def limit_group(
        self, name: str, *, max_running: int | None = None, starts_per: Rate | None = None
    ) -> None:
        """Replace the limits of a group; None is no limit. The rate begins anew, with its whole allowance.

        Raises:
            InvalidValue: A limit is not above 0, or more than ``HIGHEST_LIMIT``.
        """

    @reads
    async def list_groups(self) -> Sequence[Group]:
        """Groups that have runs, or were ever paused or limited, by name. Counts stop at ``COUNTED_AT_MOST``."""
