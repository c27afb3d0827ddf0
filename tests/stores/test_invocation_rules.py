"""The store's rules for reads of invocations and their calls."""

from __future__ import annotations

import json
from typing import Any

import pytest

from signoff.errors import InvalidValue
from signoff.records import NewPromise, NewRun, PromiseKind, PromiseState, Settlement
from signoff.records.invocations import InvocationFilter
from signoff.records.paging import LOOKED_THROUGH
from signoff.records.tasks import NewInvocation, TaskLease, TaskState
from signoff.stores.shared.listed_payloads import LISTED_BYTES
from tests.stores.scene import Scene, rule

TARGET = "poll://any@workers"
ASKED = '{"text": "Sure?"}'
ROOTS = InvocationFilter()
NESTED = InvocationFilter(nested=True)


async def opened(
    scene: Scene, id: str, *, target: str | None = TARGET, data: str = "{}", **more: Any
) -> None:
    await scene.store.open_invocation(NewInvocation(NewPromise(id, data=data), target, **more))


async def listed(scene: Scene, which: InvocationFilter = ROOTS, limit: int = 2) -> list[str]:
    """The ids on all pages."""
    found: list[str] = []
    after: str | None = None
    while True:
        page = await scene.store.list_invocations(which, after=after, limit=limit)
        found += [each.promise.id for each in page.items]
        if (after := page.next) is None:
            return found


async def called(scene: Scene, id: str, limit: int = 2) -> list[str]:
    """The ids of the calls on all pages."""
    found: list[str] = []
    after: str | None = None
    while True:
        page = await scene.store.list_calls(id, after=after, limit=limit)
        assert len(page.items) <= limit
        found += [each.promise.id for each in page.items]
        if (after := page.next) is None:
            return found


@rule
async def test_invocations_are_listed_newest_first_without_their_calls(scene: Scene) -> None:
    await opened(scene, "b", branch="b", parent="b")
    await opened(scene, "b:1", branch="b", parent="b", target=None)
    await opened(scene, "b:2", branch="b:2", parent="b")
    await opened(scene, "plain", target=None)
    await scene.store.create_promise(NewPromise("other"))
    await opened(scene, "c")
    await opened(scene, "a", branch="a", parent="a")
    await opened(scene.within("acme"), "theirs")
    assert await listed(scene) == ["a", "c", "b"]
    assert await listed(scene, NESTED) == ["a", "c", "b:2", "b"]


@rule
async def test_a_call_whose_maker_is_missing_is_listed_as_an_invocation(scene: Scene) -> None:
    await opened(scene, "orphan", branch="orphan", parent="gone")
    assert await listed(scene) == ["orphan"]
    await opened(scene, "gone", target=None)
    assert await listed(scene) == []
    assert await called(scene, "gone") == ["orphan"]


@rule
async def test_invocations_are_filtered_by_both_states(scene: Scene) -> None:
    for id in ("sent", "held", "done"):
        await opened(scene, id, lease=None if id == "sent" else TaskLease("p", 10_000))
    await scene.store.settle("done", PromiseKind.PROMISE, Settlement(PromiseState.RESOLVED, value="1"))
    assert await listed(scene, InvocationFilter(state=PromiseState.PENDING)) == ["held", "sent"]
    assert await listed(scene, InvocationFilter(state=PromiseState.RESOLVED)) == ["done"]
    assert await listed(scene, InvocationFilter(task=TaskState.ACQUIRED)) == ["held"]
    assert await listed(scene, InvocationFilter(task=TaskState.FULFILLED)) == ["done"]
    both = InvocationFilter(state=PromiseState.RESOLVED, task=TaskState.ACQUIRED)
    assert await listed(scene, both) == []
    [node] = (await scene.store.list_invocations(InvocationFilter(task=TaskState.ACQUIRED))).items
    assert node.task == await scene.store.get_task("held")
    assert node.promise == await scene.store.get_promise("held")


