"""A chunk that fails after an approval keeps it: a retried execution continues there, and does not ask again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from signoff import RetryPolicy, Signoff
from signoff.flows import ChunkFailed, ChunkHeld, Data, Executions, Flow
from signoff.records import PromiseState, RunState
from signoff.testing import MemoryStore, environment
from tests.flows.worlds import WORLDS, world
from tests.support import in_asyncio

SHOWN = '{"approved":true}'
TWICE = RetryPolicy(initial_seconds=0.0, max_attempts=2)


class Bank:
    """Fails a given number of times."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.calls = 0

    def pay(self) -> None:
        self.calls += 1
        if self.calls <= self.failures:
            raise ConnectionError("the bank is down")


def paying(bank: Bank) -> Flow:
    flow = Flow("refund", auto_close_timeout=0.0)

    @flow.chunk
    async def ask(data: Data[Any]) -> Any:
        return await data.pause_for("approval", {"question": "Pay?"}, interrupt_id="pay")

    @flow.chunk
    async def ask_beside(data: Data[Any]) -> Any:
        return await data.pause_for("text", {"question": "Why?"}, interrupt_id="why")

    @flow.chunk(retry=TWICE)
    async def pay(data: Data[Any]) -> Any:
        bank.pay()
        await data.append_state("paid", data.input)

    @flow.chunk
    async def keep(data: Data[Any]) -> None:
        await data.set_state("why", data.input)

    flow.to(ask).to(pay)
    flow.to(ask_beside).to(keep)
    return flow


@in_asyncio
async def test_each_attempt_of_a_chunk_is_logged_with_its_execution(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with world("memory", tmp_path, paying(Bank(failures=2))) as executions:
        execution = await executions.start("x", id="e")
        await execution.continue_with("pay", {"approved": True})
        with pytest.raises(ChunkHeld):
            await execution.result(60)
    lines = [record for record in caplog.records if record.name == "signoff.worker"]
    why = "ConnectionError: the bank is down"
    assert [record.getMessage() for record in lines] == [
        f"step 'pay' of run e failed in attempt 1: {why}; next attempt in 0.0 s",
        f"step 'pay' of run e failed in attempt 2: {why}; no further attempt",
        f"run e fails, and can be retried: chunk 'pay' failed on {SHOWN}: ConnectionError('the bank is down')",
    ]
    assert [vars(record)["run_id"] for record in lines] == ["e"] * 3


@pytest.mark.parametrize("kind", WORLDS)
@in_asyncio
async def test_a_chunk_that_fails_behind_an_approval_keeps_it(tmp_path: Path, kind: str) -> None:
    bank = Bank(failures=2)
    async with world(kind, tmp_path, paying(bank)) as executions:
        execution = await executions.start("x", id="e")
        await execution.continue_with("pay", {"approved": True})
        with pytest.raises(ChunkHeld, match="the bank is down") as failed:
            await execution.result(60)
        assert (failed.value.chunk, bank.calls) == ("pay", 2)
        assert await execution.status() is RunState.FAILED
        assert list(await execution.get_pending_interrupts()) == ["why"]
        await execution.continue_with("why", "because")  # also while it has failed
        await execution.retry()
        assert await execution.result(60) == {"paid": [{"approved": True}], "why": "because"}
        assert bank.calls == 3


@in_asyncio
async def test_a_chunk_that_fails_again_can_be_retried_again() -> None:
    bank, app = Bank(failures=4), Signoff(MemoryStore())
    app.register(paying(bank))
    async with environment(app) as env:
        execution = await Executions(env.client, "refund").start("x", id="e")
        await env.idle()
        for interrupt, value in (("pay", {"approved": True}), ("why", "because")):
            await execution.continue_with(interrupt, value)
        while True:
            try:
                state = await execution.result()
            except ChunkHeld:
                await execution.retry()
            else:
                break
        assert (state["paid"], bank.calls) == ([{"approved": True}], 5)


@in_asyncio
async def test_a_chunk_that_takes_too_long_can_be_retried() -> None:
    flow, app, attempts = Flow("f", auto_close_timeout=0.0), Signoff(MemoryStore()), list[str]()

    @flow.chunk(retry=RetryPolicy(max_attempts=1), timeout=0.01)
    async def slow(data: Data[Any]) -> str:
        attempts.append("slow")
        if len(attempts) == 1:
            await asyncio.sleep(60)
        return "done"

    @flow.chunk
    async def keep(data: Data[Any]) -> None:
        await data.set_state("kept", data.input)

    flow.to(slow).to(keep)
    app.register(flow)
    async with environment(app) as env:
        execution = await Executions(env.client, "f").start("x")
        with pytest.raises(ChunkHeld, match="StepTimeout"):
            await execution.result()
        await execution.retry()
        assert await execution.result() == {"kept": "done"}


@in_asyncio
async def test_a_condition_that_fails_can_be_retried_with_other_code() -> None:
    flow, app, known = Flow("f", auto_close_timeout=0.0), Signoff(MemoryStore()), dict[str, bool]()

    @flow.chunk
    def keep(data: Data[Any]) -> None:
        data.set_state("kept", data.input)

    flow.if_(lambda data: known[data.input]).to(keep).end_if()
    app.register(flow)
    async with environment(app) as env:
        execution = await Executions(env.client, "f").start("x")
        with pytest.raises(ChunkHeld, match="KeyError"):
            await execution.result()
        known["x"] = True
        await execution.retry()
        assert await execution.result() == {"kept": "x"}


@in_asyncio
async def test_a_missed_deadline_fails_an_execution_permanently() -> None:
    flow, app = Flow("f", auto_close_timeout=0.0), Signoff(MemoryStore())

    @flow.chunk
    async def ask(data: Data[Any]) -> Any:
        return await data.pause_for("approval", {"question": "Pay?"}, timeout_seconds=60)

    flow.to(ask)
    app.register(flow)
    async with environment(app) as env:
        execution = await Executions(env.client, "f").start("x")
        await env.idle()
        (asked,) = (await execution.get_pending_interrupts(wait_seconds=0)).values()
        with pytest.raises(ChunkFailed) as failed:
            await execution.result()
        assert not isinstance(failed.value, ChunkHeld)
        assert (await env.client.promises.get(asked.question_id)).state is PromiseState.TIMED_OUT
