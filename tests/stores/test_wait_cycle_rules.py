"""Runs that would wait for each other: the one that closes the circle is refused, in every store."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from signoff.codec import decode_error
from signoff.errors import CircularWait
from signoff.records import NewRun, Run
from tests.stores.scene import WORKFLOW, Scene, rule


def child(id: str, parent: Run, n: int = 0) -> NewRun:
    return NewRun(id, WORKFLOW, "default", '{"args": []}', parent_id=parent.id, parent_n=n)


async def waits(scene: Scene, run: Run, id: str, n: int = 0) -> None:
    await scene.append(run, starts=[child(id, run, n)])


async def refusals(scene: Scene, *ids: str) -> list[list[str]]:
    messages = [message for id in ids for message in await scene.messages(id)]
    errors = [decode_error(message.error or "") for message in messages]
    assert all(isinstance(error, CircularWait) for error in errors)
    return [error.circle for error in errors if isinstance(error, CircularWait)]


@rule
@pytest.mark.parametrize("count", [1, 2, 3, 5])
async def test_the_run_that_closes_a_circle_is_refused_with_the_circle(scene: Scene, count: int) -> None:
    ids = [f"it's {number}" for number in range(count)]
    runs = [await scene.run(id) for id in ids]
    for run, other in pairwise(runs):
        await waits(scene, run, other.id)
    await waits(scene, runs[-1], ids[0], 7)
    circle = [ids[-1], *ids]
    assert await refusals(scene, *ids) == [circle]
    [message] = await scene.messages(ids[-1])
    assert (message.n, message.name, message.state) == (7, ids[0], "failed")
    error = decode_error(message.error or "")
    assert str(error) == str(CircularWait(circle))
    assert count != 3 or str(error).startswith(
        "run 'it's 2' would wait for run 'it's 0', which waits for run 'it's 1', which waits for run 'it's 2': none"
    )


@rule
async def test_a_child_does_not_wait_for_its_ancestors(scene: Scene) -> None:
    run = await scene.run("a")
    for id in "bcd":
        await waits(scene, run, id)
        [claim] = await scene.claim()
        run = claim.run
    await waits(scene, run, "b", 3)
    assert await refusals(scene, *"abcd") == [["d", "b", "c", "d"]]


@rule
async def test_what_waits_no_longer_closes_no_circle(scene: Scene) -> None:
    a, b, c = [await scene.run(id) for id in "abc"]
    await waits(scene, a, "b")
    await waits(scene, b, "c")
    await scene.append(b, cancels=["c"])
    await waits(scene, c, "a")
    assert await refusals(scene, *"abc") == []
    await scene.complete(a)
    assert [message.state for message in await scene.messages("c")] == ["succeeded"]


@rule
async def test_a_run_that_has_ended_closes_no_circle(scene: Scene) -> None:
    a, b, c = [await scene.run(id) for id in "abc"]
    await waits(scene, b, "c")
    await waits(scene, a, "b")
    await scene.complete(b)
    await waits(scene, c, "a")
    await waits(scene, c, "b", 1)
    assert [(each.name, each.state) for each in await scene.messages("c")] == [("b", "succeeded")]
    await scene.complete(a)
    assert [each.name for each in await scene.messages("c")] == ["b", "a"]


@rule
async def test_a_run_that_several_wait_for_is_found_among_all(scene: Scene) -> None:
    top, last = await scene.run("top"), await scene.run("last")
    middle = [await scene.run(f"m{number}") for number in range(5)]
    for run in middle:
        await waits(scene, run, "last")
        await waits(scene, top, run.id, int(run.id[1]))
    await waits(scene, last, "top")
    assert await refusals(scene, "top", "last", *(run.id for run in middle)) == [
        ["last", "top", "m0", "last"]
    ]
    await waits(scene, last, "other", 1)
    assert len(await scene.messages("last")) == 1


@rule
async def test_of_those_that_close_a_circle_at_once_one_is_refused(scene: Scene) -> None:
    for attempt in range(5):
        ids = [f"{attempt}-{number}" for number in range(4)]
        runs = [await scene.run(id) for id in ids]
        await asyncio.gather(*(waits(scene, run, ids[(number + 1) % 4]) for number, run in enumerate(runs)))
        [circle] = await refusals(scene, *ids)
        assert set(circle) == set(ids)
