"""What suspended code holds is counted object by object."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from typing import Any

import numpy
import pytest
from pydantic import BaseModel

from signoff.engine.weight import PLAIN_BYTES, Scales

MOST = 1 << 40
MEBI = 1024 * 1024


class Waits:
    def __await__(self) -> Generator[None]:
        yield


class Run:
    """A run, as far as it is weighed."""

    def __init__(self, *tasks: Coroutine[Any, Any, None]) -> None:
        self.tasks = tasks


class Program:
    pass


class Model(BaseModel):
    number: int
    text: str


@dataclass
class Data:
    number: int
    text: str


class Plain:
    def __init__(self, number: int) -> None:
        self.number = number
        self.text = str(number)
        self.rest = [number]


class Misleading:
    def __sizeof__(self) -> int:
        raise RuntimeError("never say how large")


async def holding(make: Callable[[], Any]) -> None:
    held = make()
    await Waits()
    del held


def bytes_of(make: Callable[[], Any], most: int = MOST) -> int:
    made = holding(make)
    made.send(None)
    size = Scales((Run,)).bytes_of(Run(made), (Program(),), most)
    made.close()
    return size


@pytest.mark.parametrize(
    ("make", "least"),
    [
        (lambda: "x" * MEBI, MEBI),
        (lambda: bytearray(MEBI), MEBI),
        (lambda: memoryview(bytearray(MEBI))[5:6], MEBI),
        (lambda: numpy.ones(MEBI, dtype="u1"), MEBI),
        (lambda: numpy.ones(MEBI, dtype="u1")[3:4], MEBI),
        (lambda: numpy.array([bytes(1024) for _ in range(1024)], dtype=object), MEBI),
        (lambda: [{"number": i} for i in range(10_000)], 10_000 * (184 + 8)),
        (lambda: {i + 1_000: float(i) for i in range(10_000)}, 10_000 * (28 + 24)),
        (lambda: [Model(number=i, text=str(i)) for i in range(10_000)], 10_000 * (72 + 216 + 104 + 50)),
        (lambda: [Data(i, str(i)) for i in range(10_000)], 10_000 * (48 + 50)),
        (lambda: [Plain(i + 1_000) for i in range(10_000)], 10_000 * (48 + 50 + 64 + 28)),
        (lambda: [() for _ in range(10_000)] and [[] for _ in range(10_000)], 10_000 * 56),
        (lambda: (lambda texts: lambda: texts)([str(i) for i in range(10_000)]), 10_000 * 53),
    ],
)
def test_what_a_run_holds_counts(make: Callable[[], Any], least: int) -> None:
    assert least <= bytes_of(make) <= 3 * least + PLAIN_BYTES


def test_what_is_held_twice_counts_once() -> None:
    text = "x" * MEBI
    assert bytes_of(lambda: [text, {"text": text}]) < 1.5 * MEBI


def test_it_stops_where_it_is_too_much_anyway() -> None:
    level: list[Any] = [[[str(i)] for i in range(100)] for _ in range(100)]
    assert PLAIN_BYTES < bytes_of(lambda: level, PLAIN_BYTES) < bytes_of(lambda: level)


def test_an_object_that_does_not_say_its_size_does_no_harm() -> None:
    assert bytes_of(lambda: [Misleading(), "x" * MEBI]) >= MEBI


def test_what_all_runs_of_the_code_share_does_not_count() -> None:
    program: Any = Program()
    program.known = [str(i) for i in range(100_000)]
    made = holding(lambda: program.known)
    made.send(None)
    scales = Scales((Run,))
    assert scales.bytes_of(Run(made), (program,), MOST) < PLAIN_BYTES
    assert scales.bytes_of(Run(made), (Program(),), MOST) > MEBI
    made.close()


def test_another_run_that_this_one_knows_does_not_count() -> None:
    other = holding(lambda: "x" * MEBI)
    other.send(None)
    run = Run(other)
    assert bytes_of(lambda: run) < PLAIN_BYTES
    other.close()


def test_deep_code_counts_by_its_frames() -> None:
    async def deeper(depth: int) -> None:
        await (deeper(depth - 1) if depth else Waits())

    deep = deeper(800)
    deep.send(None)
    assert Scales((Run,)).bytes_of(Run(deep), (Program(),), MOST) > 800 * 150
    deep.close()
