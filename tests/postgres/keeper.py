"""Ends a server and removes its folder once no process holds the folder: ``python -m tests.postgres.keeper``.

A process that dies, even by kill -9, holds nothing: the lock is the kernel's.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from tests.postgres.processes import wait_for_end

SERVERS = ("postgres", "pgbouncer")
PATIENCE_SECONDS = 10.0


def keep(folder: Path) -> None:
    """Wait until no process holds the folder, and remove it."""
    _remove_unheld(folder, fcntl.LOCK_EX)


def remove_unheld(folder: Path) -> None:
    """Remove a folder that no process holds and no keeper removes: its keeper died, too."""
    with suppress(BlockingIOError):
        _remove_unheld(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if not (folder / "held").exists():
        shutil.rmtree(folder, ignore_errors=True)  # it was never held, or is half removed


def _remove_unheld(folder: Path, operation: int) -> None:
    with suppress(FileNotFoundError), (folder / "held").open("rb") as held:
        fcntl.flock(held, operation)
        # Another process may have removed it meanwhile, and another folder may have its name.
        if os.path.samestat(os.fstat(held.fileno()), (folder / "held").stat()):
            _remove(folder)


def _remove(folder: Path) -> None:
    servers = [process for process in psutil.process_iter(["name", "cmdline"]) if _runs_in(process, folder)]
    for server in servers:
        with suppress(psutil.NoSuchProcess):
            server.send_signal(signal.SIGQUIT)  # Postgres: end at once
    alive = wait_for_end(servers, seconds=PATIENCE_SECONDS)
    for server in alive:
        with suppress(psutil.NoSuchProcess):
            server.kill()
    wait_for_end(alive, seconds=PATIENCE_SECONDS)
    for pid_file in folder.glob("*/data/postmaster.pid"):
        _free_shared_memory(pid_file)
    # All at once, so that no process joins a half removed folder.
    removed = folder.rename(f"{folder}-removed")
    shutil.rmtree(removed, ignore_errors=True)


def _runs_in(process: psutil.Process, folder: Path) -> bool:
    arguments = process.info["cmdline"] or ()
    return process.info["name"] in SERVERS and any(
        folder in Path(argument).parents for argument in arguments[1:]
    )


def _free_shared_memory(pid_file: Path) -> None:
    """Free the System V segment that a killed Postgres leaves; they are few on a machine."""
    with suppress(FileNotFoundError, IndexError):
        segment = pid_file.read_text().splitlines()[6].split()[1]
        subprocess.run(["ipcrm", "-m", segment], check=False, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
