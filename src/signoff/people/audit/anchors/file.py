"""An anchor in an append-only file, with one line per checkpoint."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from signoff.errors import InvalidValue
from signoff.people.audit.anchors.anchor import AnchorUnavailable, Kept
from signoff.people.audit.anchors.checkpoint import LONGEST_TEXT, Checkpoint, read_checkpoint

try:
    import fcntl
except ImportError:  # Windows: a line is added in one write
    fcntl = None

MODE_OF_NEW: Final = 0o640
LONGEST_LINE: Final = 2 * LONGEST_TEXT


class FileAnchor:
    """Appends each checkpoint to a file, as a line of JSON such as ``{"note": "signoff/default\\n42\\n..."}``.

    The operating system may make the file append-only (``chattr +a``). Its directory must exist.

    Args:
        path: The file. It is created with the first checkpoint.

    Raises:
        InvalidValue: The path is not absolute.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_absolute():
            raise InvalidValue("anchor", f"{str(path)!r} is not an absolute path")
        self._path = path

    @property
    def name(self) -> str:
        return self._path.as_uri()

    async def keep(self, checkpoint: Checkpoint) -> None:
        line = json.dumps({"note": checkpoint.text}).encode() + b"\n"
        await asyncio.to_thread(self._add, line)

    def _add(self, line: bytes) -> None:
        try:
            is_new = not self._path.exists()
            # Opened for reading, too, to see whether a full disk has cut off the last line.
            file = os.open(
                self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), MODE_OF_NEW
            )
            try:
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    raise AnchorUnavailable(self.name, "it is not a regular file")
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_EX)
                size = os.fstat(file).st_size
                if size and _last_byte(file, size) != b"\n":
                    line = b"\n" + line
                while line:
                    line = line[os.write(file, line) :]
                os.fsync(file)
            finally:
                os.close(file)
            if is_new:
                self._make_durable()
        except OSError as error:
            raise AnchorUnavailable(
                self.name, f"{error.strerror or error}; check that its directory exists and is writable"
            ) from error

    def _make_durable(self) -> None:
        """Make the file's directory entry survive a power failure."""
        with suppress(OSError):  # not supported by every file system
            folder = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    async def read(self, origin: str, namespace: str | None = None) -> Kept | None:
        return await asyncio.to_thread(self._read, origin, namespace)

    def _read(self, origin: str, namespace: str | None) -> Kept:
        checkpoints: list[Checkpoint] = []
        unreadable = 0
        try:
            with open(self._path, "rb") as file:
                while line := file.readline(LONGEST_LINE):
                    try:
                        found = read_checkpoint(_note_in(line))
                    except InvalidValue:
                        unreadable += bool(line.strip())
                        continue
                    if found.origin == origin and namespace in (None, found.namespace):
                        checkpoints.append(found)
        except FileNotFoundError:
            pass  # not written yet, or removed: the store's cursor tells the two apart
        except OSError as error:
            raise AnchorUnavailable(self.name, f"{error.strerror or error}; check its permissions") from error
        return Kept(checkpoints, unreadable)

    async def close(self) -> None:
        """Nothing is open."""


def _last_byte(file: int, size: int) -> bytes:
    os.lseek(file, size - 1, os.SEEK_SET)
    return os.read(file, 1)


def _note_in(line: bytes) -> str:
    """Return the note in a line. Raises InvalidValue."""
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):
        raise InvalidValue("anchor", "a line is not JSON") from None
    note: Any = found.get("note") if isinstance(found, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if not isinstance(note, str):
        raise InvalidValue("anchor", "a line does not have a note")
    return note
