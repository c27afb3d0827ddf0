"""The store's rules for checkpoints, the saved states of graphs."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from signoff.errors import InvalidValue, NotFound, PayloadTooLarge
from signoff.records.checkpoints import (
    ChannelValue,
    Checkpoint,
    CheckpointFilter,
    CheckpointRef,
    CheckpointSummary,
    CheckpointWrite,
    NewCheckpoint,
    Serialized,
)
from signoff.stores.contract.checkpoints import LARGEST_STATE, LARGEST_WRITE, MOST_LISTED
from signoff.stores.contract.store import Store
from signoff.stores.sqlite.checkpoints import list_checkpoints
from signoff.stores.sqlite.schema import migrations
from signoff.testing import MemoryStore
from tests.stores.scene import Scene, rule

STATE = Serialized("msgpack", b"\x00\xff'state")
META = Serialized("json", b'{"step": 1}')


def value(channel: str, version: str, data: bytes = b"1") -> ChannelValue:
    return ChannelValue(channel, version, Serialized("msgpack", data))


def new(id: str, path: str = "", **more: object) -> NewCheckpoint:
    versions = more.pop("versions", {})
    return NewCheckpoint(path, id, STATE, META, versions, **more)  # type: ignore[arg-type]


def write(task: str, index: int, data: bytes = b"w", **more: str) -> CheckpointWrite:
    return CheckpointWrite(task, index, f"channel-{index}", Serialized("msgpack", data), **more)


async def ids(scene: Scene, **which: str) -> list[str]:
    return [each.id for each in (await scene.store.list_checkpoints(CheckpointFilter(**which))).items]


@rule
async def test_a_checkpoint_has_the_channels_of_the_versions_it_names(scene: Scene) -> None:
    both = (value("b", "1", b"\0b"), value("a", "1", b""))
    await scene.store.put_checkpoint("t", new("1", versions={"a": "1", "b": "1"}, values=both))
    changed = (value("a", "2", b"two"),)
    second = new("2", versions={"a": "2", "b": "1", "none": "7"}, values=changed, parent_id="1")
    await scene.store.put_checkpoint("t", second)
    found = await scene.store.get_checkpoint("t", "")
    assert found == Checkpoint("", "2", STATE, META, "1", (changed[0], both[0]))
    assert (await scene.store.get_checkpoint("t", "", "1")).values == (both[1], both[0])


@rule
async def test_a_checkpoint_that_is_put_again_keeps_known_versions(scene: Scene) -> None:
    for data, parent in ((b"first", None), (b"second", "0")):
        again = new("1", versions={"a": "1"}, values=(value("a", "1", data),), parent_id=parent)
        await scene.store.put_checkpoint("t", again)
    found = await scene.store.get_checkpoint("t", "")
    assert (found.values, found.parent_id) == ((value("a", "1", b"first"),), "0")


@rule
async def test_threads_subgraphs_and_namespaces_have_their_own_checkpoints(scene: Scene) -> None:
    await scene.store.put_checkpoint("t", new("1", versions={"a": "1"}, values=(value("a", "1"),)))
    for thread_id, path in (("t", "sub:1"), ("u", "")):
        with pytest.raises(NotFound):
            await scene.store.get_checkpoint(thread_id, path)
        await scene.store.put_checkpoint(thread_id, new("2", path, versions={"a": "1"}))
        assert (await scene.store.get_checkpoint(thread_id, path)).values == ()
    other = scene.within("other")
    with pytest.raises(NotFound):
        await other.store.get_checkpoint("t", "", "1")
    await other.store.delete_thread("t")
    assert await ids(other) == []
    assert await ids(scene, thread_id="t") == ["2", "1"]


@rule
async def test_a_write_counts_once_unless_its_channel_is_special(scene: Scene) -> None:
    ref = CheckpointRef("", "1")
    await scene.store.put_checkpoint_writes(
        "t", ref, [write("y", 0, task_path="b"), write("x", 1), write("x", -1)]
    )
    await scene.store.put_checkpoint("t", new("1"))
    changed = [write("x", 1, b"late"), write("x", -1, b"old"), write("x", -1, b"late"), write("x", 0)]
    await scene.store.put_checkpoint_writes("t", ref, changed)
    await scene.store.put_checkpoint_writes("t", ref, [])
    found = (await scene.store.get_checkpoint("t", "")).writes
    assert found == (write("x", -1, b"late"), write("x", 0), write("x", 1), write("y", 0, task_path="b"))


@rule
async def test_checkpoints_are_listed_by_descending_id_in_bounded_pages(scene: Scene) -> None:
    for number in range(MOST_LISTED + 2):
        run = "r" if number % 2 else None
        await scene.store.put_checkpoint("t", new(f"{number:03}", "p", graph_run=run))
    await scene.store.put_checkpoint("u", new("001"))
    page = await scene.store.list_checkpoints(CheckpointFilter(thread_id="t"), limit=1000)
    assert page.items[0] == CheckpointSummary("t", "p", f"{MOST_LISTED + 1:03}", META)
    rest = await scene.store.list_checkpoints(CheckpointFilter(thread_id="t"), after=page.next)
    assert (len(page.items), [each.id for each in rest.items], rest.next) == (
        MOST_LISTED,
        ["001", "000"],
        None,
    )
    assert await ids(scene, before="002") == ["001", "001", "000"]
    assert await ids(scene, thread_id="t", path="p", id="001") == ["001"]
    assert await ids(scene, thread_id="t", path="") == []
    assert await ids(scene, graph_run="r", before="005") == ["003", "001"]
    first = await scene.store.list_checkpoints(CheckpointFilter(before="002"), limit=1)
    second = await scene.store.list_checkpoints(CheckpointFilter(before="002"), after=first.next, limit=1)
    assert [each.thread_id for each in (*first.items, *second.items)] == ["u", "t"]
    with pytest.raises(InvalidValue, match="after"):
        await scene.store.list_checkpoints(CheckpointFilter(), after="3")


@rule
async def test_deleted_checkpoints_take_only_what_no_other_needs(scene: Scene) -> None:
    kept = value("kept", "1")
    await scene.store.put_checkpoint(
        "t", new("1", versions={"kept": "1", "a": "1"}, values=(kept, value("a", "1")))
    )
    await scene.store.put_checkpoint("t", new("2", versions={"kept": "1"}, parent_id="1"))
    await scene.store.put_checkpoint_writes("t", CheckpointRef("", "1"), [write("x", 0)])
    assert await scene.store.delete_checkpoints("t", [CheckpointRef("", "1"), CheckpointRef("", "9")]) == 1
    found = await scene.store.get_checkpoint("t", "")
    assert (found.id, found.parent_id, found.values) == ("2", None, (kept,))
    await scene.store.put_checkpoint("t", new("1", versions={"a": "1"}))
    again = await scene.store.get_checkpoint("t", "", "1")
    assert (again.values, again.writes) == ((), ())


@rule
async def test_a_deleted_thread_leaves_no_values_and_no_writes(scene: Scene) -> None:
    for path in ("", "sub"):
        await scene.store.put_checkpoint("t", new("1", path, versions={"a": "1"}, values=(value("a", "1"),)))
    for id in ("1", "not put yet"):
        await scene.store.put_checkpoint_writes("t", CheckpointRef("", id), [write("x", 0)])
    await scene.store.delete_thread("t")
    await scene.store.delete_thread("t")
    assert await ids(scene) == []
    for id in ("1", "not put yet"):
        await scene.store.put_checkpoint("t", new(id, versions={"a": "1"}))
        found = await scene.store.get_checkpoint("t", "", id)
        assert (found.values, found.writes) == ((), ())


@rule
async def test_what_is_too_large_to_be_saved_or_read_is_refused(scene: Scene) -> None:
    half = bytes(LARGEST_STATE // 2 - 1000)
    with pytest.raises(PayloadTooLarge, match="'big'"):
        await scene.store.put_checkpoint(
            "t", new("1", versions={"big": "1"}, values=(value("big", "1", bytes(LARGEST_WRITE)),))
        )
    with pytest.raises(PayloadTooLarge, match="channel-0"):
        await scene.store.put_checkpoint_writes(
            "t", CheckpointRef("", "1"), [write("x", 0, bytes(LARGEST_WRITE + 1))]
        )
    versions: dict[str, str] = {}
    for channel in ("a", "b"):
        versions[channel] = "1"
        put = new("1", versions=versions, values=(value(channel, "1", half),))
        await scene.store.put_checkpoint("t", replace(put, versions=dict(versions)))
    third = new("2", versions={**versions, "c": "1"}, values=(value("c", "1", half),))
    with pytest.raises(PayloadTooLarge, match=f"{LARGEST_STATE:,}"):
        await scene.store.put_checkpoint("t", third)
    assert await ids(scene) == ["1"]
    for bad in (new("", "\0"), new("i" * 300), new("1", versions={"c" * 600: "1"})):
        with pytest.raises(InvalidValue):
            await scene.store.put_checkpoint("t", bad)


@rule
async def test_writes_without_values_count_by_their_names(scene: Scene) -> None:
    ref = CheckpointRef("", "1")
    first, second, third = (
        [write(f"{letter}-{number}", 0, b"", task_path="é" * 995) for number in range(1000)]
        for letter in "abc"
    )
    for some in (first, first, second):
        await scene.store.put_checkpoint_writes("t", ref, some)
    with pytest.raises(PayloadTooLarge, match="writes"):
        await scene.store.put_checkpoint_writes("t", ref, third)
    await scene.store.put_checkpoint("t", new("1"))
    assert len((await scene.store.get_checkpoint("t", "")).writes) == 2000


def any_operation(luck: random.Random) -> tuple[str, tuple[Any, ...]]:
    """A random operation on two threads, two subgraphs and three ids."""
    thread_id, path, id = luck.choice("tu"), luck.choice(["", "s"]), luck.choice("123")
    versions = {channel: luck.choice("12") for channel in luck.sample("abc", luck.randint(0, 3))}
    values = tuple(
        value(channel, version, luck.randbytes(2))
        for channel, version in versions.items()
        if luck.random() < 0.6
    )
    writes = [
        write(luck.choice("xy"), luck.randint(-2, 2), luck.randbytes(2), task_path=luck.choice(["", "p"]))
        for _ in range(luck.randint(0, 4))
    ]
    refs = [CheckpointRef(luck.choice(["", "s"]), each) for each in luck.sample("123", luck.randint(1, 2))]
    put = new(id, path, versions=versions, values=values, parent_id=luck.choice([None, "1", "2"]))
    return luck.choice(
        [
            ("put_checkpoint", (thread_id, put)),
            ("put_checkpoint", (thread_id, put)),
            ("put_checkpoint_writes", (thread_id, CheckpointRef(path, id), writes)),
            ("delete_checkpoints", (thread_id, refs)),
            ("delete_thread", (thread_id,)),
        ]
    )


async def seen_in(store: Store) -> list[Checkpoint]:
    listed = (await store.list_checkpoints(CheckpointFilter())).items
    return [await store.get_checkpoint(each.thread_id, each.path, each.id) for each in listed]


@rule
async def test_any_sequence_of_operations_leaves_what_the_model_has(scene: Scene) -> None:
    luck = random.Random(7)
    model = MemoryStore()
    for _ in range(80):
        name, arguments = any_operation(luck)
        done = [await getattr(store, name)(*arguments) for store in (scene.store, model)]
        assert done[0] == done[1]
        assert await seen_in(scene.store) == await seen_in(model), (name, arguments)


@pytest.mark.parametrize(
    ("which", "index"),
    [
        (CheckpointFilter(), "checkpoints_by_id (namespace=?)"),
        (CheckpointFilter(before="2"), "checkpoints_by_id (namespace=? AND id<?)"),
        (CheckpointFilter("t"), "(namespace=? AND thread_id=?)"),
        (CheckpointFilter("t", ""), "(namespace=? AND thread_id=? AND path=?)"),
        (CheckpointFilter(graph_run="r"), "checkpoints_by_run (namespace=? AND graph_run=?)"),
    ],
    ids=repr,
)
def test_sqlite_lists_checkpoints_by_an_index_of_the_filter(which: CheckpointFilter, index: str) -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(migrations()[3])
        done: list[str] = []
        db.set_trace_callback(done.append)
        list_checkpoints(db, "default", which, None, 10)
        db.set_trace_callback(None)
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {done[-1]}")]
    assert plan[0].endswith(index), plan
