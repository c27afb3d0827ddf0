"""The operations on groups."""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from signoff.records import Group, Rate
from signoff.stores.contract.operations import reads, writes

COUNTED_AT_MOST: Final = 10_000
"""The counts of ``list_groups`` stop here."""


class GroupStore:
    """The part of ``signoff.stores.contract.store.Store`` that limits groups."""

    @writes(lane="group")
    async def pause_group(self, name: str) -> None:
        """Stop claiming runs of a group. Runs that are running continue until they pause or end."""

    @writes(lane="group")
    async def resume_group(self, name: str) -> None:
        """Claim runs of a paused group again."""

    @writes(lane="group")
    async def limit_group(
        self, name: str, *, max_running: int | None = None, starts_per: Rate | None = None
    ) -> None:
        """Replace the limits of a group; None means no limit. The rate's bucket is full again afterwards.

        Raises:
                InvalidValue: A limit is not above 0, or above ``HIGHEST_LIMIT``.
        """

    @reads
    async def list_groups(self) -> Sequence[Group]:
        """Return groups that have runs, or were ever paused or limited, by name. Counts stop at ``COUNTED_AT_MOST``."""
