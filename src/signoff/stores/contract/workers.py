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
        """Register a worker before it claims, and again every ``ENLIST_SECONDS`` as a sign of life.

        ``due`` removes a worker that was silent for ``FORGET_SECONDS``. (Its leases have expired long before.) The
        store sets ``seen_at`` and ``held``, and ignores the caller's.

        Raises:
            InvalidValue: A part of it is too long or cannot be stored.
        """

    @reads
    async def list_workers(self) -> Sequence[WorkerInfo]:
        """List the registered workers by id, with the time of their last sign of life and how many runs they hold."""
