"""The machine's speed without Signoff: the disk through SQLite, Python, asyncio."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROWS = 500
CALLS = 200_000
ROUND_TRIPS = 5_000

# The table has the columns and the key of Signoff's journal.
JOURNAL = """
CREATE TABLE journal (
    namespace TEXT NOT NULL, run_id TEXT NOT NULL, seq INTEGER NOT NULL, at REAL NOT NULL, kind TEXT NOT NULL,
    n INTEGER, call TEXT, name TEXT, value TEXT, error TEXT, details TEXT,
    PRIMARY KEY (namespace, run_id, seq)
) STRICT, WITHOUT ROWID
"""

ADD = (
    "INSERT INTO journal VALUES ('default', 'run-1', ?, ?, 'completed', ?, 'step', 'step', '42', NULL, NULL)"
)


@dataclass(frozen=True)
class Yardstick:
    """A measurement to compare with.

    Attributes:
        name: Its name.
        unit: The unit of the result of ``measure``.
        measure: Measures it once, in a folder on the measured disk.
    """

    name: str
    unit: str
    measure: Callable[[Path], float]


def _seconds_of_commits(folder: Path, rows_each: int, commits: int) -> float:
    """Time inserting journal rows at ``synchronous=FULL``, ``rows_each`` to a transaction."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        db = sqlite3.connect(Path(place) / "raw.db", isolation_level=None)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute(JOURNAL)
            began = time.perf_counter()
            for first in range(0, rows_each * commits, rows_each):
                db.execute("BEGIN IMMEDIATE")
                for seq in range(first, first + rows_each):
                    db.execute(ADD, (seq, 1.7e9, seq))
                db.execute("COMMIT")
            return time.perf_counter() - began
        finally:
            db.close()


def commits_per_second(folder: Path) -> float:
    """Rows per second, with a commit per row."""
    return ROWS / _seconds_of_commits(folder, 1, ROWS)


def rows_per_second(folder: Path) -> float:
    """Rows per second, with a commit per 100 rows."""
    return ROWS * 20 / _seconds_of_commits(folder, 100, ROWS // 5)


def milliseconds_of_commit(folder: Path) -> float:
    """The time to commit a single row."""
    return 1_000 * _seconds_of_commits(folder, 1, ROWS) / ROWS


def nanoseconds_of_call(folder: Path) -> float:
    """The time of a Python function call."""

    def called(value: int) -> int:
        return value

    began = time.perf_counter()
    for number in range(CALLS):
        called(number)
    return 1e9 * (time.perf_counter() - began) / CALLS


def microseconds_of_round_trip(folder: Path) -> float:
    """The time in which asyncio runs a task and returns its result through a future."""

    async def task(future: asyncio.Future[int], value: int) -> None:
        future.set_result(value)

    async def round_trips() -> float:
        loop = asyncio.get_running_loop()
        began = time.perf_counter()
        for number in range(ROUND_TRIPS):
            future: asyncio.Future[int] = loop.create_future()
            running = loop.create_task(task(future, number))
            await future
            await running
        return time.perf_counter() - began

    return 1e6 * asyncio.run(round_trips()) / ROUND_TRIPS


def seconds_of_round_trips(folder: Path) -> float:
    """The time of 10,000 asyncio round trips."""
    return microseconds_of_round_trip(folder) / 100


COMMITS = Yardstick("raw SQLite, a commit per row", "rows/s", commits_per_second)
BATCHES = Yardstick("raw SQLite, 100 rows per commit", "rows/s", rows_per_second)
COMMIT = Yardstick("one raw commit", "ms", milliseconds_of_commit)
CALL = Yardstick("a Python call", "ns", nanoseconds_of_call)
ROUND_TRIP = Yardstick("an asyncio task and future", "µs", microseconds_of_round_trip)
MANY_ROUND_TRIPS = Yardstick("10,000 asyncio tasks", "s", seconds_of_round_trips)

ALONE = (COMMITS, BATCHES, CALL, ROUND_TRIP)
