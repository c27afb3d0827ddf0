"""Large and long executions: what they cost does not grow with what has been."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from signoff.flows import Data, Flow
from signoff.flows.machine import COMPACT_AFTER
from signoff.records import Entry
from tests.support import comes, in_asyncio, new_app, opened


def counting() -> Flow:
    flow = Flow("counting", auto_close_timeout=None)

    @flow.chunk
    def count(data: Data[Any]) -> None:
        data.add_state("count")

    @flow.chunk
    def join(data: Data[Any]) -> None:
        data.append_state("joined", data.input)

    flow.when("tick").to(count)
    flow.when("a", "b").to(join)
    return flow


@in_asyncio
async def test_a_thousand_interrupts_of_one_execution_are_open_at_once_and_each_gets_its_own_answer(
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


@in_asyncio
async def test_what_an_idle_execution_is_rebuilt_from_stays_short_and_nothing_is_lost_by_it(
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
