"""The operations on live text: the output of running steps, for clients that follow a run.

It is not part of the journal: no run depends on it, and any of it may be lost. It lasts as long as its attempt. A
write that ``unpublishes`` a call deletes the call's live text. ``pause`` and ``complete`` delete all live text of the
run. The first piece of a lease deletes the text of earlier leases, which can no longer be read.
"""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from signoff.records import LiveText
from signoff.stores.contract.operations import reads, writes

KEPT_CHARACTERS: Final = 65_536
"""How much of a call's live text is kept. Pieces that begin further before the last piece of a write are dropped."""


class LiveStore:
    """The part of ``signoff.stores.contract.store.Store`` that keeps live text."""

    @writes(is_patient=False)
    async def publish(self, pieces: Sequence[LiveText]) -> None:
        """Store pieces of several runs, and notify the clients that follow them.

        A piece of an expired lease, or one that is already stored, is ignored.

        Raises:
            InvalidValue: A piece has text that cannot be kept.
        """

    @reads
    async def read_live(self, run_id: str, *, epoch: int = 0, after: int = -1) -> Sequence[LiveText]:
        """Return the live text of the current lease, in order; none without a lease, or for an unknown run.

        Args:
            run_id: The run.
            epoch: The epoch of the last known piece.
            after: The ``seq`` of that piece. If the lease has the same epoch, only later pieces are returned.
        """
