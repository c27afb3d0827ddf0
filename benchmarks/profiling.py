"""Where a row's time goes: cProfile on every thread, and in every process, that takes part."""

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
WORTH_SHOWING = 0.02  # of all the time that was not spent waiting


@dataclass(frozen=True)
class Spent:
    """What one function took, in seconds, with the profiler's own share."""

    where: str
    calls: int
    own: float
    total: float


class Profiler:
    """Profiles this thread, the threads that begin meanwhile, and the main threads of other processes.

    From Python 3.12 on a profile of one thread covers all of its process.

    Args:
        folder: Where other processes leave their profiles.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._profiles: dict[str, list[cProfile.Profile]] = {}

    @contextmanager
    def threads(self) -> Iterator[None]:
        """Profile the threads that begin in this block."""
        if sys.version_info < (3, 12):
            threading.setprofile(self._thread_began)
        try:
            yield
        finally:
            threading.setprofile(None)  # pyright: ignore[reportArgumentType]

    @contextmanager
    def this_thread(self) -> Iterator[None]:
        """Profile this thread, on which client and worker run, while the block runs."""
        profile = self._new_profile("event loop")
        profile.enable()
        try:
            yield
        finally:
            profile.disable()

    def command(self, name: str) -> list[str]:
        """Return the beginning of the command of a Python process to be profiled."""
        file = tempfile.mktemp(f"-{name}.profile", dir=self._folder)
        return [sys.executable, "-m", "cProfile", "-o", file]

    def spent(self) -> dict[str, list[Spent]]:
        """Return what took the most own time, for each kind of thread and each other process that did much."""
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
        self._new_profile(name).enable()  # takes the place of this function on this thread


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
