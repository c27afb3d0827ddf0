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
        promises: Settled promises that belong to no run, with their tasks.
    """

    runs: int
    tokens: int
    deliveries: int
    workflows: int = 0
    promises: int = 0
