"""Small reads of the SQLite store do not wait for commits, and share a thread while the writer is busy."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from signoff.errors import InvalidValue, StoreUnavailable
from signoff.records import NewRun, Run
from signoff.stores.sqlite import transaction
from signoff.stores.sqlite.store import SqliteStore
from signoff.stores.sqlite.writer import RESERVE_AFTER
from tests.support import in_asyncio

RUNS = [f"run-{number}" for number in range(150)]


@asynccontextmanager
async def _store_with_runs(path: Path) -> AsyncGenerator[SqliteStore]:
    store = SqliteStore(path / "store.db", inline_below_seconds=60.0)
    await store.open()
    await asyncio.gather(*(store.create_run(NewRun(id, "any", "default", "{}")) for id in RUNS))
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The functions that the store's readers were given."""
    begun: list[object] = []
    submit = ThreadPoolExecutor.submit

    def noted(threads: ThreadPoolExecutor, work: Callable[..., Any], *args: Any) -> Any:
        if threads._thread_name_prefix == "signoff-sqlite-reader":
            begun.append(work)
        return submit(threads, work, *args)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", noted)
    return begun


@in_asyncio
async def test_while_the_writer_is_busy_they_share_a_thread(tmp_path: Path, jobs: list[object]) -> None:
    async with _store_with_runs(tmp_path) as store:
        with store._file.writer._lock:
            found = await asyncio.gather(*(store.get_run(id) for id in RUNS))
        assert [run and run.id for run in found] == RUNS
        assert 0 < len(jobs) <= 4


@in_asyncio
async def test_one_that_fails_or_is_cancelled_leaves_the_others_alone(tmp_path: Path) -> None:
    async with _store_with_runs(tmp_path) as store:
        with store._file.writer._lock:
            reads = [asyncio.create_task(store.get_run(id)) for id in ("run-0", "run-1", "\ud800", "run-2")]
            await asyncio.sleep(0)
            reads[1].cancel()
            first, second, third, fourth = await asyncio.gather(*reads, return_exceptions=True)
        assert isinstance(second, asyncio.CancelledError)
        assert isinstance(third, InvalidValue)
        assert [getattr(run, "id", run) for run in (first, fourth)] == ["run-0", "run-2"]


@in_asyncio
async def test_those_that_come_before_a_close_are_answered_or_refused(tmp_path: Path) -> None:
    async with _store_with_runs(tmp_path) as store:
        lock = store._file.writer._lock
        lock.acquire()
        reads = [asyncio.create_task(store.get_run(id)) for id in RUNS]
        await asyncio.sleep(0)
        threading.Timer(0.05, lock.release).start()
        store._file.close()
        found = await asyncio.gather(*reads, return_exceptions=True)
        assert {type(each) for each in found} <= {Run, StoreUnavailable}


@in_asyncio
async def test_they_go_on_while_the_log_is_preallocated(
    tmp_path: Path, jobs: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def reserve(path: Path) -> bool:
        begun.set()
        return may_end.wait(60)

    monkeypatch.setattr(transaction, "reserve_log", reserve)
    async with _store_with_runs(tmp_path) as store:
        try:
            for number in range(RESERVE_AFTER):
                await store.create_run(NewRun(f"more-{number}", "any", "default", "{}"))
            assert await asyncio.to_thread(begun.wait, 60)
            assert await store.get_run("run-0") is not None
            assert jobs == []
            assert not store._file.writer.disconnect(0.01), "a fork finds a connection open"
        finally:
            may_end.set()
