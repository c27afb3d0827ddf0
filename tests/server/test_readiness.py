"""/ready reports quickly whether the server can work, whatever its store does; /health only that it is alive."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, nullcontext
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from signoff import Signoff
from signoff.engine.timers import timers
from signoff.errors import StoreUnavailable
from signoff.records import TokenKind
from signoff.records.paging import TokenFilter
from signoff.server import Server
from signoff.server.process import prometheus
from signoff.server.process.probes import Probes
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.sqlite.store import SqliteStore
from signoff.testing import MemoryStore
from tests.cli.commands import Running, until
from tests.postgres.databases import fresh_database
from tests.postgres.processes import frozen
from tests.postgres.server import FAST, PostgresServer
from tests.server.conftest import kind
from tests.support import in_asyncio

SOON_SECONDS = 45.0  # two, on a machine that has other things to do


@asynccontextmanager
async def asking(store: PostgresStore | SqliteStore) -> AsyncIterator[httpx.AsyncClient]:
    try:
        async with (
            Server(store, port=0) as server,
            httpx.AsyncClient(base_url=server.url, trust_env=False, verify=False, timeout=60) as http,
        ):
            yield http
    finally:
        await store.close()


@in_asyncio
async def test_a_stalled_database_is_reported_soon_to_any_number_of_callers() -> None:
    with PostgresServer(settings=FAST) as database:
        async with asking(PostgresStore(database.url())) as http:
            await _until_ready(http)
            with frozen(database.pid):
                began_at = time.monotonic()
                replies = await asyncio.gather(*(http.get("/ready") for _ in range(20)))
                assert time.monotonic() - began_at < SOON_SECONDS
                for reply in replies:
                    assert reply.status_code == 503
                    assert kind(reply) == "StoreUnavailable"
                    assert "has not answered for 2 s" in reply.json()["detail"]
                assert (await http.get("/health")).status_code == 200
            await _until_ready(http)


async def _until_ready(http: httpx.AsyncClient) -> None:
    async with asyncio.timeout(60):
        while (await http.get("/ready")).status_code != 200:
            await asyncio.sleep(0.05)


@in_asyncio
async def test_a_database_that_goes_away_and_returns_is_reported() -> None:
    with PostgresServer(settings=FAST) as database:
        async with asking(PostgresStore(database.url())) as http:
            database.stop()
            for _ in range(2):
                refused = await http.get("/ready")
                assert refused.status_code == 503
                assert "connection" in refused.json()["detail"], "the cause is said"
            database.start()
            await _until_ready(http)


@in_asyncio
async def test_a_database_that_takes_no_writes_is_not_ready() -> None:
    with fresh_database() as url:
        async with asking(PostgresStore(url)) as http:
            await _until_ready(http)
            with psycopg.connect(url, autocommit=True) as connection:
                name = connection.info.dbname
                connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
                connection.execute("SET default_transaction_read_only = off")
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
                refused = await http.get("/ready")
                assert refused.status_code == 503
                connection.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            await _until_ready(http)


@in_asyncio
async def test_a_database_that_takes_no_temporary_files_is_ready() -> None:
    """An administrator has said so. Its disk may have room."""
    with fresh_database() as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{connection.info.dbname}" SET temp_file_limit = 0')
        with (
            psycopg.connect(url, options="-c work_mem=64kB") as connection,
            pytest.raises(psycopg.errors.ConfigurationLimitExceeded),
        ):
            connection.execute("SELECT count(*) FROM generate_series(1, 30000)")
        async with asking(PostgresStore(url)) as http:
            await _until_ready(http)


@in_asyncio
async def test_asking_leaves_nothing_behind(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "signoff.db")
    async with asking(store) as http:
        for _ in range(3):
            await _until_ready(http)
        assert await store.list_workers() == []


def test_a_server_that_drains_goes_on_serving_and_is_not_ready(tmp_path: Path) -> None:
    with Running("server", "--port", "0", "--drain", "60", cwd=tmp_path) as server:
        url = server.wait_for("listening")["url"]
        with httpx.Client(base_url=url, trust_env=False, verify=False, timeout=60) as http:
            until(lambda: _refusal(http) is None)
            server.signal(signal.SIGTERM)
            reply = until(lambda: _refusal(http))
            assert "is stopping" in reply.json()["detail"]
            assert http.get("/health").status_code == 200
            assert http.post("/v1/runs", json={"workflow": "w"}).status_code == 201
        server.signal(signal.SIGTERM)  # enough
        assert server.ends() == 130
        assert "Traceback" not in server.err


def _refusal(http: httpx.Client) -> httpx.Response | None:
    reply = http.get("/ready")
    return reply if reply.status_code == 503 else None


def test_draining_ends_after_its_time(tmp_path: Path) -> None:
    with Running("server", "--port", "0", "--drain", "0.2", cwd=tmp_path) as server:
        server.wait_for("listening")
        server.signal(signal.SIGTERM)
        assert server.ends() == 0


# A store that takes no writes


def only_reads(file: sqlite3.Connection) -> None:
    file.execute("PRAGMA query_only = 1")


def full(file: sqlite3.Connection) -> None:
    """No page can be added, and none is free."""
    file.execute(f"PRAGMA max_page_count = {file.execute('PRAGMA page_count').fetchone()[0]}")


def mended(file: sqlite3.Connection) -> None:
    file.execute("PRAGMA query_only = 0")
    file.execute("PRAGMA max_page_count = 1000000000")


@pytest.mark.parametrize(("breaks", "problem"), [(only_reads, "StoreReadOnly"), (full, "StoreFull")])
@in_asyncio
async def test_a_file_that_takes_no_writes_is_reported_by_ready_and_metrics(
    tmp_path: Path, breaks: Callable[[sqlite3.Connection], None], problem: str
) -> None:
    store = SqliteStore(tmp_path / "signoff.db")
    async with asking(store) as http:
        await _until_ready(http)
        assert await _metric(http, "signoff_store_up") == 1.0
        with closing(sqlite3.connect(store.path)) as other:  # the probes have left free pages
            other.execute("VACUUM")
        await _on_the_writer(store, breaks)
        refused = await http.get("/ready")
        assert (refused.status_code, kind(refused)) == (503, problem)
        async with asyncio.timeout(60):  # readings are cached for a second
            while await _metric(http, "signoff_store_up") != 0.0:
                await asyncio.sleep(0.05)
        assert (await http.get("/v1/runs")).status_code == 200, "it can be read still"
        await _on_the_writer(store, mended)
        await _until_ready(http)


async def _on_the_writer(store: SqliteStore, work: Callable[[sqlite3.Connection], None]) -> None:
    writer = store._file.writer
    with writer._lock:
        work(writer._committer.db)


async def _metric(http: httpx.AsyncClient, name: str) -> float:
    text = (await http.get("/metrics")).text
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name} "))


@in_asyncio
async def test_a_file_locked_by_another_process_is_reported_with_the_cause(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, patient_readiness: None
) -> None:
    store = SqliteStore(tmp_path / "signoff.db")
    async with asking(store) as http:
        await _until_ready(http)
        with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            for _ in range(2):
                refused = await http.get("/ready")
                assert refused.status_code == 503
                assert "another process keeps it locked" in refused.json()["detail"]
            async with asyncio.timeout(60):  # readings are cached for a second
                while await _metric(http, "signoff_store_up") != 0.0:
                    await asyncio.sleep(0.05)
                while "so writes are waiting" not in caplog.text:
                    await asyncio.sleep(0.05)
            assert await _metric(http, "signoff_timers_alive") == 1.0
            other.execute("ROLLBACK")
        await _until_ready(http)
    assert caplog.text.count("another process keeps it locked, so writes are waiting") == 1
    assert "it is no longer locked" in caplog.text


@in_asyncio
async def test_metrics_report_whether_deadlines_fire_while_the_store_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path / "signoff.db")
    async with asking(store) as http:
        await _until_ready(http)
        monkeypatch.setattr(prometheus, "READ_SECONDS", 0.05)

        async def hangs() -> Any:
            await asyncio.sleep(3600)

        monkeypatch.setattr(store, "list_groups", hangs)
        async with asyncio.timeout(60):
            while await _metric(http, "signoff_store_up") != 0.0:
                await asyncio.sleep(0.05)
        assert await _metric(http, "signoff_timers_alive") == 1.0
        monkeypatch.undo()


# A file that is not what it was


def replaced_by_a_backup(path: Path) -> None:
    copy = path.with_name("backup.db")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    copy.rename(path)


def beside(end: str) -> Callable[[Path], Path]:
    return lambda path: path.with_name(path.name + end)


@pytest.mark.parametrize(
    "harm",
    [
        Path.unlink,
        lambda path: path.rename(path.with_name("moved.db")),
        replaced_by_a_backup,
        lambda path: beside("-wal")(path).unlink(),
        lambda path: os.truncate(beside("-wal")(path), 0),
        lambda path: beside("-shm")(path).unlink(),
        lambda path: os.truncate(path, 0),
    ],
    ids=["deleted", "moved", "replaced", "log deleted", "log emptied", "index deleted", "emptied"],
)
@in_asyncio
async def test_a_lost_file_is_reported_by_all_routes_and_acknowledges_no_write(
    tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    store = SqliteStore(tmp_path / "signoff.db")
    async with asking(store) as http:
        await _until_ready(http)
        assert (await http.post("/v1/runs", json={"workflow": "w", "id": "before"})).status_code == 201
        harm(store.path)
        async with asyncio.timeout(60):
            while (refused := await http.get("/ready")).status_code == 200:
                await asyncio.sleep(0.05)
        assert (refused.status_code, kind(refused)) == (503, "StoreMoved")
        assert "nothing acknowledged is lost" not in refused.json()["detail"]
        async with asyncio.timeout(60):
            while await _metric(http, "signoff_store_up") != 0.0:
                await asyncio.sleep(0.05)
        for reply in [
            await http.post("/v1/runs", json={"workflow": "w", "id": "after"}),
            await http.get("/v1/runs"),
        ]:
            assert (reply.status_code, kind(reply)) == (503, "StoreMoved")
        assert (await http.get("/health")).status_code == 200


@pytest.mark.parametrize("place", ["sqlite", "postgres", "memory"])
@in_asyncio
async def test_a_look_leaves_nothing_behind_in_any_store(tmp_path: Path, place: str) -> None:
    with fresh_database() if place == "postgres" else nullcontext("") as url:
        stores: dict[str, Callable[[], Any]] = {
            "sqlite": lambda: SqliteStore(tmp_path / "signoff.db"),
            "postgres": lambda: PostgresStore(url),
            "memory": MemoryStore,
        }
        store = stores[place]()
        await store.open()
        try:
            await asyncio.gather(*(store.check_writable() for _ in range(5)))
            for kind in TokenKind:
                assert (await store.list_tokens(TokenFilter(kind))).items == ()
        finally:
            await store.close()


@in_asyncio
async def test_deadlines_that_do_not_fire_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that hangs, or a store that fails at it, holds up all that time brings."""
    store = SqliteStore(tmp_path / "signoff.db")
    async with asking(store) as http:
        await _until_ready(http)
        monkeypatch.setattr(timers, "LATE_SECONDS", 0.2)

        async def fails(limit: int = 1000) -> float | None:
            raise StoreUnavailable("here", "it is out of order")

        monkeypatch.setattr(store, "due", fails)
        async with asyncio.timeout(60):
            while (refused := await http.get("/ready")).status_code == 200:
                await asyncio.sleep(0.05)
        assert "deadlines have not fired for" in refused.json()["detail"]
        async with asyncio.timeout(60):
            while await _metric(http, "signoff_timers_alive") != 0.0:
                await asyncio.sleep(0.05)
        monkeypatch.undo()
        await _until_ready(http)


@in_asyncio
async def test_a_worker_whose_store_takes_no_writes_is_not_ready(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "signoff.db")
    app = Signoff(store)
    await store.open()
    try:
        async with (
            app.worker() as worker,
            Probes(worker, "127.0.0.1", 0) as probes,
            httpx.AsyncClient(base_url=probes.url, trust_env=False, verify=False, timeout=60) as http,
        ):
            await _until_ready(http)
            await _on_the_writer(store, only_reads)
            assert (await http.get("/ready")).status_code == 503
            await _on_the_writer(store, mended)
            await _until_ready(http)
    finally:
        await store.close()
