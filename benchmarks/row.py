"""The parts of a benchmark: a row that measures figures, and the lines that show them."""

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
    """The size of each row."""

    steps: int = 1_000  # of one sequential run
    runs: int = 100  # concurrent runs of 10 steps
    many_runs: int = 1_000
    answers: int = 50  # one after the other, for a latency
    answers_after_rest: int = 5  # the same, with a rest before each
    parked: int = 5_000  # runs that are answered all at once
    long_steps: int = 10_000  # of one long run; also the entries of one replay
    paused: int = 100_000  # paused runs in the store
    open: int = 1_000_000  # open questions around a person's inbox
    shown: int = 10_000  # questions to scroll through in Studio
    promises: int = 2_000  # requests of each kind and turn (the durable promise protocol)
    invocations: int = 100  # of 10 remote steps
    lying: int = 1_000_000  # finished runs, and as many paused ones, around claimed runs (Postgres)


@dataclass(frozen=True)
class Place:
    """The place where one round of a row is measured.

    Attributes:
        folder: An empty folder on the disk that the yardsticks are measured on.
        sizes: The sizes of the rows.
        profiler: Profiles the measured part of the round, if requested.
        databases: Creates the address of a new store; None: SQLite files in ``folder``.
    """

    folder: Path
    sizes: Sizes
    profiler: Profiler | None = None
    databases: Callable[[], str] | None = None

    def measured(self) -> AbstractContextManager[None]:
        """Enclose the measured part of a round."""
        return nullcontext() if self.profiler is None else self.profiler.this_thread()

    def python(self, name: str) -> list[str]:
        """Return the first words of the command of another Python process that takes part."""
        return [sys.executable] if self.profiler is None else self.profiler.command(name)

    def new_store(self) -> str:
        """Return the address of a new store."""
        if self.databases is not None:
            return self.databases()
        return f"sqlite:///{tempfile.mkdtemp(dir=self.folder)}/bench.db"


@dataclass(frozen=True)
class Line:
    """One line of the table.

    Attributes:
        key: The figure of the row that it shows.
        what: The figure in words.
        unit: Its unit.
        target: The target for the figure: a minimum, or a maximum if less is better.
        target_ratio: A target for its ratio to the yardstick instead.
        less_is_better: Whether it is a time or a size, and not a rate.
        has_ratio: Whether the ratio to the row's yardstick is meaningful.
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
        name: Its name for ``--rows`` and ``--profile``.
        measure: Measures one round: figures by key, each with one or more samples.
        yardstick: The yardstick that is measured right before and after each round.
        lines: Its lines of the table.
        operations: The number of steps (or answers ...) of one round, to break down a profile.
        most_rounds: The most rounds, for a slow row.
    """

    name: str
    measure: Callable[[Place], Coroutine[Any, Any, Figures]]
    yardstick: Yardstick
    lines: tuple[Line, ...]
    operations: Callable[[Sizes], int]
    most_rounds: int = 1_000


@dataclass
class Measured:
    """The measurements of all rounds of a row: a list of samples and a yardstick per round."""

    row: Row
    rounds: list[Figures] = field(default_factory=list[Figures])
    yardsticks: list[float] = field(default_factory=list[float])
