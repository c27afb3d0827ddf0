"""Processes that were stopped and continue: they take no runs from workers that they could not hear meanwhile."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from examples.website_summary.processes import free_port
from signoff import AsyncClient, Signoff
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.remote.store import RemoteStore
from signoff.stores.sqlite.store import SqliteStore
from tests import worker_keys
from tests.postgres.databases import fresh_database
from tests.remote.processes import Process, lines, slow_app
from tests.support import PATIENCE_SECONDS, comes, in_asyncio

REMOTE_LEASE_SECONDS = 2.0
STOP_SECONDS = 13.0  # workers have given up by then, and ask anew
RUNS = 3

pytestmark = pytest.mark.long


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The path or the URL of an empty database."""
    if request.param == "sqlite":
        yield str(tmp_path / "signoff.db")
        return
    with fresh_database() as url:
        yield url


def store_of(database: str) -> SqliteStore | PostgresStore:
    return PostgresStore(database) if "://" in database else SqliteStore(database)


async def _stop(*processes: Process) -> None:
    """Stop processes for longer than a lease, and have them go on."""
    for each in processes:
        each.send(signal.SIGSTOP)
    await asyncio.sleep(STOP_SECONDS)
    for each in processes:
        each.send(signal.SIGCONT)


async def _go_on_undoubled(app: Signoff, folder: Path, processes: list[Process]) -> None:
    """Let leases pass after a stop, let the steps end, and check that each ran once."""
    await asyncio.sleep(2 * REMOTE_LEASE_SECONDS)
    for each in processes:
        (folder / f"go-{each.pid}").touch()
    async with AsyncClient(app) as client:
        for k in range(RUNS):
            handle = await client.get(f"r{k}", returns=int)
            assert await handle.result(PATIENCE_SECONDS) in [each.pid for each in processes]
    begun = [line.split()[0] for line in lines(folder / "begun")]
    assert sorted(begun) == [f"r{k}" for k in range(RUNS)], "a step ran twice"


async def _begin(app: Signoff, folder: Path) -> None:
    async with AsyncClient(app) as client:
        for k in range(RUNS):
            await client.start("child", id=f"r{k}")

        async def all_begun() -> bool:
            return len(lines(folder / "begun")) == RUNS

        await comes(all_begun)


@in_asyncio
async def test_a_server_that_was_stopped_takes_no_run_from_its_remote_workers(
    tmp_path: Path, database: str
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    app = slow_app(RemoteStore(url, key=worker_keys.SECRET), tmp_path)
    with Process(tmp_path, "server", database, port, REMOTE_LEASE_SECONDS) as server, ExitStack() as stack:
        try:
            workers = [stack.enter_context(Process(tmp_path, "slow", url, tmp_path)) for _ in range(2)]
            await _begin(app, tmp_path)
            await _stop(server)
            await _go_on_undoubled(app, tmp_path, workers)
        finally:
            await app.store.close()


@in_asyncio
async def test_stopped_workers_take_no_runs_from_themselves_or_each_other(
    tmp_path: Path, database: str
) -> None:
    app = slow_app(store_of(database), tmp_path)
    with ExitStack() as stack:
        try:
            workers = [stack.enter_context(Process(tmp_path, "direct", database, tmp_path)) for _ in range(2)]
            await _begin(app, tmp_path)
            await _stop(*workers)
            await _go_on_undoubled(app, tmp_path, workers)
        finally:
            await app.store.close()
