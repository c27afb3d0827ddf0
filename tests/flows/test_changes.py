"""A graph is identified by names and shape: changes are reported, and harmless ones break nothing."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from signoff import Signoff
from signoff.errors import RunFailed
from signoff.flows import Data, Execution, Flow, FlowChanged
from signoff.records import RunState
from tests.support import in_asyncio, new_app, opened


async def ask(data: Data[Any]) -> Any:
    return await data.pause_for("text", {"question": "?"}, interrupt_id="q")


def first(data: Data[Any]) -> Any:
    data.append_state("ran", "first")
    return data.input


def last(data: Data[Any]) -> None:
    data.append_state("ran", ["last", data.input])


def is_x(data: Data[Any]) -> bool:
    return data.input == "x"


def old_flow() -> Flow:
    flow = Flow("changing", auto_close_timeout=0.0)
    flow.to(first).if_(is_x).to(ask).end_if().to(last)
    return flow


async def waiting(folder: Path, flow: Flow) -> None:
    """Have an execution wait at ``ask``."""
    app = new_app(folder)
    app.register(flow)
    async with opened(app), app.worker():
        execution = await flow.start("x", id="e")
        assert list(await execution.get_pending_interrupts()) == ["q"]


async def goes_on(app: Signoff, flow: Flow) -> Any:
    """Answer where the flow may have another graph; returns the state at the end."""
    app.register(flow)
    async with opened(app), app.worker():
        execution = await flow.attach("e")
        if "q" in await execution.get_pending_interrupts(wait_seconds=0):
            await execution.continue_with("q", "answer")
        return await execution.result(60)


@in_asyncio
async def test_code_that_moved_or_was_written_otherwise_breaks_nothing(tmp_path: Path) -> None:
    await waiting(tmp_path, old_flow())
    again = Flow("changing", auto_close_timeout=0.0)

    async def elsewhere(data: Data[Any]) -> Any:
        asked = {"question": "?"}
        return await data.pause_for(type="text", payload=asked, interrupt_id="q")

    again.chunk(name="last")(lambda data: data.append_state("ran", ["last", data.input]) and None)
    again.chunk(name="ask")(elsewhere)
    start = again.to(first)
    again.condition(is_x)
    branch = start.if_("is_x")
    branch.to("ask")
    branch.end_if().to("last")
    assert await goes_on(new_app(tmp_path), again) == {"ran": ["first", ["last", "answer"]]}


def changed_flows() -> dict[str, tuple[Flow, list[str]]]:
    """Return flows of the name with other graphs, and what is to be said of each."""
    more, renamed, conditioned, moved = (Flow("changing", auto_close_timeout=0.0) for _ in range(4))
    more.to(first).if_(is_x).to(ask).end_if().to(last).to("first")
    renamed.chunk(name="ask_finance")(ask)
    renamed.to(first).if_(is_x).to("ask_finance").end_if().to(last)
    conditioned.to(first).if_(lambda data: True).to(ask).end_if().to(last)
    moved.to(first).to(last).if_(is_x).to(ask).end_if()
    return {
        "a chunk more": (more, ["+  chunk first"]),
        "a renamed chunk": (renamed, ["-      chunk ask", "+      chunk ask_finance"]),
        "another condition": (conditioned, ["-    if is_x:", "+    if condition 1:"]),
        "another order": (moved, ["+  chunk last", "-  chunk last"]),
    }


@pytest.mark.parametrize("what", list(changed_flows()))
@in_asyncio
async def test_a_changed_graph_reports_differences_and_continues_once_restored(
    tmp_path: Path, what: str
) -> None:
    await waiting(tmp_path, old_flow())
    changed, said = changed_flows()[what]
    with pytest.raises((FlowChanged, RunFailed)) as failed:
        await goes_on(new_app(tmp_path), changed)
    for line in said:
        assert f"\n  {line}\n" in str(failed.value)
    app = new_app(tmp_path)
    flow = old_flow()
    app.register(flow)
    async with opened(app) as client, app.worker():
        run = await client.backend.get_run("e")
        assert (run.state, run.retryable) == (RunState.FAILED, True)
        await client.retry("e")
        assert await Execution(client, "e").result(60) == {"ran": ["first", ["last", "answer"]]}


@in_asyncio
async def test_a_migration_maps_chunks_and_the_run_follows_its_old_graph(
    tmp_path: Path,
) -> None:
    await waiting(tmp_path, old_flow())
    changed, _ = changed_flows()["a renamed chunk"]
    told: list[tuple[Mapping[str, Any], Sequence[str]]] = []

    @changed.migrate
    def renamed(graph: Mapping[str, Any], changes: Sequence[str]) -> Mapping[str, str]:
        told.append((graph, changes))
        return {"ask": "ask_finance"}

    assert renamed
    assert await goes_on(new_app(tmp_path), changed) == {"ran": ["first", ["last", "answer"]]}
    assert told[0][0] == old_flow().graph.to_json()
    assert "-      chunk ask" in told[0][1]


@in_asyncio
async def test_a_migration_that_leaves_a_chunk_out_says_which(tmp_path: Path) -> None:
    await waiting(tmp_path, old_flow())
    changed, _ = changed_flows()["a renamed chunk"]
    changed.migrate(lambda graph, changes: {})
    with pytest.raises((FlowChanged, RunFailed), match="does not map chunk 'ask'"):
        await goes_on(new_app(tmp_path), changed)


@in_asyncio
async def test_a_migration_to_a_chunk_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    await waiting(tmp_path, old_flow())
    changed, _ = changed_flows()["a renamed chunk"]
    changed.migrate(lambda graph, changes: {"ask": "nobody"})
    with pytest.raises((FlowChanged, RunFailed), match="'nobody', which is not a chunk"):
        await goes_on(new_app(tmp_path), changed)


@in_asyncio
async def test_a_migration_that_fails_loses_nothing(tmp_path: Path) -> None:
    await waiting(tmp_path, old_flow())
    changed, _ = changed_flows()["a renamed chunk"]
    changed.migrate(lambda graph, changes: {"ask": changes[99]})
    with pytest.raises((FlowChanged, RunFailed), match="its migration failed: IndexError"):
        await goes_on(new_app(tmp_path), changed)


@in_asyncio
async def test_a_new_execution_gets_the_new_graph(tmp_path: Path) -> None:
    await waiting(tmp_path, old_flow())
    app = new_app(tmp_path)
    flow, _ = changed_flows()["a chunk more"]
    app.register(flow)
    async with opened(app), app.worker():
        execution = await flow.start("y", id="new")
        assert await execution.result(60) == {"ran": ["first", ["last", "y"], "first"]}


@in_asyncio
async def test_the_flow_within_has_a_migration_of_its_own(tmp_path: Path) -> None:
    def outer(inner: Flow) -> Flow:
        flow = Flow("outer", auto_close_timeout=0.0)
        flow.to(first).to(inner, write_back={"state.inner": "output"})
        return flow

    old_inner, new_inner = Flow("inner"), Flow("inner")
    old_inner.to(ask)
    new_inner.chunk(name="ask_finance")(ask)
    new_inner.to("ask_finance")
    await waiting(tmp_path, outer(old_inner))
    new_inner.migrate(lambda graph, changes: {"ask": "ask_finance"})
    assert await goes_on(new_app(tmp_path), outer(new_inner)) == {"ran": ["first"], "inner": "answer"}


def test_the_differences_of_the_same_graph_are_none() -> None:
    assert inspect.iscoroutinefunction(ask)
    assert old_flow().graph == old_flow().graph


def nameless(*, inserted: bool, ask_name: str = "ask") -> Flow:
    """A flow whose conditions have no names of their own; perhaps with another one before them."""
    flow = Flow("changing", auto_close_timeout=0.0)
    flow.chunk(name=ask_name)(ask)
    flow.chunk(first)
    flow.chunk(last)
    line = flow.to("first")
    if inserted:
        line = line.if_(lambda data: False).to("last").end_if()
    line.to(ask_name).if_(lambda data: data.input == "answer").to("last").end_if()
    return flow


@in_asyncio
async def test_a_migration_never_maps_a_condition_by_its_position(tmp_path: Path) -> None:
    await waiting(tmp_path, nameless(inserted=False))
    changed = nameless(inserted=True)
    changed.migrate(lambda graph, changes: {})
    with pytest.raises(
        (FlowChanged, RunFailed), match="condition 'condition 1' is known only by its position"
    ):
        await goes_on(new_app(tmp_path), changed)
    said = nameless(inserted=True)
    said.migrate(lambda graph, changes: {"condition 1": "condition 2"})
    app = new_app(tmp_path)
    app.register(said)
    async with opened(app) as client, app.worker():
        await client.retry("e")
        assert await Execution(client, "e").result(60) == {"ran": ["first", ["last", "answer"]]}


@in_asyncio
async def test_a_migration_that_only_renames_chunks_keeps_conditions(tmp_path: Path) -> None:
    await waiting(tmp_path, nameless(inserted=False))
    changed = nameless(inserted=False, ask_name="ask_finance")
    changed.migrate(lambda graph, changes: {"ask": "ask_finance"})
    assert await goes_on(new_app(tmp_path), changed) == {"ran": ["first", ["last", "answer"]]}


@in_asyncio
async def test_a_migration_to_a_condition_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    await waiting(tmp_path, nameless(inserted=False))
    changed = nameless(inserted=True)
    changed.migrate(lambda graph, changes: {"condition 1": "first"})
    with pytest.raises((FlowChanged, RunFailed), match="'first', which is not a condition"):
        await goes_on(new_app(tmp_path), changed)
