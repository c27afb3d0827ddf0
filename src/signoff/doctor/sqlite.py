"""Checks of an SQLite file and its disk."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from signoff.doctor.findings import Check, Verdict, failure, latency, ok, skipped, warning
from signoff.doctor.workload import LATE_SECONDS, time
from signoff.stores.sqlite import inspection
from signoff.stores.sqlite.free_space import space_of
from signoff.stores.sqlite.schema import connect, connect_to_look
from signoff.stores.sqlite.write_ahead_log import WARN_BYTES

COMMITS: Final = 7
BUSY_SECONDS: Final = 5.0
SLOW_COMMIT_SECONDS: Final = 0.05
LOOK_SECONDS: Final = 1.0  # for damage: a read of more than 1.5 s keeps the log from being emptied
LITTLE_BYTES: Final = 1 << 30
TOO_LITTLE_BYTES: Final = 100 << 20
MUCH_FREE_BYTES: Final = 256 << 20

# A write-ahead log needs shared memory, which network file systems do not have.
NETWORK = frozenset(
    {
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "afs",
        "ceph",
        "glusterfs",
        "lustre",
        "beegfs",
        "9p",
        "fuse.sshfs",
    }
    | {"fuse.glusterfs", "fuse.s3fs", "fuse.gcsfuse"}
)


@dataclass(frozen=True)
class File:
    """An existing database file."""

    path: Path


def journal(file: File) -> Iterable[Verdict]:
    with closing(connect_to_look(file.path)) as db:
        mode = inspection.journal_mode(db)
    if mode == "wal":
        yield ok("it has a write-ahead log")
    else:
        yield warning(f"journal_mode is {mode}, not wal: start a server or a worker, which sets it")
    length = inspection.log_bytes(file.path)
    if length > WARN_BYTES:
        readers = inspection.readers(file.path)
        names = ", ".join(f"{name} ({pid})" for pid, name in readers) or "none just now"
        yield warning(
            f"the write-ahead log has grown to {length >> 20:,} MiB, the database has "
            f"{os.path.getsize(file.path) >> 20:,} MiB: a program reads without a pause or in one long transaction, so "
            f"that it cannot be emptied. Processes that read: {names}. End their transactions, or the processes"
        )


def space(file: File) -> Iterable[Verdict]:
    with closing(connect_to_look(file.path)) as db:
        found = space_of(db)
    text = f"{found.free >> 20:,} of its {found.total >> 20:,} MiB are free"
    if found.free < MUCH_FREE_BYTES or found.free * 2 < found.total:
        yield ok(text)
    elif found.can_be_given_back:
        yield warning(f"{text}: signoff compact returns them to the system, while work continues")
    else:
        yield warning(
            f"{text}: stop all processes that use it and run signoff compact --rebuild to return them"
        )


def disk(file: File) -> Iterable[Verdict]:
    free = inspection.free_bytes(file.path)
    text = f"{free >> 20:,} MiB are free at {file.path.parent}"
    if free < TOO_LITTLE_BYTES:
        yield failure(f"{text}: make space, work stops when it is used up")
    elif free < LITTLE_BYTES:
        yield warning(f"{text}: make space")
    else:
        yield ok(text)


def file_system(file: File) -> Iterable[Verdict]:
    kind = inspection.file_system(file.path)
    if kind in NETWORK:
        yield failure(
            f"{file.path} is on {kind}, a network file system, where SQLite can be damaged; put it on a local disk, or "
            f"use Postgres"
        )
    else:
        yield ok(f"it is on {kind}") if kind else skipped("this system does not report its file system")


def permissions(file: File) -> Iterable[Verdict]:
    if os.name != "posix":
        yield skipped("file permissions are not checked on this system")
        return
    mode = stat.S_IMODE(os.stat(file.path).st_mode)
    readers = " and ".join(
        name
        for name, bits in (("its group", stat.S_IRWXG), ("all users of this machine", stat.S_IRWXO))
        if mode & bits
    )
    if readers:
        yield warning(
            f"{readers} may open the file (mode {mode:04o}): unless that is intended, stop all processes that use it, "
            f"and `chmod 600` it and its -wal and -shm files"
        )
    else:
        yield ok("only its owner may open it")


def commits(file: File) -> Iterable[Verdict]:
    try:
        with closing(connect(file.path, busy_seconds=BUSY_SECONDS)) as db:
            taken = inspection.commit_seconds(db, COMMITS)
    except sqlite3.Error as error:
        yield failure(
            f"nothing can be committed: {error}; check permissions, space, and which process locks it"
        )
        return
    yield latency(taken, "a commit", SLOW_COMMIT_SECONDS, "each step waits for one: use a faster disk")


def integrity(file: File) -> Iterable[Verdict]:
    with closing(connect_to_look(file.path)) as db:
        found, is_all = inspection.damage(db, LOOK_SECONDS)
    if found:
        yield failure(f"the file is damaged: {found}; stop everything and restore a backup")
    elif is_all:
        yield ok("no damage found")
    else:
        yield ok(f"no damage found in {LOOK_SECONDS:g} s; for a complete check: PRAGMA integrity_check")


def indexes(file: File) -> Iterable[Verdict]:
    with closing(connect_to_look(file.path)) as db:
        missing = inspection.indexes(db).missing
    for name in missing:
        yield failure(f"index {name} is missing: create it as in schema/sqlite/*.sql")
    if not missing:
        yield ok("all exist")


FILE_CHECKS: Mapping[str, Check[File]] = {
    "file system": file_system,
    "disk": disk,
    "permissions": permissions,
    "journal": journal,
    "space": space,
    "commits": commits,
    "integrity": integrity,
}


def overdue(file: File) -> Iterable[Verdict]:
    with closing(connect_to_look(file.path)) as db:
        return time(inspection.late(db, LATE_SECONDS))


SCHEMA_CHECKS: Mapping[str, Check[File]] = {"indexes": indexes, "time": overdue}
