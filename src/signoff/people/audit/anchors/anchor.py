"""What keeps checkpoints outside the database."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from signoff.errors import SignoffError
from signoff.people.audit.anchors.checkpoint import Checkpoint


class AnchorUnavailable(SignoffError):
    """A checkpoint could not be kept, or those that are kept could not be read.

    Args:
        anchor: The anchor, for messages.
        reason: What stands in the way, and what to do.
    """

    def __init__(self, anchor: str, reason: str) -> None:
        self.anchor = anchor
        self.reason = reason
        super().__init__(f"anchor {anchor}: {reason}")


@dataclass(frozen=True, slots=True)
class Kept:
    """The checkpoints that an anchor has.

    Attributes:
        checkpoints: In the order in which they were kept, of all namespaces that were asked for.
        unreadable: How many lines are not checkpoints.
    """

    checkpoints: Sequence[Checkpoint]
    unreadable: int = 0


class Anchor(Protocol):
    """Keeps checkpoints. Any number of processes may use one anchor at once.

    Attributes:
        name: What messages and metrics call it. It has no secrets.
    """

    @property
    def name(self) -> str: ...

    async def keep(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint. It lasts when this returns. The same one may come again.

        Raises:
            AnchorUnavailable: It could not be kept.
        """
        ...

    async def read(self, origin: str, namespace: str | None = None) -> Kept | None:
        """Return what is kept of a log.

        Args:
            origin: The log's name.
            namespace: Only this one's; None: all.

        Returns:
            None if the anchor cannot be read from here.

        Raises:
            AnchorUnavailable: It should have been possible, and was not.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


def cursor_of(anchor: Anchor) -> str:
    """Return under which name a store remembers how far an anchor has come. No channel of notifications has it."""
    return f"anchor:{hashlib.sha256(anchor.name.encode()).hexdigest()[:32]}"
