"""The live text operations of the store contract: what steps output while they run, for clients that follow along.

Live text is separate from the journal: no run depends on it, and any of it may be lost. It lives as long as the attempt
that outputs it. A write that ``unpublishes`` a call deletes the call's live text, ``pause`` and ``complete`` delete
that of the run, and the first piece of a lease deletes what earlier leases left, which no client could read any more.
"""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from signoff.records import LiveText
from signoff.stores.contract.operations import reads, writes

KEPT_CHARACTERS: Final = 65_536
"""The live text of a call is kept at least this far back. What begins further before a write's end is dropped."""


class LiveStore:
    """The part of ``signoff.stores.contract.store.Store`` that keeps live text."""

    @writes(is_patient=False)
    async def publish(self, pieces: Sequence[LiveText]) -> None:
        """Keep pieces of several runs, and wake the clients that follow them.

        A piece of a lease that is no longer held, or that is already kept, is silently ignored.

        Raises:
            InvalidValue: A piece has text that cannot be kept.
        """

    @reads
    async def read_live(self, run_id: str, *, epoch: int = 0, after: int = -1) -> Sequence[LiveText]:
        """Return the text of the current lease, in order; nothing if the run is not leased or unknown.

        Args:
            run_id: The run.
            epoch: The lease of the last piece the caller has.
            after: The ``seq`` of that piece. If the lease is the same, only later pieces are returned, otherwise all.
        """
