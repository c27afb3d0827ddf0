"""The register of workers."""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from signoff.records import WorkerInfo
from signoff.stores.contract.operations import reads, writes

ENLIST_SECONDS: Final = 15.0
FORGET_SECONDS: Final = 60.0


class WorkerStore:
    """The part of ``signoff.stores.contract.store.Store`` that registers workers."""

    @writes(lane="worker")
    async def enlist(self, worker: WorkerInfo) -> None:
        """Put a worker on the register, before it claims; and again every ``ENLIST_SECONDS``, to say that it lives.

        One that was not heard of for ``FORGET_SECONDS`` is taken off the register by ``due``. (Its leases have run out
        long before.) ``seen_at`` and ``held`` are the store's: what the caller says of them is passed over.

        Raises:
            InvalidValue: Something in it is too long or cannot be kept.
        """

    @reads
    async def list_workers(self) -> Sequence[WorkerInfo]:
        """All workers on the register, by id, with when they were last heard of and how many runs they hold."""
