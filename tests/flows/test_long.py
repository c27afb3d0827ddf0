"""Large and long executions: their costs do not grow with their history."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from signoff import RetryPolicy, Signoff, codec
from signoff.flows import ChunkHeld, Data, Executions, Flow, graph_walk
from signoff.flows.graph_walk import COMPACT_AFTER
from signoff.records import Entry, EntryKind
from signoff.testing import MemoryStore, environment
from tests.flows.worlds import WORLDS, world
from tests.support import comes, in_asyncio, new_app, opened


def counting() -> Flow:
    flow = Flow("counting", auto_close_timeout=None)

    @flow.chunk
    def count(data: Data[Any]) -> None:
        data.add_state("count")

    @flow.chunk
    def join(data: Data[Any]) -> None:
        data.append_state("joined", data.input if len(str(data.input)) < 100 else len(data.input["a"]))

    flow.when("tick").to(count)
    flow.when("a", "b").to(join)
    return flow


@pytest.mark.long
@in_asyncio
async def test_a_thousand_interrupts_are_open_at_once_with_separate_answers(
    tmp_path: Path,
) -> None:
    app = new_app(tmp_path)
    flow = Flow("many", auto_close_timeout=0.0)

    @flow.chunk
    async def ask(data: Data[int]) -> Any:
        return await data.pause_for("number", f"{data.input}?", schema=int)

    @flow.chunk
    def keep(data: Data[Any]) -> None:
        data.set_state("answers", data.input)

    flow.for_each().to(ask).end_for_each().to(keep)
    app.register(flow)
    async with opened(app):
        async with app.worker():
            execution = await flow.start(list(range(1000)), id="e")
            pending = await execution.get_pending_interrupts(wait_seconds=60)
            assert len(pending) == 1000
        async with app.worker():
            for each in reversed(pending.values()):
                await execution.continue_with(each.id, int(each.question[:-1]) * 2)
            state = await execution.result(60)
            assert state == {"answers": [number * 2 for number in range(1000)]}


@pytest.mark.long
@in_asyncio
async def test_an_idle_executions_history_stays_short_and_complete(
    tmp_path: Path,
) -> None:
    app = new_app(tmp_path)
    flow = counting()
    app.register(flow)
    signals = 6 * COMPACT_AFTER
    async with opened(app) as client:
        async with app.worker():
            execution = await flow.start(id="e")
            await execution.emit("a", "half of a join")
            for _ in range(signals // 100):
                await asyncio.gather(*(execution.emit("tick") for _ in range(100)))

            async def compacted() -> list[Entry] | None:
                first = (await client.backend.get_run("e")).first_seq
                entries = await client.backend.read_journal("e", after=first - 1)
                return list(entries) if first > 0 and len(entries) < 4 * COMPACT_AFTER else None

            assert await comes(compacted)
        async with app.worker():
            await execution.emit("b", "the other half")
            state = await execution.close()
        assert state == {"count": signals, "joined": [{"a": "half of a join", "b": "the other half"}]}


@pytest.mark.parametrize("kind", WORLDS)
@in_asyncio
async def test_a_state_that_is_larger_than_one_write_goes_on(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_walk, "COMPACT_AFTER", 20)
    flow = Flow("large", auto_close_timeout=None)

    @flow.chunk
    def keep(data: Data[int]) -> None:
        data.set_state(f"large {data.input}", "x" * 600_000)
        data.append_state("all", "y" * 300_000)

    @flow.chunk
    def count(data: Data[Any]) -> None:
        data.add_state("count")

    flow.to(keep)
    flow.when("more").to("keep")
    flow.when("tick").to(count)
    async with world(kind, tmp_path, flow) as executions:
        execution = await executions.start(0, id="e")
        for number in range(1, 5):
            await execution.emit("more", number)
        for _ in range(50):
            await execution.emit("tick")
        async with asyncio.timeout(60):
            async for entry in execution.events():
                if entry.kind is EntryKind.CONTINUED:  # it was idle
                    break
        state = await execution.close()
    assert state["count"] == 50
    assert [len(state[f"large {number}"]) for number in range(5)] == [600_000] * 5
    assert [len(each) for each in state["all"]] == [300_000] * 5


@in_asyncio
async def test_what_a_chunk_changes_in_place_changes_no_state(tmp_path: Path) -> None:
    flow, app = Flow("f", auto_close_timeout=0.0), new_app(tmp_path)

    @flow.chunk
    def begin(data: Data[Any]) -> None:
        data.set_state("list", [[1]])
        data.set_state("gone", 1)

    @flow.chunk
    def spoil(data: Data[Any]) -> None:
        data.state["list"][0].append(2)
        assert data.get_state("list") == [[1, 2]]
        data.del_state("gone")
        assert dict(data.state) == {"list": [[1, 2]]}
        data.append_state("seen", sorted(data.state))

    flow.to(begin).to(spoil)
    app.register(flow)
    async with opened(app), app.worker():
        assert await (await flow.start(id="e")).result(60) == {"list": [[1]], "seen": [["list"]]}


@in_asyncio
async def test_what_waits_for_a_partner_may_be_more_than_a_journal_begins_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_walk, "COMPACT_AFTER", 5)
    monkeypatch.setattr(codec, "MAX_CARRIED", 1_000_000)
    async with world("sqlite", tmp_path, counting()) as executions:
        execution = await executions.start(id="e")
        for number in range(20):
            await execution.emit("a", str(number) * 100_000)
        for _ in range(20):
            await execution.emit("b")
        state = await execution.close()
    # Chunks that run at the same time end in any order.
    assert sorted(state["joined"]) == [100_000] * 10 + [200_000] * 10


def filling() -> Flow:
    flow = Flow("filling", auto_close_timeout=None)

    @flow.chunk
    async def ask(data: Data[Any]) -> Any:
        return await data.pause_for("approval", {"question": "?"}, interrupt_id="q")

    @flow.chunk
    def keep(data: Data[Any]) -> None:
        data.set_state("approved", data.input)

    @flow.chunk(retry=RetryPolicy(max_attempts=1))
    async def fill(data: Data[int]) -> None:
        await asyncio.sleep(0)  # beside others
        data.set_state(f"key {data.input}", "é" * 50_000)
        data.append_state("all", "y" * 1_000)

    @flow.chunk
    def empty(data: Data[Any]) -> None:
        for key in list(data.state):
            data.del_state(key)

    flow.to(ask).to(keep)
    flow.when("many").for_each().to(fill).end_for_each()
    flow.when("few").to("fill")
    flow.when("empty").to(empty)
    return flow


@in_asyncio
async def test_a_chunk_that_would_exceed_the_state_limit_is_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(codec, "MAX_CARRIED", 1_000_000)
    app = Signoff(MemoryStore())
    app.register(filling())
    async with environment(app) as env:
        execution = await Executions(env.client, "filling").start(id="e")
        await env.idle()
        await execution.continue_with("q", {"approved": True})
        await execution.emit("many", list(range(20)))  # 20 * 101 kB at once: 9 have room
        await env.idle()
        with pytest.raises(ChunkHeld, match="state: 1,0.* over the limit"):
            await execution.result()
        assert (await env.client.backend.get_run("e")).retryable
        monkeypatch.setattr(codec, "MAX_CARRIED", 3_000_000)
        await execution.retry()
        await env.idle()
        await execution.emit("empty")
        await env.idle()
        for number in range(3):
            await execution.emit("few", number)
        await env.idle()
        state = await execution.close()
    assert sorted(state) == ["all", *(f"key {number}" for number in range(3))]
    assert len(state["all"]) == 3


@in_asyncio
async def test_a_state_of_constant_size_is_written_without_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MAX_CARRIED", 200_000)
    app = Signoff(MemoryStore())
    app.register(filling())
    async with environment(app) as env:
        execution = await Executions(env.client, "filling").start(id="e")
        for _ in range(20):
            await execution.emit("few", 1)
            await env.idle()
        state = await execution.close(pending_interrupts="cancel")
    assert len(state["all"]) == 20
