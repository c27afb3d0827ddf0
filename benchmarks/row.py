"""What a benchmark is made of: a row that measures figures, and lines that say what is asked of them."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.profiling import Profiler
from benchmarks.yardsticks import Yardstick

Figures = dict[str, list[float]]


@dataclass(frozen=True)
class Sizes:
    """How much each row does."""

    steps: int = 1_000  # of one sequential run
    runs: int = 100  # concurrent ones, of 10 steps
    many_runs: int = 1_000
    answers: int = 50  # given one after the other, for a latency
    answers_after_rest: int = 5  # the same, with a rest before each
    parked: int = 5_000  # runs answered all at once
    long_steps: int = 10_000  # of one long run, and entries of one replay
    paused: int = 100_000  # runs that lie in the store
    open: int = 1_000_000  # questions, in whose midst is a person's inbox
    shown: int = 10_000  # questions that are scrolled through in Studio
    lying: int = 1_000_000  # finished runs, and as many paused ones, beside which runs are claimed (Postgres)


@dataclass(frozen=True)
class Place:
    """Where one round of a row is measured.

    Attributes:
        folder: Empty, and on the disk that the yardsticks are measured on.
        sizes: How much to do.
        profiler: Watches the measured part of the round, if a profile is asked for.
        databases: Makes the address of a new store; None makes SQLite files in ``folder``.
    """

    folder: Path
    sizes: Sizes
    profiler: Profiler | None = None
    databases: Callable[[], str] | None = None

    def measured(self) -> AbstractContextManager[None]:
        """Put around the part of a round that counts."""
        return nullcontext() if self.profiler is None else self.profiler.this_thread()

    def python(self, name: str) -> list[str]:
        """Return the beginning of the command of a further Python process that takes part."""
        return [sys.executable] if self.profiler is None else self.profiler.command(name)

    def new_store(self) -> str:
        """Return the address of a store that does not exist yet."""
        if self.databases is not None:
            return self.databases()
        return f"sqlite:///{tempfile.mkdtemp(dir=self.folder)}/bench.db"


@dataclass(frozen=True)
class Line:
    """One line of the table.

    Attributes:
        key: Which of the row's figures it shows.
        what: The figure in words.
        unit: Its unit.
        target: What the figure should reach, or stay under if less is better.
        target_ratio: What its ratio to the yardstick should reach instead.
        less_is_better: Whether it is a time or a size, and not a rate.
        has_ratio: Whether comparing it with the row's yardstick says anything.
    """

    key: str
    what: str
    unit: str
    target: float | None = None
    target_ratio: float | None = None
    less_is_better: bool = False
    has_ratio: bool = True


@dataclass(frozen=True)
class Row:
    """One benchmark.

    Attributes:
        name: What ``--rows`` and ``--profile`` call it.
        measure: One round of it: figures by key, each with one or more samples.
        yardstick: What is measured right before and after each round.
        lines: What the table shows of it.
        operations: How many steps (or answers ...) one round has, to break a profile down.
        most_rounds: For a row that is too slow to be repeated.
    """

    name: str
    measure: Callable[[Place], Coroutine[Any, Any, Figures]]
    yardstick: Yardstick
    lines: tuple[Line, ...]
    operations: Callable[[Sizes], int]
    most_rounds: int = 1_000


@dataclass
class Measured:
    """What came of all rounds of a row. One list of samples a round, one yardstick a round."""

    row: Row
    rounds: list[Figures] = field(default_factory=list[Figures])
    yardsticks: list[float] = field(default_factory=list[float])
