"""Anchors: places outside the database that keep checkpoints."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from signoff.errors import SignoffError
from signoff.people.audit.anchors.checkpoint import Checkpoint


class AnchorUnavailable(SignoffError):
    """A checkpoint could not be stored, or the stored ones could not be read.

    Args:
        anchor: The anchor's name.
        reason: The reason, and what to do.
    """

    def __init__(self, anchor: str, reason: str) -> None:
        self.anchor = anchor
        self.reason = reason
        super().__init__(f"anchor {anchor}: {reason}")


@dataclass(frozen=True, slots=True)
class Kept:
    """The checkpoints in an anchor.

    Attributes:
        checkpoints: Checkpoints of the requested namespaces, in the order they were stored.
        unreadable: Number of lines that are not checkpoints.
    """

    checkpoints: Sequence[Checkpoint]
    unreadable: int = 0


class Anchor(Protocol):
    """Stores checkpoints. Any number of processes may use one anchor at once.

    Attributes:
        name: Its name in messages and metrics, without secrets.
    """

    @property
    def name(self) -> str: ...

    async def keep(self, checkpoint: Checkpoint) -> None:
        """Store a checkpoint durably. The same one may be stored again.

        Raises:
            AnchorUnavailable: It could not be stored.
        """
        ...

    async def read(self, origin: str, namespace: str | None = None) -> Kept | None:
        """Return the stored checkpoints of a log.

        Args:
            origin: The log's name.
            namespace: A namespace; None: all.

        Returns:
            None if the anchor cannot be read from here by design.

        Raises:
            AnchorUnavailable: Reading failed.
        """
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


def cursor_of(anchor: Anchor) -> str:
    """Return the name of the cursor that stores an anchor's progress. No notification channel can have this name."""
    return f"anchor:{hashlib.sha256(anchor.name.encode()).hexdigest()[:32]}"
