"""Checks that a path still leads to the open files of an SQLite store: the database, its log and its shared memory.

SQLite keeps writing to a deleted or replaced file. Its commits are then lost when the last process closes the file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

_Identity = tuple[int, int]

MOUNTS: Final = "/proc/self/mountinfo"
_NETWORK: Final = frozenset(
    {
        "9p",
        "afs",
        "ceph",
        "cifs",
        "fuse.sshfs",
        "glusterfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
    }
)
_SMALLEST: Final = 512  # bytes of an SQLite file
LOOK_AFTER_SECONDS: Final = 0.02  # between checks of successive commits, each of which releases the GIL


class OpenFiles:
    """The files of an open connection, as they were when it was opened.

    Args:
        path: The database. A connection has already read it.

    Raises:
        OSError: One of its files does not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = os.fspath(path)
        self._log = f"{path}-wal"
        self._index = f"{path}-shm"
        found = os.stat(self._path)
        self._file_was = _identity(found)
        self._size = found.st_size
        log = os.stat(self._log)
        self._log_was = _identity(log)
        self._log_size = log.st_size
        self._index_was = _identity(os.stat(self._index))
        self._loss: str | None = None  # a loss that moving the file back does not undo
        self._looked_at = float("-inf")

    def trouble(self, is_whole: Callable[[int, int], bool], now: float) -> str | None:
        """Return why the latest commit may not last; None if nothing is known.

        It checks at most once per ``LOOK_AFTER_SECONDS``. Commits just after the loss of a file may go unnoticed, as
        those just before it do anyway.

        Args:
            is_whole: See ``look``.
            now: A reading of ``time.perf_counter()``.
        """
        if now - self._looked_at < LOOK_AFTER_SECONDS:
            return None
        stat = os.stat
        try:
            found = stat(self._path)
            log = stat(self._log)
        except OSError:
            return self.look(is_whole)
        if (
            (found.st_dev, found.st_ino) == self._file_was
            and (log.st_dev, log.st_ino) == self._log_was
            and found.st_size >= self._size
            and log.st_size >= self._log_size
        ):
            self._looked_at = now
            self._size, self._log_size = found.st_size, log.st_size
            return None
        return self.look(is_whole)

    def look(self, is_whole: Callable[[int, int], bool]) -> str | None:
        """Check all files, and return what is wrong with them.

        Args:
            is_whole: Whether the database has all its pages, given the sizes of the file and of the log. Called if a
                file has shrunk, as after ``VACUUM`` or a checkpoint that truncates the log.
        """
        if self._loss is not None:
            return self._loss
        restart = "restart every process that has it open"
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return (
                "its file was deleted, renamed or moved away while it was open. Writes are refused. Move the same "
                f"file back, or {restart}"
            )
        except OSError as error:
            return f"its file cannot be checked: {error}"
        if _identity(found) != self._file_was:
            return (
                "its file was replaced by another one, such as a restored backup. Writes are refused. "
                f"Move the old file back, or {restart}"
            )
        log_size = self._log_size
        for path, was in ((self._index, self._index_was), (self._log, self._log_was)):
            try:
                beside = os.stat(path)
                log_size = beside.st_size
                if _identity(beside) == was:
                    continue
            except OSError:
                pass
            return (
                f"{os.path.basename(path)} was deleted or replaced while it was open. Writes are "
                "refused. Stop every process that has it open with SIGTERM, and start it again"
            )
        if found.st_size < _SMALLEST:
            self._loss = f"its file was truncated to {found.st_size} bytes. Restore a backup, and {restart}"
        elif (found.st_size < self._size or log_size < self._log_size) and not is_whole(
            found.st_size, log_size
        ):
            self._loss = (
                f"its file or its log was truncated while it was open. Restore a backup, and {restart}"
            )
        if self._loss is not None:
            self._size = sys.maxsize  # so that ``trouble`` always checks again
            self._looked_at = float("-inf")
            return self._loss
        self._size, self._log_size = found.st_size, log_size
        return None

    @property
    def log_bytes(self) -> int:
        """Size of the log at the last check."""
        return self._log_size

    def log_was_emptied(self) -> None:
        """Accept the log's current size: this process has emptied the log."""
        try:
            self._log_size = os.stat(self._log).st_size
        except OSError:  # the next check reports it
            self._log_size = 0

    @property
    def is_read_only(self) -> bool:
        """Whether this process could not open the file for writing now."""
        return not os.access(self._path, os.W_OK)


def _identity(found: os.stat_result) -> _Identity:
    return found.st_dev, found.st_ino


def network_file_system(path: Path) -> str | None:
    """Return the type of the network file system of a file; None if it is on a local one, or unknown."""
    if sys.platform != "linux":
        return None
    try:
        with open(MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            mounts = [line.split(" - ") for line in file]
    except OSError:
        return None
    folder = os.path.realpath(path.parent)
    best, kind = "", None
    for about, of_system in (each for each in mounts if len(each) == 2):
        point = about.split()[4].encode("utf-8", "surrogateescape").decode("unicode_escape")
        inside = folder == point or folder.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, of_system.split()[0]
    return kind if kind in _NETWORK else None
