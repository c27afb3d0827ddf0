"""Counts of the rows that retention deleted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many rows retention deleted.

    Attributes:
        runs: Ended runs, with their journals and promises.
        tokens: Expired or revoked links, keys and logins.
        deliveries: Ended deliveries.
        workflows: Registered workflow versions that no worker has announced recently.
    """

    runs: int
    tokens: int
    deliveries: int
    workflows: int = 0
