"""What was deleted since it ended long ago."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pruned:
    """How much was deleted.

    Attributes:
        runs: Runs, with their journals and promises.
        tokens: Links, keys and logins that expired or were revoked.
        deliveries: Notifications that arrived or were given up.
    """

    runs: int
    tokens: int
    deliveries: int
