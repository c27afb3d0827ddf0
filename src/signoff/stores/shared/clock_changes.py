"""Detects that the clock of a database or server was set."""

from __future__ import annotations

from typing import Final

from signoff.observability import events
from signoff.observability.events import ClockJumped
from signoff.runtime.clock import JUMP_SECONDS, awake, since_boot
from signoff.runtime.loggers import own_logger

log = own_logger("signoff.store")

_WHOSE: Final = {"postgres": "the database's clock", "remote": "the server's clock"}


class ClockWatch:
    """Logs and announces changes of a remote clock, as seen by one process.

    Args:
        store: ``postgres`` or ``remote``.
    """

    def __init__(self, store: str) -> None:
        self._store = store
        self._slept: float | None = None  # None: the clock was not read yet

    def note(self, moved: float) -> None:
        """Process a reading of the clock.

        Args:
            moved: How far the clock is ahead of its expected time, in seconds. A suspension of this machine does not
                count, because time has really passed.
        """
        slept = since_boot() - awake()
        before, self._slept = self._slept, slept
        if before is None:
            return
        seconds = moved - (slept - before)
        if abs(seconds) <= JUMP_SECONDS:
            return
        log.warning(
            "%s was set %s by %.1f s: timers, deadlines and leases follow it. Have its host slew the clock instead of "
            "stepping it",
            _WHOSE[self._store],
            "forward" if seconds > 0 else "back",
            abs(seconds),
        )
        if events.subscribers:
            events.announce(ClockJumped(self._store, seconds))
