"""What goes wrong in a simulated world, and how often."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Faults:
    """How a simulated world treats its processes and its store. Everything is 0 by default: nothing goes wrong.

    Attributes:
        unavailable: Part of the operations that fail without being done.
        lost_replies: Part of the operations that are done, but fail for the caller.
        stalls: Part of the operations that take seconds, on the way there or on the way back.
        stall_seconds: How long at most.
        lost_notices: Part of the changes that a listener is not told.
        late_notices: Part of those it is told late.
        repeated_notices: Part of those it is told twice.
        outages: How often the store is down in all.
        outage_seconds: For how long at most.
        crashes: Part of the processes that end anywhere in the midst of things, as by SIGKILL.
        freezes: Part of the processes that stand still for a while and then go on, as by SIGSTOP.
        freeze_seconds: For how long at most.
        stops: Part of the processes that stop in order.
        skew_seconds: How far the processes' clocks are from the store's at most.
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
        """Draw which kinds of fault there are and how many of each: few at a time find more than all at once."""
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
