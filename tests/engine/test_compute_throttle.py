"""Long computations of runs are spread over iterations of the worker's loop, which keeps serving others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, field_serializer

from signoff import Context
from signoff.engine.worker.compute_throttle import LONG_SECONDS, MOST_IN_A_TURN, TURN_SECONDS, ComputeThrottle
from tests.support import doomed_worker, in_asyncio, new_app, opened

RUNS = 12
LONG = 1.5 * TURN_SECONDS


class Clock(asyncio.SelectorEventLoop):
    """A loop whose time passes when computing says so, and that counts its turns."""

    now = 0.0
    turns = 0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        self.turns += 1
        super()._run_once()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


async def _computes(
    throttle: ComputeThrottle, loop: Clock, seconds: float, log: list[int], goes_on: bool = False
) -> None:
    if throttle.is_behind:
        await throttle.turn(goes_on=goes_on)
    began = throttle.time()
    loop.now += seconds
    log.append(loop.turns)
    throttle.computed(began)


@contextmanager
def clock() -> Generator[Clock]:
    loop = Clock()
    try:
        yield loop
    finally:
        loop.close()


def _played(seconds: list[float]) -> list[int]:
    """Return in which turn of the loop each of some tasks has computed that come in one turn."""
    with clock() as loop:
        log = list[int]()

        async def play() -> None:
            throttle = ComputeThrottle(loop)
            await asyncio.gather(*(_computes(throttle, loop, each, log) for each in seconds))

        loop.run_until_complete(play())
        return log


def test_what_is_quick_goes_on_in_one_turn() -> None:
    assert len(set(_played([LONG_SECONDS / 2] * 50))) == 1


def test_a_little_that_takes_long_holds_up_nothing() -> None:
    assert len(set(_played([LONG_SECONDS, LONG_SECONDS, *[0.0] * 50]))) == 1


def test_of_what_takes_long_one_goes_on_in_a_turn() -> None:
    assert len(set(_played([LONG] * 50))) == 50


def test_what_is_quick_catches_up_after_what_took_long() -> None:
    turns = _played([LONG] + [0.0] * 80)
    assert max(turns.count(turn) for turn in turns) == MOST_IN_A_TURN


def test_what_was_quick_before_does_not_let_more_go_on_that_take_long() -> None:
    with clock() as loop:
        log = list[int]()

        async def play() -> None:
            throttle = ComputeThrottle(loop)
            for seconds in (LONG_SECONDS, LONG_SECONDS, LONG_SECONDS):
                await _computes(throttle, loop, seconds, [])
                await asyncio.sleep(0)
            await asyncio.gather(*(_computes(throttle, loop, LONG, log) for _ in range(20)))

        loop.run_until_complete(play())
        assert len(set(log)) == 20


def test_nothing_waits_for_others_that_compute_again_and_again() -> None:
    with clock() as loop:
        begun, ended = list[int](), list[int]()

        async def play() -> None:
            throttle = ComputeThrottle(loop)

            async def hogs() -> None:
                while len(begun) < 10:
                    await _computes(throttle, loop, LONG, ended, goes_on=True)
                    await asyncio.sleep(0)

            others = [_computes(throttle, loop, LONG, begun) for _ in range(10)]
            await asyncio.gather(*(hogs() for _ in range(5)), *others)

        loop.run_until_complete(asyncio.wait_for(play(), None))
        assert len(ended) <= 3 * len(begun)


def test_one_that_is_cancelled_while_it_waits_holds_up_no_other() -> None:
    with clock() as loop:
        log = list[int]()

        async def play() -> None:
            throttle = ComputeThrottle(loop)
            tasks = [asyncio.create_task(_computes(throttle, loop, LONG, log)) for _ in range(10)]
            await asyncio.sleep(0)
            for task in tasks[1:9]:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await _computes(throttle, loop, 0.0, log)

        loop.run_until_complete(play())
        assert len(log) == 3


class Turns:
    """Counts the turns of a real loop."""

    def __init__(self) -> None:
        self.count = 0
        self._loop = asyncio.get_running_loop()
        self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self.count += 1
        self._loop.call_soon(self._turn)


def _work() -> None:
    """Compute for what is long."""
    until = time.perf_counter() + LONG
    while time.perf_counter() < until:
        pass


@pytest.mark.parametrize("place", ["workflow", "value"])
@in_asyncio
async def test_runs_that_go_on_at_once_let_the_loop_turn(place: str, tmp_path: Path) -> None:
    app = new_app(tmp_path)
    turns = Turns()
    seen = list[int]()

    class Slow(BaseModel):
        text: str

        @field_serializer("text")
        def write(self, text: str) -> str:
            if place == "value":
                _work()
                seen.append(turns.count)
            return text

    async def step() -> Slow:
        return Slow(text="x")

    @app.workflow
    async def flow(ctx: Context) -> None:
        await ctx.wait_for_signal("go")
        if place == "workflow":
            _work()
            seen.append(turns.count)
        else:
            await ctx.step(step)

    async with opened(app) as client, doomed_worker(app):
        handles: list[Any] = [await client.start(flow) for _ in range(RUNS)]
        await asyncio.gather(*(client.signal(handle.id, "go", None) for handle in handles))
        for handle in handles:
            await handle.result(60)
    assert len(seen) >= RUNS
    assert len(set(seen)) >= len(seen) * 0.9, seen
