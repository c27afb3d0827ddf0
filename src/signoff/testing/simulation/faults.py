"""The faults of a simulated world, and their rates."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Faults:
    """Rates of faults. By default all are 0: there are no faults.

    Attributes:
        unavailable: Fraction of operations that fail without effect.
        lost_replies: Fraction of operations that take effect but fail for the caller.
        stalls: Fraction of operations whose request or reply takes seconds.
        stall_seconds: The longest stall.
        lost_notices: Fraction of notifications that are lost.
        late_notices: Fraction of notifications that are late.
        repeated_notices: Fraction of notifications that arrive twice.
        outages: The number of outages of the store.
        outage_seconds: The longest outage.
        crashes: Fraction of processes that end abruptly, as by SIGKILL.
        freezes: Fraction of processes that freeze for a while, as by SIGSTOP.
        freeze_seconds: The longest freeze.
        stops: Fraction of processes that stop in order.
        skew_seconds: The largest difference between a process's clock and the store's.
    """

    unavailable: float = 0.0
    lost_replies: float = 0.0
    stalls: float = 0.0
    stall_seconds: float = 6.0
    lost_notices: float = 0.0
    late_notices: float = 0.0
    repeated_notices: float = 0.0
    outages: int = 0
    outage_seconds: float = 8.0
    crashes: float = 0.0
    freezes: float = 0.0
    freeze_seconds: float = 15.0
    stops: float = 0.0
    skew_seconds: float = 0.0

    @classmethod
    def drawn(cls, source: random.Random) -> Faults:
        """Draw the kinds and rates of faults. A few kinds at a time find more violations than all at once."""
        most = {
            "unavailable": 0.2,
            "lost_replies": 0.2,
            "stalls": 0.1,
            "lost_notices": 1.0,
            "late_notices": 0.5,
            "repeated_notices": 0.5,
            "crashes": 1.0,
            "freezes": 0.7,
            "stops": 0.5,
            "skew_seconds": 5.0,
        }
        chosen = {name: source.random() * limit for name, limit in most.items() if source.random() < 0.5}
        return cls(**chosen, outages=source.choice((0, 0, 1, 2)))

    def __str__(self) -> str:
        set_ = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if getattr(self, each.name) != each.default
        }
        return ", ".join(f"{name} {value:.2g}" for name, value in set_.items()) or "none"
