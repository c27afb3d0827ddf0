"""The long bodies of one caller wait for each other; others do not."""

from __future__ import annotations

import asyncio

import pytest

from signoff.server.limits.long_bodies import MOST_BYTES, LongBodies, Place
from tests.support import in_asyncio

HALF = MOST_BYTES // 2


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def _enter(bodies: LongBodies, caller: str, size: int) -> asyncio.Task[Place]:
    return asyncio.create_task(bodies.enter(caller, size))


@in_asyncio
async def test_those_of_one_caller_wait_in_line_and_others_do_not() -> None:
    bodies = LongBodies()
    first, second = await bodies.enter("a", HALF), await bodies.enter("a", HALF)
    third, fourth = _enter(bodies, "a", HALF), _enter(bodies, "a", 1)
    await asyncio.wait_for(bodies.enter("b", HALF), 5)
    await _turns()
    assert not third.done()
    assert not fourth.done(), "it overtook the third"
    first.leave()
    first.leave()
    await asyncio.wait_for(third, 5)
    await _turns()
    assert not fourth.done()
    second.leave()
    await asyncio.wait_for(fourth, 5)


@in_asyncio
async def test_one_that_is_longer_than_the_room_is_taken_alone() -> None:
    bodies = LongBodies()
    place = await asyncio.wait_for(bodies.enter("a", 10 * MOST_BYTES), 5)
    waiting = _enter(bodies, "a", 1)
    await _turns()
    assert not waiting.done()
    place.leave()
    await asyncio.wait_for(waiting, 5)


@pytest.mark.parametrize("is_admitted", [False, True])
@in_asyncio
async def test_one_that_is_given_up_keeps_no_room(is_admitted: bool) -> None:
    bodies = LongBodies()
    place = await bodies.enter("a", MOST_BYTES)
    given_up, behind = _enter(bodies, "a", MOST_BYTES), _enter(bodies, "a", 1)
    await _turns()
    if is_admitted:
        place.leave()
    given_up.cancel()
    await _turns()
    assert given_up.cancelled()
    place.leave()
    await asyncio.wait_for(behind, 5)
