"""What was deleted since it ended, or was last announced, long ago."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pruned:
    """How much was deleted.

    Attributes:
        runs: Runs, with their journals and promises.
        tokens: Links, keys and logins that expired or were revoked.
        deliveries: Notifications that arrived or were given up.
        workflows: Versions of workflows on the register that no worker has announced of late.
    """

    runs: int
    tokens: int
    deliveries: int
    workflows: int = 0
