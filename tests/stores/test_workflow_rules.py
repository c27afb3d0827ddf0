"""The store's rules for the register of workflows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from signoff.errors import InvalidValue
from signoff.records import WorkflowInfo
from signoff.records.paging import WorkflowFilter
from signoff.stores.contract.validation import LONGEST_DESCRIPTION, LONGEST_NAME, LONGEST_SCHEMA
from tests.stores.scene import GROUP, WORKFLOW, Scene, rule

NOW = 1_000_000.0
ONE = WorkflowInfo(
    GROUP, WORKFLOW, "1", is_current=True, description="Pays back.", parameters='{"type": "object"}'
)


async def listed(scene: Scene, **which: str) -> list[tuple[str, str, str]]:
    page = await scene.store.list_workflows(WorkflowFilter(**which))
    return [(each.name, each.group, each.version) for each in page.items]


@rule
async def test_a_workflow_is_listed_as_it_was_announced_last(scene: Scene) -> None:
    await scene.store.announce([ONE])
    scene.clock.advance(5)
    again = replace(ONE, is_current=False, description=None, parameters=None)
    two = replace(ONE, version="2", seen_at=1.0, namespace="acme")
    await scene.store.announce([again, two])
    found = (await scene.store.list_workflows(WorkflowFilter())).items
    assert found == (
        replace(again, seen_at=NOW + 5),
        replace(two, namespace="default", seen_at=NOW + 5),
    )


@rule
async def test_what_others_have_announced_stays_as_it_is(scene: Scene) -> None:
    await scene.store.announce([ONE])
    scene.clock.advance(5)
    await scene.store.announce([replace(ONE, group="gpu", description="On a GPU.")])
    await scene.store.announce([])
    [mine, theirs] = (await scene.store.list_workflows(WorkflowFilter())).items
    assert mine == replace(ONE, seen_at=NOW)
    assert (theirs.group, theirs.description) == ("gpu", "On a GPU.")


@rule
async def test_workflows_are_listed_by_name_group_and_version_in_pages(scene: Scene) -> None:
    names = [("b", "g", "1"), ("a", "h", "1"), ("a", "g", "2"), ("a", "g", "1"), ('Ä/"', "g", "1")]
    await scene.store.announce([replace(ONE, name=a, group=b, version=c) for a, b, c in names])
    found: list[tuple[str, str, str]] = []
    after = None
    for _ in range(3):
        page = await scene.store.list_workflows(WorkflowFilter(), after=after, limit=2)
        found += [(each.name, each.group, each.version) for each in page.items]
        after = page.next
    assert after is None
    assert found == sorted(names)
    assert await listed(scene, name="a") == sorted(names)[:3]
    assert await listed(scene, name="a", group="h") == [("a", "h", "1")]
    assert await listed(scene, group="none") == []
    for wrong in ("x", "[]", '["a"]', '["a", "b", 1]', '["a", "b", "\\u0000"]', "[" * 100_000):
        with pytest.raises(InvalidValue):
            await scene.store.list_workflows(WorkflowFilter(), after=wrong)


@rule
async def test_the_register_of_workflows_is_each_namespaces_own(scene: Scene) -> None:
    await scene.within("acme").store.announce([ONE])
    assert await listed(scene) == []
    [theirs] = (await scene.within("acme").store.list_workflows(WorkflowFilter())).items
    assert theirs == replace(ONE, namespace="acme", seen_at=NOW)
    assert await scene.store.delete_workflows(NOW + 1, 10) == 0
    assert len(await listed(scene.within("acme"))) == 1


@rule
async def test_what_was_not_announced_for_long_is_deleted_the_oldest_first(scene: Scene) -> None:
    for version in ("1", "2", "3"):
        await scene.store.announce([replace(ONE, version=version)])
        scene.clock.advance(10)
    assert await scene.store.delete_workflows(NOW, 10) == 0
    assert await scene.store.delete_workflows(NOW + 20, 1) == 1
    assert await listed(scene) == [(WORKFLOW, GROUP, "2"), (WORKFLOW, GROUP, "3")]
    assert await scene.store.delete_workflows(NOW + 20, 10) == 1
    assert await listed(scene) == [(WORKFLOW, GROUP, "3")]


@rule
async def test_a_workflow_of_the_largest_size_is_kept(scene: Scene) -> None:
    name = "\U0001f600" * (LONGEST_NAME // 4)
    largest = WorkflowInfo(
        name,
        name,
        name,
        is_current=True,
        description="\U0001f600" * LONGEST_DESCRIPTION,
        parameters='{"title": "%s"}' % ("x" * (LONGEST_SCHEMA - 14)),
    )
    await scene.store.announce([largest])
    assert (await scene.store.list_workflows(WorkflowFilter())).items == (replace(largest, seen_at=NOW),)


@rule
async def test_what_cannot_be_kept_is_refused_whole(scene: Scene) -> None:
    for wrong in (
        replace(ONE, name=""),
        replace(ONE, name="a\0"),
        replace(ONE, group="x" * (LONGEST_NAME + 1)),
        replace(ONE, version="x" * (LONGEST_NAME + 1)),
        replace(ONE, description="a\0"),
        replace(ONE, description="x" * 7 * LONGEST_DESCRIPTION),
        replace(ONE, parameters="[]"),
        replace(ONE, parameters="no"),
        replace(ONE, parameters='{"title": "%s"}' % ("x" * 7 * LONGEST_SCHEMA)),
        ONE,
    ):
        with pytest.raises(InvalidValue):
            await scene.store.announce([ONE, wrong])
    assert await listed(scene) == []
