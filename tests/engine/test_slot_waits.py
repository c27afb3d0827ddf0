"""A step that waits for a run that needs the step's own slot is refused: neither could continue."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from signoff import AsyncClient, Client, Context, Signoff
from signoff.client import slot_waits
from signoff.errors import CircularWait
from signoff.testing import MemoryStore
from tests.places import NewStore
from tests.support import comes, in_asyncio, running


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_waits, "LOOK_SECONDS", 0.3)


def waiting_app(app: Signoff, clients: list[AsyncClient]) -> None:
    @app.workflow
    async def other(ctx: Context) -> str:
        return "done"

    @app.workflow(name="waits")
    async def waits(ctx: Context, awaited: str, options: dict[str, Any]) -> str:
        async def start_and_wait() -> Any:
            run = await clients[0].start("other", id=awaited, **options)
            return await run.result()

        return str(await ctx.step(start_and_wait))


@pytest.mark.parametrize("how", ["worker", "group"])
@in_asyncio
async def test_a_step_that_waits_for_its_own_slot_is_refused(new_store: NewStore, how: str) -> None:
    app, clients = Signoff(new_store()), list[AsyncClient]()
    waiting_app(app, clients)
    async with running(app, concurrency=1 if how == "worker" else 10) as client:
        clients.append(client)
        if how == "group":
            await client.groups.limit("default", max_running=1)
        run = await client.start("waits", "o", {}, id="w")
        with pytest.raises(
            CircularWait, match="run 'w' would wait for run 'o', which waits for run 'w'"
        ) as refused:
            await run.result(60)
        assert "group 'default' has no other slot" in str(refused.value)
        assert await (await client.get("o")).result(60) == "done", "the slot is free now"


@in_asyncio
async def test_runs_that_all_wait_for_slots_are_refused_until_one_is_free(new_store: NewStore) -> None:
    app, clients = Signoff(new_store()), list[AsyncClient]()
    waiting_app(app, clients)
    async with running(app, concurrency=2) as client:
        clients.append(client)
        runs = [await client.start("waits", f"o{n}", {}, id=f"w{n}") for n in range(2)]
        ends = await asyncio.gather(*(run.result(60) for run in runs), return_exceptions=True)
        assert any(isinstance(end, CircularWait) for end in ends)
        assert all(end == "done" or isinstance(end, CircularWait) for end in ends)


@in_asyncio
async def test_a_run_of_the_same_concurrency_key_is_refused() -> None:
    app = Signoff(MemoryStore())

    @app.workflow(concurrency=1)
    async def alone(ctx: Context, is_first: bool) -> str:
        async def start_and_wait() -> Any:
            return await (await client.start("alone", False, id="second")).result()

        return str(await ctx.step(start_and_wait)) if is_first else "done"

    async with running(app) as client:
        run = await client.start(alone, True, id="first")
        with pytest.raises(CircularWait, match="run 'first' would wait for run 'second'"):
            await run.result(60)


@in_asyncio
async def test_a_slot_that_another_run_frees_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    app, clients, let_go = Signoff(MemoryStore()), list[AsyncClient](), asyncio.Event()
    waiting_app(app, clients)

    @app.workflow
    async def busy(ctx: Context) -> None:
        await ctx.step(let_go.wait)

    with caplog.at_level(logging.WARNING, "signoff.worker"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(slot_waits, "WARN_SECONDS", 0.5)
        async with running(app, concurrency=2) as client:
            clients.append(client)
            await client.start(busy)
            run = await client.start("waits", "o", {}, id="w")

            async def warned() -> bool:
                return "for run o, which no worker has taken yet" in caplog.text

            await comes(warned)
            await asyncio.sleep(1)
            let_go.set()
            assert await run.result(60) == "done"
    assert not slot_waits._waits


@in_asyncio
async def test_a_plain_step_that_waits_for_its_own_slot_is_refused() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def other(ctx: Context) -> str:
        return "done"

    @app.workflow
    async def waits(ctx: Context) -> str:
        def start_and_wait() -> Any:
            with Client(app) as blocking:
                return blocking.start("other", id="o").result()

        return str(await ctx.step(start_and_wait))

    async with running(app, concurrency=1) as client:
        run = await client.start(waits, id="w")
        with pytest.raises(CircularWait, match="the only worker of group 'default' has no other slot"):
            await run.result(60)
