"""Folders of servers that are removed, with the servers, when their last process has ended in whatever way."""

from __future__ import annotations

import fcntl
import functools
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from tests.postgres.keeper import remove_unheld

PROJECT = Path(__file__).parents[2]
HELD = "held-"
ROOM_BYTES = 2 << 30


class HeldFolder:
    """A folder that this process holds, maybe beside others."""

    def __init__(self, path: Path, held: IO[bytes], keeper: subprocess.Popen[bytes] | None) -> None:
        self.path = path
        self._held = held
        self._keeper = keeper  # None if another process made the folder

    @classmethod
    def hold(cls, name: str, root: Path) -> HeldFolder:
        """Make a folder, or hold the one of this name that others hold already.

        Args:
            root: Where: ``on_disk()`` or ``in_memory()``.
        """
        with locked(on_disk() / "lock"):
            for path in held_folders():
                remove_unheld(path)
            path = root / f"{HELD}{name}"
            while True:
                try:
                    path.mkdir()
                except FileExistsError:
                    if held := _joined(path):
                        return cls(path, held, None)
                else:
                    held = (path / "held").open("wb")
                    fcntl.flock(held, fcntl.LOCK_SH)
                    return cls(path, held, _start_keeper(path))

    @classmethod
    def hold_new(cls, root: Path) -> HeldFolder:
        """Make a folder of this process alone."""
        return cls.hold(_new_name(), root)

    def release(self) -> None:
        """Hold the folder no longer. Who made it waits for its removal, and so for all others that hold it."""
        self._held.close()
        if self._keeper:
            self._keeper.wait()


@functools.cache
def of_this_run(root: Path) -> HeldFolder:
    """The folder that all processes of a test run hold to their end: the workers of xdist, and what they start."""
    return HeldFolder.hold(this_run(), root)


@functools.cache
def this_run() -> str:
    """The name of the test run that this process belongs to."""
    return os.environ.get("PYTEST_XDIST_TESTRUNUID") or _new_name()


def held_folders() -> list[Path]:
    """All such folders of this user."""
    return [folder for root in {on_disk(), in_memory()} for folder in root.glob(f"{HELD}*")]


def on_disk() -> Path:
    """Where folders are that the servers' account can reach, with programs and what a crash must not lose."""
    temporary = Path(tempfile.gettempdir()).resolve()
    if os.getuid() == 0 and not all(
        folder.stat().st_mode & 0o001 for folder in (temporary, *temporary.parents)
    ):
        temporary = Path("/tmp")
    return _root_in(temporary)


def in_memory() -> Path:
    """Where folders are that wait for no disk; on disk if there is little memory, or none to write files to."""
    memory = Path("/dev/shm")
    if memory.is_dir() and shutil.disk_usage(memory).free > ROOM_BYTES:
        return _root_in(memory)
    return on_disk()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Be the only one, of all processes, in this block."""
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _root_in(parent: Path) -> Path:
    path = parent / f"signoff-postgres-{os.getuid()}"
    path.mkdir(mode=0o755, exist_ok=True)
    if path.stat().st_uid != os.getuid():
        raise RuntimeError(f"{path} belongs to another user: remove it, or set TMPDIR to another folder")
    return path


def _new_name() -> str:
    return f"{os.getpid()}-{secrets.token_hex(4)}"


def _joined(path: Path) -> IO[bytes] | None:
    """Hold an existing folder; None if it is gone, for its last holder was."""
    with suppress(FileNotFoundError):
        held = (path / "held").open("rb")
        fcntl.flock(held, fcntl.LOCK_SH)  # waits while it is being removed
        if (path / "held").exists():
            return held
        held.close()
    return None


def _start_keeper(path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.postgres.keeper", path],
        cwd=PROJECT,
        env={name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is not meant for it
    )
