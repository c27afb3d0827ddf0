"""What the contract of a store has for live text: what steps say while they run, for whoever reads along.

It is beside the journal: no run depends on it, and any of it may be lost. It lasts as long as the attempt that says it.
A write that ``unpublishes`` a call deletes what is live of it, ``pause`` and ``complete`` all that is live of the run,
and the first piece of a lease what earlier leases have left, which nobody could read any more.
"""

# pyright: reportReturnType=false
# Operations are declared without a body: stores perform them.

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from signoff.records import LiveText
from signoff.stores.contract.operations import reads, writes

KEPT_CHARACTERS: Final = 65_536
"""How far back live text of a call is kept at least. What begins farther before a write's last piece is dropped."""


class LiveStore:
    """The part of ``signoff.stores.contract.store.Store`` that keeps live text."""

    @writes(is_patient=False)
    async def publish(self, pieces: Sequence[LiveText]) -> None:
        """Keep pieces of several runs, and wake whoever reads along.

        A piece of a lease that does not hold any more, or that is there already, is passed over without a word.

        Raises:
            InvalidValue: A piece has text that cannot be kept.
        """

    @reads
    async def read_live(self, run_id: str, *, epoch: int = 0, after: int = -1) -> Sequence[LiveText]:
        """Return what the lease that holds has left, in order; nothing if none does, or of an unknown run.

        Args:
            run_id: The run.
            epoch: The lease of the last piece that is known.
            after: The ``seq`` of that piece. Of this lease come later pieces only, of another one all.
        """
