"""Tasks that write again and again come to share one commit."""

from __future__ import annotations

import asyncio

import pytest

from signoff.stores.shared.group_commit import GroupCommit, Operation, resolve_here
from tests.support import in_asyncio


@pytest.mark.parametrize("late", [1, 2, 10])
@in_asyncio
async def test_writers_that_fall_out_of_step_are_gathered_again(late: int) -> None:
    sizes: list[int] = []

    def commit(batch: list[Operation[None]]) -> None:
        sizes.append(len(batch))
        resolve_here(batch)

    group = GroupCommit[Operation[None]](lambda _: False, commit)

    async def write_again_and_again(turns_behind: int) -> None:
        for _ in range(turns_behind):
            await asyncio.sleep(0)
        for _ in range(20):
            await group.do(Operation[None]())
            await asyncio.sleep(0)  # as a step does between two writes

    await asyncio.gather(*(write_again_and_again(2 * (number < late)) for number in range(100)))
    assert sum(sizes) == 100 * 20
    assert sizes[3:-3] == [100] * len(sizes[3:-3])


@in_asyncio
async def test_a_few_writers_wait_for_one_turn_at_most() -> None:
    sizes: list[int] = []

    def commit(batch: list[Operation[None]]) -> None:
        sizes.append(len(batch))
        resolve_here(batch)

    group = GroupCommit[Operation[None]](lambda _: False, commit)
    await asyncio.gather(*(group.do(Operation[None]()) for _ in range(100)))
    writing = [asyncio.ensure_future(group.do(Operation[None]())) for _ in range(2)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert all(task.done() for task in writing)
    assert sizes == [100, 2]
