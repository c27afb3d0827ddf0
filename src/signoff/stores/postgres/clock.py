"""The database's time, estimated without a query each time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg

from signoff.stores.shared.clock_changes import ClockWatch

NOW = "SELECT extract(epoch FROM clock_timestamp())::double precision"


class DatabaseClock:
    """The database's clock. Machines may disagree about the time; this clock decides."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._offset = time.time() - time.monotonic()  # of the database's clock to this process's
        self._set = ClockWatch("postgres")

    def now(self) -> float:
        """Return the database's time in unix seconds."""
        return time.monotonic() + self._offset

    def forked(self) -> None:
        """Replace the lock, which a thread of the parent may hold."""
        self._lock = threading.Lock()

    def on_jump(self, callback: Callable[[], None]) -> None:
        """Do nothing: this clock makes no jumps that need a notification."""

    def ask(self, connection: psycopg.Connection[Any]) -> None:
        """Query the database's time."""
        sent_at = time.monotonic()
        row = connection.execute(NOW).fetchone()
        assert row is not None
        self.learn(sent_at, row[0], time.monotonic())

    def learn(self, sent_at: float, database_now: float, received_at: float) -> float:
        """Correct this clock by a reading of the database between two times of ``time.monotonic()``.

        A slow reply is inexact, so the clock moves only as far as it must.

        Returns:
            Seconds by which it was set forward.
        """
        with self._lock:
            lowest, highest = database_now - received_at, database_now - sent_at
            before = self._offset
            self._offset = min(max(before, lowest), highest)
            self._set.note(self._offset - before)
            return self._offset - before
