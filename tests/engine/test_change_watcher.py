"""Waiting for the ends of runs in other processes: nothing is missed, and thousands of waiters cost little."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from signoff import AsyncClient, Context, Signoff
from signoff.errors import ClientClosed, StoreUnavailable
from signoff.records import Run
from signoff.stores.contract.store import Change
from signoff.stores.sqlite.store import SqliteStore
from tests.support import comes, in_asyncio, new_app, opened


def _register(app: Signoff) -> None:
    @app.workflow
    async def square(ctx: Context, number: int) -> int:
        return number * number


class CountingStore(SqliteStore):
    """Counts what it is asked."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.asked: Counter[str] = Counter()

    async def get_run(self, run_id: str) -> Run:
        self.asked["get_run"] += 1
        return await super().get_run(run_id)

    async def ended(self, run_ids: Sequence[str]) -> set[str]:
        self.asked["ended"] += 1
        return await super().ended(run_ids)


class FailingStore(CountingStore):
    """Cannot say at first which runs have ended."""

    async def ended(self, run_ids: Sequence[str]) -> set[str]:
        self.asked["ended"] += 1
        if self.asked["ended"] == 1:
            raise RuntimeError("out of order")
        return await SqliteStore.ended(self, run_ids)


class DeafStore(CountingStore):
    """Never hears of another process's commits."""

    def listen(self, callback: Any) -> Any:
        def hear(change: Change) -> None:
            if change.runs is not None:
                callback(change)

        return super().listen(hear)


@in_asyncio
async def test_who_waits_for_another_process_looks_at_each_run_twice(tmp_path: Path) -> None:
    store = CountingStore(tmp_path / "signoff.db")
    here, elsewhere = Signoff(store), new_app(tmp_path)
    _register(here)
    _register(elsewhere)
    async with opened(here) as client, opened(elsewhere):
        runs = [await client.start("square", number) for number in range(700)]
        waiting = [asyncio.create_task(run.result()) for run in runs]
        while store.asked["get_run"] < 700:
            await asyncio.sleep(0)
        async with elsewhere.worker():
            assert await asyncio.gather(*waiting) == [number * number for number in range(700)]
        assert store.asked["get_run"] == 1400
        assert store.asked["ended"] < 700


@in_asyncio
async def test_an_end_is_found_though_no_word_of_it_came(tmp_path: Path) -> None:
    here, elsewhere = Signoff(DeafStore(tmp_path / "signoff.db")), new_app(tmp_path)
    _register(here)
    _register(elsewhere)
    async with opened(here) as client, opened(elsewhere), elsewhere.worker():
        assert await (await client.start("square", 3)).result(60) == 9


@in_asyncio
async def test_waiters_get_an_error_when_the_store_is_gone(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    _register(app)
    async with AsyncClient(app) as client:
        run = await client.start("square", 3)
        waiting = asyncio.create_task(run.result())
        await asyncio.sleep(0)
        await app.store.close()
        with pytest.raises(StoreUnavailable):
            async with asyncio.timeout(60):
                await waiting


@in_asyncio
async def test_without_waiters_nothing_is_polled(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    _register(app)
    async with opened(app) as client:
        run = await client.start("square", 3)
        before = asyncio.all_tasks()
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await run.result(0.01)

        async def nobody_looks() -> bool:
            return asyncio.all_tasks() == before

        await comes(nobody_looks)


@in_asyncio
async def test_waiters_get_an_error_when_the_client_is_closed(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    _register(app)
    async with opened(app):
        client = AsyncClient(app)
        run = await client.start("square", 3)
        waiting = asyncio.create_task(run.result())
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(ClientClosed):
            async with asyncio.timeout(60):
                await waiting


@in_asyncio
async def test_a_failing_poll_is_reported_and_others_continue(tmp_path: Path) -> None:
    app = Signoff(FailingStore(tmp_path / "signoff.db"))
    _register(app)
    async with opened(app) as client:
        run = await client.start("square", 3)
        with pytest.raises(RuntimeError, match="out of order"):
            await run.result(60)
        waiting = asyncio.create_task(run.result(60))
        async with app.worker():
            assert await waiting == 9


def test_a_client_that_is_kept_works_on_the_next_event_loop(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    _register(app)
    client = AsyncClient(app)

    async def square(number: int) -> int:
        async with app.worker():
            return await (await client.start("square", number)).result(60)

    assert asyncio.run(square(2)) == 4
    assert asyncio.run(square(3)) == 9
    asyncio.run(app.store.close())
