"""The operations on groups."""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from signoff.records import Group, Rate
from signoff.stores.contract.operations import reads, writes

COUNTED_AT_MOST: Final = 10_000
"""The highest count that ``list_groups`` returns."""


class GroupStore:
    """The part of ``signoff.stores.contract.store.Store`` that limits groups."""

    @writes(lane="group")
    async def pause_group(self, name: str) -> None:
        """Stop claims of a group's runs. Running ones continue until they pause or end."""

    @writes(lane="group")
    async def resume_group(self, name: str) -> None:
        """Allow claims of a paused group's runs again."""

    @writes(lane="group")
    async def limit_group(
        self, name: str, *, max_running: int | None = None, starts_per: Rate | None = None
    ) -> None:
        """Replace a group's limits; None removes a limit. The rate starts again with its full allowance.

        Raises:
            InvalidValue: A limit is not above 0, or more than ``HIGHEST_LIMIT``.
        """

    @reads
    async def list_groups(self) -> Sequence[Group]:
        """List groups that have runs, or were ever paused or limited, by name. Counts stop at ``COUNTED_AT_MOST``."""
