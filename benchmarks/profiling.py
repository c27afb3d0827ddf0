"""Profiles a row with cProfile, on all threads and processes that take part."""

from __future__ import annotations

import cProfile
import pstats
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

TOP = 25
WAITS = frozenset(
    {
        "<built-in method posix.waitpid>",
        "<method 'acquire' of '_thread.lock' objects>",
        "<method 'get' of '_queue.SimpleQueue' objects>",
        "<method 'poll' of 'select.epoll' objects>",
    }
)
WORTH_SHOWING = 0.02  # of the time outside of waits


@dataclass(frozen=True)
class Spent:
    """The time spent in one function, in seconds, including the profiler's share."""

    where: str
    calls: int
    own: float
    total: float


class Profiler:
    """Profiles this thread, threads that start meanwhile, and the main threads of other processes.

    From Python 3.12 on, a thread's profile covers its whole process.

    Args:
        folder: The folder for the profiles of other processes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._profiles: dict[str, list[cProfile.Profile]] = {}

    @contextmanager
    def threads(self) -> Iterator[None]:
        """Profile the threads that start in this block."""
        if sys.version_info < (3, 12):
            threading.setprofile(self._thread_began)
        try:
            yield
        finally:
            threading.setprofile(None)  # pyright: ignore[reportArgumentType]

    @contextmanager
    def this_thread(self) -> Iterator[None]:
        """Profile this thread, with the client and the worker, in this block."""
        profile = self._new_profile("event loop")
        profile.enable()
        try:
            yield
        finally:
            profile.disable()

    def command(self, name: str) -> list[str]:
        """Return the first words of the command of a profiled Python process."""
        file = tempfile.mktemp(f"-{name}.profile", dir=self._folder)
        return [sys.executable, "-m", "cProfile", "-o", file]

    def spent(self) -> dict[str, list[Spent]]:
        """Return the functions with the most own time, for each kind of thread and each busy process."""
        spent = {name: _spent(pstats.Stats(*profiles)) for name, profiles in self._profiles.items()}
        for file in sorted(self._folder.glob("*.profile")):
            spent[f"process {file.stem.rpartition('-')[2]}"] = _spent(pstats.Stats(str(file)))
        busy = {name: sum(each.own for each in all if each.where not in WAITS) for name, all in spent.items()}
        enough = WORTH_SHOWING * sum(busy.values())
        busiest = sorted((name for name in spent if busy[name] > enough), key=lambda name: -busy[name])
        return {name: spent[name][:TOP] for name in busiest}

    def _new_profile(self, thread: str) -> cProfile.Profile:
        profile = cProfile.Profile()
        self._profiles.setdefault(thread, []).append(profile)
        return profile

    def _thread_began(self, frame: FrameType, event: str, argument: object) -> None:
        name = f"thread {threading.current_thread().name.rstrip('_0123456789')}"
        self._new_profile(name).enable()  # replaces this function on this thread


def _spent(stats: pstats.Stats) -> list[Spent]:
    found = [
        Spent(_named(*where), calls, own, total)
        for where, (_, calls, own, total, _) in stats.stats.items()  # pyright: ignore[reportAttributeAccessIssue]
    ]
    return sorted(found, key=lambda spent: spent.own, reverse=True)


def _named(file: str, line: int, function: str) -> str:
    if file == "~":
        return function
    parts = Path(file).parts
    for package in ("signoff", "benchmarks"):
        if package in parts[:-1]:
            return f"{'/'.join(parts[parts.index(package) :])}:{line} {function}"
    return f"{'/'.join(parts[-2:])}:{line} {function}"
