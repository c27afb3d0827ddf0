"""The memory weight of suspended code is estimated from its frames."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Generator
from typing import Any

import pytest

from signoff.engine.run.memory_weight import (
    FRAMES_OF_A_RUN,
    PLAIN_BYTES,
    TIMES_THEIR_TEXT,
    bytes_of,
    runs_weighed,
)


class Waits:
    def __await__(self) -> Generator[None]:
        yield


async def coroutine(depth: int) -> None:
    """Wait ``depth`` frames deep, the last of which is that of ``Waits``."""
    await (coroutine(depth - 1) if depth > 2 else Waits())


async def within_generators(depth: int) -> None:
    async for _ in generator(depth - 1):
        pass


async def generator(depth: int) -> AsyncGenerator[None]:
    await coroutine(depth)
    yield


def begun(made: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
    """Run it until it waits."""
    made.send(None)
    return made


@pytest.mark.parametrize(("count", "depth"), [(1, 8), (1, 800), (3, 80), (64, 8), (1000, 16)])
def test_it_is_the_frames_of_all_that_waits(count: int, depth: int) -> None:
    waiting = [begun(coroutine(depth)) for _ in range(count)]
    assert runs_weighed(waiting) == count * depth / FRAMES_OF_A_RUN
    for each in waiting:
        each.close()


def test_a_value_counts_by_its_text_if_it_is_large() -> None:
    assert bytes_of(None) == bytes_of("x" * (PLAIN_BYTES - 1)) == 0
    assert bytes_of("x" * PLAIN_BYTES) == TIMES_THEIR_TEXT * PLAIN_BYTES


def test_it_is_never_less_than_one_run() -> None:
    short = begun(coroutine(2))
    assert (runs_weighed([]), runs_weighed([short])) == (1, 1)
    short.close()


def test_what_is_behind_an_asynchronous_generator_counts() -> None:
    deep = begun(within_generators(400))
    assert 50 <= runs_weighed([deep]) <= 51
    deep.close()
