"""Workers of an old and a new version of a flow, side by side: each takes what it can run, and nothing is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from signoff import Context, Signoff
from signoff.errors import RunFailed
from signoff.flows import Data, Execution, Executions, Flow, FlowChanged, MissingResource
from signoff.records import EntryKind, RunState
from tests.flows.two_workers import two_work
from tests.flows.worlds import WORLDS, store_of
from tests.support import comes, in_asyncio, reaches, running


def version(name: str) -> Flow:
    """A version of a flow, whose chunks are of no other."""
    flow = Flow("refund", auto_close_timeout=0.0)

    async def ask(data: Data[Any]) -> Any:
        return await data.pause_for("approval", {"question": "Pay?"}, interrupt_id="q")

    async def pay(data: Data[Any]) -> None:
        await data.set_state("paid", [name, data.input["approved"]])

    flow.chunk(name=f"ask {name}")(ask)
    flow.chunk(name=f"pay {name}")(pay)
    flow.to(f"ask {name}").to(f"pay {name}")
    return flow


def app_of(store: Any, flow: Flow, **options: Any) -> Signoff:
    app = Signoff(store)
    app.register(flow, **options)
    return app


@pytest.mark.parametrize("kind", WORLDS)
@in_asyncio
async def test_an_execution_goes_on_where_its_graph_is_known(tmp_path: Path, kind: str) -> None:
    async with store_of(kind, tmp_path) as make:
        async with running(app_of(make(), version("old"))) as client:
            for number in range(3):
                execution = await Executions(client, "refund").start(id=f"old-{number}")
                assert list(await execution.get_pending_interrupts()) == ["q"]
        async with (
            running(app_of(make(), version("new"))) as client,
            running(app_of(make(), version("old"))),
        ):
            await two_work(client)
            for number in range(3):
                await Execution(client, f"old-{number}").continue_with("q", {"approved": True})
            for number in range(3):
                execution = Execution(client, f"old-{number}")
                assert await execution.result(120) == {"paid": ["old", True]}
                kinds = [entry.kind async for entry in execution.events()]
                assert EntryKind.FAILED not in kinds


@in_asyncio
async def test_an_execution_that_no_worker_can_run_fails_and_can_be_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signoff.engine.worker.missing_code.AVOIDS_SECONDS", 0.05)
    monkeypatch.setattr("signoff.engine.worker.driver.LEFT_SECONDS", 0.01)
    async with store_of("sqlite", tmp_path) as make:
        async with running(app_of(make(), version("old"))) as client:
            execution = await Executions(client, "refund").start(id="e")
            assert list(await execution.get_pending_interrupts()) == ["q"]
        async with (
            running(app_of(make(), version("new"))) as client,
            running(app_of(make(), version("newer"))),
        ):
            await two_work(client)
            await Execution(client, "e").continue_with("q", {"approved": True})
            with pytest.raises((FlowChanged, RunFailed), match="ask old"):
                await Execution(client, "e").result(120)
            run = await client.backend.get_run("e")
            assert (run.state, run.retryable) == (RunState.FAILED, True)
        async with running(app_of(make(), version("old"))) as client:
            await client.retry("e")
            assert await Execution(client, "e").result(120) == {"paid": ["old", True]}


@in_asyncio
async def test_an_execution_waits_for_the_worker_that_knows_it_and_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("signoff.engine.worker.missing_code.AVOIDS_SECONDS", 0.05)
    monkeypatch.setattr("signoff.engine.worker.driver.LEFT_SECONDS", 0.01)
    is_free = asyncio.Event()

    async def left_often() -> bool:
        return caplog.text.count("run e is released to another worker") > 5

    async with store_of("sqlite", tmp_path) as make:
        old, new = app_of(make(), version("old")), app_of(make(), version("new"))

        @old.workflow
        async def busy(ctx: Context) -> None:
            await ctx.step(is_free.wait)

        async with running(old, concurrency=1) as client:
            execution = await Executions(client, "refund").start(id="e")
            assert list(await execution.get_pending_interrupts()) == ["q"]
            await client.start(busy, id="busy")
            await reaches(old, "busy", RunState.RUNNING)
            async with running(new):
                await two_work(client)
                await execution.continue_with("q", {"approved": True})
                await comes(left_often)
                # For the old worker to claim it.
                monkeypatch.setattr("signoff.engine.worker.missing_code.AVOIDS_SECONDS", 30)
                is_free.set()
                assert await execution.result(120) == {"paid": ["old", True]}


@in_asyncio
async def test_an_execution_goes_on_where_its_resources_are(tmp_path: Path) -> None:
    def needing() -> Flow:
        flow = Flow("needing", auto_close_timeout=0.0).requires("bank")

        @flow.chunk
        async def pay(data: Data[Any]) -> None:
            await data.set_state("paid", data.require("bank"))

        flow.to(pay)
        return flow

    async with store_of("sqlite", tmp_path) as make:
        async with (
            running(app_of(make(), needing())) as client,
            running(app_of(make(), needing(), resources={"bank": "the bank"})),
        ):
            await two_work(client)
            execution = await Executions(client, "needing").start(id="e")
            assert await execution.result(120) == {"paid": "the bank"}
        async with running(app_of(make(), needing())) as client:
            execution = await Executions(client, "needing").start(id="alone")
            with pytest.raises((MissingResource, RunFailed), match="bank"):
                await execution.result(120)
