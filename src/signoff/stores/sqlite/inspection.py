"""Cheap inspection of an SQLite file and its disk."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import struct
import sys
import time
from pathlib import Path

import psutil

from signoff.stores.shared.inspection import COUNTED_AT_MOST, NAMESPACES_AT_MOST, Indexes, Late
from signoff.stores.sqlite.schema import migrations

READ_LOCKS = range(124, 128)
"""The bytes of the shared memory that readers of the log lock. Readers of only the database lock the byte before."""

FLOCK = "hhqqi"  # struct flock, on Linux

NEXT_NAMESPACE = "SELECT min(namespace) FROM runs WHERE namespace > ?"

LATE = {
    "deadlines of questions and promises": """
        SELECT due_at AS at FROM promises INDEXED BY promises_due
        WHERE state = 'pending' AND due_at IS NOT NULL AND due_at < :before ORDER BY due_at LIMIT :limit
    """,
    "reminders and escalations of questions": """
        SELECT act_at AS at FROM promises INDEXED BY promises_to_act
        WHERE kind = 'question' AND state = 'pending' AND act_at IS NOT NULL AND act_at < :before
        ORDER BY act_at LIMIT :limit
    """,
    "timers and delayed starts": """
        SELECT wake_at AS at FROM runs INDEXED BY runs_timers
        WHERE state = 'paused' AND wake_at IS NOT NULL AND wake_at < :before ORDER BY wake_at LIMIT :limit
    """,
    "deadlines of runs": """
        SELECT deadline_at AS at FROM runs INDEXED BY runs_deadlines
        WHERE deadline_at IS NOT NULL AND deadline_passed = 0 AND ended_at IS NULL AND deadline_at < :before
        ORDER BY deadline_at LIMIT :limit
    """,
    "leases that ran out": """
        SELECT lease_until AS at FROM runs INDEXED BY runs_leases
        WHERE state = 'running' AND lease_until < :before ORDER BY lease_until LIMIT :limit
    """,
    "schedules": """
        SELECT next_at AS at FROM schedules INDEXED BY schedules_due
        WHERE is_paused = 0 AND next_at < :before ORDER BY next_at LIMIT :limit
    """,
}

INDEXES = "SELECT name FROM sqlite_schema WHERE type = 'index'"


def journal_mode(db: sqlite3.Connection) -> str:
    """Return the file's journal mode; Signoff uses ``wal``."""
    return str(db.execute("PRAGMA journal_mode").fetchone()[0])


def commit_seconds(db: sqlite3.Connection, times: int) -> list[float]:
    """Return the durations of ``times`` commits. Each rewrites the schema version unchanged."""
    taken: list[float] = []
    for _ in range(times):
        began_at = time.perf_counter()
        db.execute("BEGIN IMMEDIATE")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        db.execute(f"PRAGMA user_version = {version}")
        db.execute("COMMIT")
        taken.append(time.perf_counter() - began_at)
    return taken


def damage(db: sqlite3.Connection, seconds: float) -> tuple[str | None, bool]:
    """Check the file for damage, within a time limit.

    Returns:
        The first damage found, and whether the whole file was checked.
    """
    give_up_at = time.monotonic() + seconds
    db.set_progress_handler(lambda: int(time.monotonic() > give_up_at), 10_000)
    try:
        found = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        return None, False
    finally:
        db.set_progress_handler(None, 0)
    return (None if found == "ok" else found), True


def free_bytes(path: Path) -> int:
    """Return the free space on the file's disk."""
    return shutil.disk_usage(path.parent).free


def log_bytes(path: Path) -> int:
    """Return the size of the write-ahead log."""
    log = path.with_name(f"{path.name}-wal")
    return log.stat().st_size if log.exists() else 0


def readers(path: Path) -> list[tuple[int, str]]:
    """Return the id and name of processes that are reading the write-ahead log; empty if that is unknown.

    This process must have no connection to the file, because it would lose its locks.
    """
    if sys.platform != "linux":
        return []
    import fcntl

    found: dict[int, str] = {}
    try:
        with open(f"{path}-shm", "rb") as index:
            for place in READ_LOCKS:
                asked = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
                kind, _, _, _, pid = struct.unpack(FLOCK, fcntl.fcntl(index, fcntl.F_GETLK, asked))
                if kind != fcntl.F_UNLCK and pid > 0:
                    found[pid] = _name_of(pid)
    except OSError:
        return []
    return sorted(found.items())


def _name_of(pid: int) -> str:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return "unknown"


def file_system(path: Path) -> str | None:
    """Return the type of the file's file system, if known."""
    real = os.path.realpath(path)
    found = [
        mount
        for mount in psutil.disk_partitions(all=True)
        if os.path.commonpath([mount.mountpoint, real]) == mount.mountpoint
    ]
    return max(found, key=lambda mount: len(mount.mountpoint)).fstype if found else None


def indexes(db: sqlite3.Connection) -> Indexes:
    """Return the missing indexes."""
    expected: set[str] = set()
    for kind, name in re.findall(r"(CREATE|DROP) (?:UNIQUE )?INDEX (\w+)", "\n".join(migrations())):
        if kind == "CREATE":
            expected.add(name)
        else:
            expected.discard(name)
    return Indexes(tuple(sorted(expected - {row[0] for row in db.execute(INDEXES)})))


def late(db: sqlite3.Connection, than_seconds: float) -> list[Late]:
    """Return the items overdue by more than ``than_seconds``."""
    now = time.time()
    found: list[Late] = []
    for what, statement in LATE.items():
        values = {"before": now - than_seconds, "limit": COUNTED_AT_MOST}
        count, first = db.execute(f"SELECT count(*), min(at) FROM ({statement})", values).fetchone()
        if count:
            found.append(Late(what, count, now - first))
    return found


def namespaces(db: sqlite3.Connection) -> list[str]:
    """Return up to ``NAMESPACES_AT_MOST`` namespaces that have runs, sorted by name."""
    found: list[str] = []
    while len(found) < NAMESPACES_AT_MOST:
        (name,) = db.execute(NEXT_NAMESPACE, ((found or [""])[-1],)).fetchone()
        if name is None:
            break
        found.append(name)
    return found