@rule
async def test_calls_are_listed_by_id_with_what_is_beside_them(scene: Scene) -> None:
    await opened(scene, "r", branch="r", parent="r")
    await opened(scene, "r:1", branch="r", parent="r", target=None)
    await opened(scene, "r:1.1", branch="r", parent="r:1", target=None)
    await opened(scene, "r:2", branch="r:2", parent="r")
    await opened(scene, "r:2.1", branch="r:2", parent="r:2", target=None)
    asked = NewPromise("r:3", PromiseKind.QUESTION, data=ASKED)
    await scene.store.open_invocation(NewInvocation(asked, branch="r:3", parent="r"))
    await scene.store.create_run(NewRun("r:2", "w", "default", "{}"))
    assert await called(scene, "r") == ["r:1", "r:1.1", "r:2", "r:3"]
    assert await called(scene, "r:1") == ["r:1.1"]
    assert await called(scene, "none") == []
    assert await called(scene.within("acme"), "r") == []
    nodes = (await scene.store.list_calls("r")).items
    assert [each.has_calls for each in nodes] == [True, False, True, False]
    assert [each.has_run for each in nodes] == [False, False, True, False]
    assert [each.task is not None for each in nodes] == [False, False, True, False]
    assert nodes[3].promise.kind is PromiseKind.QUESTION
    [root] = (await scene.store.list_invocations(ROOTS)).items
    assert (root.has_calls, root.has_run) == (True, False)


@rule
async def test_promises_that_made_each_other_are_listed_under_each_other(scene: Scene) -> None:
    await opened(scene, "a", parent="b")
    await opened(scene, "b", parent="a")
    assert (await called(scene, "a"), await called(scene, "b")) == (["b"], ["a"])
    assert (await listed(scene), await listed(scene, NESTED)) == ([], ["b", "a"])


@rule
async def test_large_payloads_of_invocations_are_left_out_and_pages_are_bounded(scene: Scene) -> None:
    large = json.dumps("x" * (2 * LISTED_BYTES))
    await opened(scene, "large", data=large, branch="r")
    middle = json.dumps("x" * (LISTED_BYTES // 2))
    for number in range(200):
        await opened(scene, f"m-{number:03}", data=middle, branch="r")
    [node] = (await scene.store.list_calls("r", limit=1)).items
    assert (node.promise.data, list(node.promise.left_out or {})) == (None, ["data"])
    for page in (
        await scene.store.list_calls("r", limit=1000),
        await scene.store.list_invocations(NESTED, limit=1000),
    ):
        assert 50 < len(page.items) < 150  # what is encrypted is longer
        assert page.next is not None
    assert len(await called(scene, "r", 1000)) == len(await listed(scene, NESTED, 1000)) == 201


@rule
async def test_a_page_of_invocations_examines_some_promises_and_continues(scene: Scene) -> None:
    await opened(scene, "first")
    for number in range(LOOKED_THROUGH + 5):
        await scene.store.create_promise(NewPromise(f"p-{number}"))
    assert await listed(scene, limit=10) == ["first"]


@rule
async def test_a_wrong_cursor_of_invocations_is_refused(scene: Scene) -> None:
    with pytest.raises(InvalidValue, match="after"):
        await scene.store.list_invocations(ROOTS, after="x")


@rule
async def test_a_question_without_a_task_is_no_invocation(scene: Scene) -> None:
    await scene.store.create_promise(NewPromise("q", PromiseKind.QUESTION, data=ASKED))
    assert await listed(scene, NESTED) == []


@rule
async def test_a_question_is_no_invocation(scene: Scene) -> None:
    """Programs give it no task, but a store can be asked for one."""
    asked = NewPromise("asked", PromiseKind.QUESTION, data=ASKED)
    await scene.store.open_invocation(NewInvocation(asked, TARGET))
    await opened(scene, "called")
    assert await listed(scene) == ["called"]
