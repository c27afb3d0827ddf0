"""Freezing processes that are not our children, and waiting for their end."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psutil


def lives(process: psutil.Process) -> bool:
    """Whether it runs. What has ended and waits for its parent to notice does not: some first processes never do."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for_end(processes: Sequence[psutil.Process], *, seconds: float) -> list[psutil.Process]:
    """Wait until all have ended; returns those that still live after so many seconds."""
    deadline = time.monotonic() + seconds
    while (alive := [process for process in processes if lives(process)]) and time.monotonic() < deadline:
        time.sleep(0.005)
    return alive


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """A process and its children stand still: connections stay open, nothing is answered."""
    processes = [psutil.Process(pid)]
    processes[0].suspend()  # so that it starts no further ones
    processes += processes[0].children(recursive=True)
    for process in processes[1:]:
        process.suspend()
    try:
        yield
    finally:
        for process in reversed(processes):
            process.resume()
