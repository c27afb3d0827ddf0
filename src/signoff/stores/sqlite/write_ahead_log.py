"""Limits the size of SQLite's write-ahead log by emptying it when SQLite itself cannot.

SQLite restarts the log once all of it is in the database and no reader uses it. External programs with overlapping
reads prevent that, while each commit makes the log longer. Then the log is emptied by force: commits wait until current
reads have finished. That wait is rare, and short while the log is small.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from typing import Final

from signoff.runtime.loggers import own_logger

log = own_logger("signoff.store")

MIB: Final = 1 << 20
LIMIT_BYTES: Final = 64 * MIB
"""Length from which the log is emptied by force."""

WARN_BYTES: Final = 256 * MIB
PATIENCE: Final = (
    (1024 * MIB, 3.0),
    (512 * MIB, 2.0),
    (WARN_BYTES, 1.0),
    (128 * MIB, 0.5),
    (LIMIT_BYTES, 0.25),
)
"""How many seconds commits wait for readers, by the log's length. Leases allow no longer wait: they last 10 s, and are
extended by commits.
"""

LOOKS: Final = 10
"""Number of waits per attempt. SQLite waits the full timeout for each of its locks in turn, so a single wait would take
several times as long.
"""

REST: Final = ((1024 * MIB, 5.0), (512 * MIB, 10.0), (0, 20.0))
"""Pause after an attempt that failed or took too long, as a multiple of its duration, by the log's length.
"""

LEAST_REST_SECONDS: Final = 1.0


class LogLimit:
    """Decides when to empty one file's log by force, and does it.

    Args:
        location: The store's address, for messages.
    """

    def __init__(self, location: str) -> None:
        self._location = location
        self._not_before = float("-inf")
        self._enough_seconds = 0.0  # duration of the last successful attempt
        self._warned_bytes = WARN_BYTES // 2

    def is_due(self, length: int, now: float) -> bool:
        """Whether to empty a log of this length, at a monotonic time."""
        return length > LIMIT_BYTES and now >= self._not_before

    def patience(self, length: int) -> float:
        """Return how many seconds commits may wait: at least the duration of the last successful attempt."""
        return min(max(_at(PATIENCE, length), self._enough_seconds), PATIENCE[0][1])

    def empty(self, db: sqlite3.Connection, length: int) -> bool:
        """Empty the log through the writing connection, which has no open transaction.

        Args:
            db: The connection. Its ``busy_timeout`` is 0, and is reset to 0.
            length: Length of the log in bytes.

        Returns:
            Whether it is empty now.
        """
        patience = self.patience(length)
        give_up_at = time.monotonic() + patience
        db.execute(f"PRAGMA busy_timeout = {int(patience / LOOKS * 1000)}")
        try:
            while db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                if time.monotonic() >= give_up_at:
                    return False
        finally:
            db.execute("PRAGMA busy_timeout = 0")
        return True

    def note(self, *, is_empty: bool, length: int, took: float, now: float) -> None:
        """Record the outcome of an attempt, and log problems that do not resolve themselves.

        Args:
            is_empty: Whether the log was emptied.
            length: Length of the log before, in bytes.
            took: Duration of the attempt in seconds.
            now: Monotonic time of its end.
        """
        is_quick = is_empty and took <= _at(PATIENCE, length)
        self._not_before = now + (0.0 if is_quick else max(_at(REST, length) * took, LEAST_REST_SECONDS))
        if is_empty:
            self._enough_seconds = took
            if self._warned_bytes >= WARN_BYTES:
                log.warning("store %s: its write-ahead log was emptied", self._location)
            self._warned_bytes = WARN_BYTES // 2
        elif length >= 2 * self._warned_bytes:
            self._warned_bytes = length
            log.warning(
                "store %s: its write-ahead log has grown to %d MiB, because another program reads it continuously. "
                "Shorten its transactions; `signoff doctor` names the process",
                self._location,
                length // MIB,
            )


def _at(table: Sequence[tuple[int, float]], length: int) -> float:
    return next((value for at_least, value in table if length >= at_least), table[-1][1])
