"""How long SQLite's write-ahead log may become, and emptying it where SQLite itself does not come to it.

SQLite restarts the log once all of it is in the database and no reader uses it. Programs outside whose reads
overlap keep it from that for as long as they go on, while each commit makes the log longer. Then it is emptied
by force: commits wait until those have read to their end who read now. That wait is short while the log is small,
and rare.
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
"""From this length on the log is emptied by force."""

WARN_BYTES: Final = 256 * MIB
PATIENCE: Final = (
    (1024 * MIB, 3.0),
    (512 * MIB, 2.0),
    (WARN_BYTES, 1.0),
    (128 * MIB, 0.5),
    (LIMIT_BYTES, 0.25),
)
"""For how many seconds commits wait for readers, by the log's length. Leases bear no longer wait: they last 10 s, and
commits extend them.
"""

LOOKS: Final = 10
"""In how many parts an attempt waits. SQLite waits for each of its locks as long as it may, one after another: in one
part, an attempt takes several times as long.
"""

REST: Final = ((1024 * MIB, 5.0), (512 * MIB, 10.0), (0, 20.0))
"""After an attempt that failed, or took longer than the log's length allows, commits go on for so many times as long as
it took, by the log's length.
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
        self._enough_seconds = 0.0  # what the last attempt took that succeeded
        self._warned_bytes = WARN_BYTES // 2

    def is_due(self, length: int, now: float) -> bool:
        """Whether to empty a log of so many bytes, by a monotonic clock."""
        return length > LIMIT_BYTES and now >= self._not_before

    def patience(self, length: int) -> float:
        """Return for how many seconds commits may wait: reads that an attempt waited for are as long the next time."""
        return min(max(_at(PATIENCE, length), self._enough_seconds), PATIENCE[0][1])

    def empty(self, db: sqlite3.Connection, length: int) -> bool:
        """Empty the log through the writing connection, which has no transaction open.

        Args:
            db: Its ``busy_timeout`` is 0, and is so again afterwards.
            length: The log's, in bytes.

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
        """Remember how an attempt ended, and log what does not get better by itself.

        Args:
            is_empty: Whether the log was emptied.
            length: How long it was, in bytes.
            took: How long the attempt took, in seconds.
            now: The monotonic clock at its end.
        """
        is_quick = is_empty and took <= _at(PATIENCE, length)
        self._not_before = now + (0.0 if is_quick else max(_at(REST, length) * took, LEAST_REST_SECONDS))
        if is_empty:
            self._enough_seconds = took
            if self._warned_bytes >= WARN_BYTES:
                log.warning("store %s: its write-ahead log is emptied", self._location)
            self._warned_bytes = WARN_BYTES // 2
        elif length >= 2 * self._warned_bytes:
            self._warned_bytes = length
            log.warning(
                "store %s: its write-ahead log has grown to %d MiB, because another program reads without a pause. "
                "Have its transactions end sooner; `signoff doctor` names the process",
                self._location,
                length // MIB,
            )


def _at(table: Sequence[tuple[int, float]], length: int) -> float:
    return next((value for at_least, value in table if length >= at_least), table[-1][1])
