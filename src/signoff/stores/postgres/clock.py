"""An estimate of the database's clock that needs no query for each reading."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg

from signoff.stores.shared.clock_changes import ClockWatch

NOW = "SELECT extract(epoch FROM clock_timestamp())::double precision"


class DatabaseClock:
    """The database's clock, which decides where the clocks of machines disagree."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._offset = time.time() - time.monotonic()  # of the database's clock from time.monotonic()
        self._set = ClockWatch("postgres")

    def now(self) -> float:
        """Return the database's time in unix seconds."""
        return time.monotonic() + self._offset

    def forked(self) -> None:
        """Replace the lock in a forked child: a thread of the parent may have held it."""
        self._lock = threading.Lock()

    def on_jump(self, callback: Callable[[], None]) -> None:
        """Do nothing: jumps of the database's clock are not reported."""

    def ask(self, connection: psycopg.Connection[Any]) -> None:
        """Query the database for its time."""
        sent_at = time.monotonic()
        row = connection.execute(NOW).fetchone()
        assert row is not None
        self.learn(sent_at, row[0], time.monotonic())

    def learn(self, sent_at: float, database_now: float, received_at: float) -> float:
        """Correct this clock with a reading of the database's.

        A slow reply makes the reading inexact, so the clock moves only as far as the reading proves necessary.

        Args:
            sent_at: When the query was sent, by ``time.monotonic()``.
            database_now: The database's time in its reply.
            received_at: When the reply arrived, by ``time.monotonic()``.

        Returns:
            By how many seconds the database's clock was set forward.
        """
        with self._lock:
            lowest, highest = database_now - received_at, database_now - sent_at
            before = self._offset
            self._offset = min(max(before, lowest), highest)
            self._set.note(self._offset - before)
            return self._offset - before
