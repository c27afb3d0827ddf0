"""The clock shared by all processes that use one SQLite file.

The machine's clock may be set by hand, by its time service or by the host of a virtual machine. It is read once, by the
first process that opens the file after a boot. From then on, time is measured by clocks that cannot be set. The
starting point is stored in the file, so that processes started before and after a jump agree.

Leases use the time that the machine was awake: a laptop that sleeps loses none. Everything else uses the time including
suspensions. If the machine's clock differs for a minute, the file's clock follows it. It moves forward at once,
because after the suspension of a virtual machine the time has really passed. It moves back slowly, so that timers are
not delayed by the difference.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Final

from signoff.observability import events
from signoff.observability.events import ClockJumped
from signoff.runtime.clock import JUMP_SECONDS, Jumps, awake, boot, since_boot, wall
from signoff.runtime.loggers import own_logger
from signoff.stores.sqlite.transaction import Transaction

log = own_logger("signoff.store")

FOLLOW_AFTER: Final = 60.0  # seconds that the machine's clock must differ
SLOWLY: Final = 11 / 12  # seconds per second: the rate at which chrony turns a clock back
ROUNDING: Final = 0.001  # seconds: far above the rounding errors of ``Anchor.is_even_at``

READ: Final = "SELECT boot, ahead, slow_from, slow_time, lease_ahead FROM clock"
WRITE: Final = """
INSERT OR REPLACE INTO clock (one, boot, ahead, slow_from, slow_time, lease_ahead) VALUES (1, ?, ?, ?, ?, ?)
"""
SHORTEN: Final = "UPDATE runs SET lease_until = :at_most WHERE state = 'running' AND lease_until > :at_most"


@dataclass(frozen=True, slots=True)
class Anchor:
    """The starting point of the file's time. See ``schema/sqlite/0001.sql``."""

    boot: str
    ahead: float
    slow_from: float
    slow_time: float
    lease_ahead: float

    @classmethod
    def now(cls) -> Anchor:
        """Start at the machine's current time."""
        up = since_boot()
        ahead = wall() - up
        return cls(boot() or "", ahead, up, ahead + up, ahead + up - awake())

    def time(self, up: float) -> float:
        """Return the time ``up`` seconds after the boot."""
        return max(self.ahead + up, self.slow_time + (up - self.slow_from) * SLOWLY)

    @property
    def is_even_at(self) -> float:
        """Seconds after the boot at which it stops running slowly."""
        return (self.slow_time - self.slow_from * SLOWLY - self.ahead) / (1 - SLOWLY)

    def following(self, off: float) -> Anchor:
        """Return a starting point that follows the machine's clock, which is ahead by ``off`` seconds."""
        up = since_boot()
        return Anchor(self.boot, wall() - up, up, self.time(up), self.lease_ahead)


class FileClock:
    """The time of one file; until the file is open, that of the machine."""

    def __init__(self) -> None:
        self._count_from(Anchor.now())
        self._callbacks: list[Callable[[], None]] = []

    def now(self) -> float:
        """Return the time in unix seconds."""
        up = since_boot()
        return self._ahead + up if up > self._is_even_at else self._anchor.time(up)

    def on_jump(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    @property
    def anchor(self) -> Anchor:
        """The current starting point."""
        return self._anchor

    def use(self, anchor: Anchor) -> None:
        """Switch to a starting point, unless it is in use already."""
        if anchor == self._anchor:
            return
        self._count_from(anchor)
        for callback in self._callbacks:
            callback()

    def _count_from(self, anchor: Anchor) -> None:
        self._anchor = anchor
        self._ahead = anchor.ahead
        self._is_even_at = anchor.is_even_at + ROUNDING  # from here on ``Anchor.time`` is ``ahead + up``


class LeaseClock:
    """The clock for the leases of one file."""

    def __init__(self, clock: FileClock) -> None:
        self._clock = clock

    def now(self) -> float:
        """Return the time in unix seconds, without the time that the machine has slept since the starting point."""
        return awake() + self._clock.anchor.lease_ahead

    def on_jump(self, callback: Callable[[], None]) -> None:
        """Do nothing: this clock never jumps."""


class Watch:
    """Watches the machine's clock for one process, and makes the file's time follow it.

    Args:
        clock: The file's clock.
        location: The store's address, for messages.
    """

    def __init__(self, clock: FileClock, location: str) -> None:
        self._clock = clock
        self._location = location
        self._jumps = Jumps(clock.now)
        self._apart_since: float | None = None
        self._apart_by = 0.0

    def look(self) -> Anchor | None:
        """Check the machine's clock and log its jumps. Returns a new starting point for the file's time, if needed."""
        off, jump = self._jumps.look()
        if jump is not None and jump.slept:
            log.warning(
                "store %s: this machine was suspended for %.1f s; leases were paused, all other times were not",
                self._location,
                jump.slept,
            )
        if jump is not None and jump.seconds:
            log.warning(
                "store %s: the machine's clock was set %s by %.1f s. Leases, timers and deadlines follow the time "
                "that has passed; the clock is followed once the difference has lasted for %.0f s",
                self._location,
                "forward" if jump.seconds > 0 else "back",
                abs(jump.seconds),
                FOLLOW_AFTER,
            )
            if events.subscribers:
                events.announce(ClockJumped("sqlite", jump.seconds))
        up = since_boot()
        if abs(off) <= JUMP_SECONDS or self._is_going_back(up):
            self._apart_since = None
            return None
        if self._apart_since is None or abs(off - self._apart_by) > JUMP_SECONDS:
            self._apart_since, self._apart_by = up, off
        if up - self._apart_since < FOLLOW_AFTER:
            return None
        self._apart_since = None
        return self._clock.anchor.following(off)

    def _is_going_back(self, up: float) -> bool:
        """Whether it is already following the machine's clock back."""
        anchor = self._clock.anchor
        return anchor.time(up) > anchor.ahead + up and abs(anchor.ahead - (wall() - up)) <= JUMP_SECONDS

    def followed(self) -> None:
        """Start over after the file's time was set."""
        self._jumps = Jumps(self._clock.now)


def read(db: sqlite3.Connection) -> Anchor | None:
    """Return a file's starting point; None if it is not set yet."""
    row = db.execute(READ).fetchone()
    return None if row is None else Anchor(*row)


def begin(db: sqlite3.Connection, lease_seconds: float) -> Anchor:
    """Return the file's starting point. The first process after a boot sets it.

    Leases from before the boot end within ``lease_seconds``, because their clock no longer exists.
    """
    mine = Anchor.now()
    found = read(db)
    if found is not None and mine.boot and found.boot == mine.boot:
        return found
    db.execute("BEGIN IMMEDIATE")
    try:
        found = read(db)
        if found is not None and mine.boot and found.boot == mine.boot:
            return found
        db.execute(WRITE, astuple(mine))
        db.execute(SHORTEN, {"at_most": awake() + mine.lease_ahead + lease_seconds})
        db.execute("COMMIT")
        return mine
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def follow(tx: Transaction, namespace: str, was: Anchor, anchor: Anchor) -> Anchor:
    """Set the file's starting point, unless another process has changed it meanwhile. Returns the current one."""
    found = read(tx.db)
    if found is not None and found != was:
        return found
    tx.db.execute(WRITE, astuple(anchor))
    return anchor
