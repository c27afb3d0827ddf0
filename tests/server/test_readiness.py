"""/ready says whether the server can work, soon, whatever its store does; /health only that it lives."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import psycopg

from signoff.server import Server
from signoff.stores.postgres import PostgresStore
from signoff.stores.sqlite import SqliteStore
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
            httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as http,
        ):
            yield http
    finally:
        await store.close()


@in_asyncio
async def test_a_database_that_stands_still_is_told_of_soon_and_however_many_ask() -> None:
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
async def test_a_database_that_is_gone_and_comes_back_is_told_of() -> None:
    with PostgresServer(settings=FAST) as database:
        async with asking(PostgresStore(database.url())) as http:
            database.stop()
            assert (await http.get("/ready")).status_code == 503
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
async def test_asking_leaves_nothing_behind(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "signoff.db")
    async with asking(store) as http:
        for _ in range(3):
            await _until_ready(http)
        assert await store.list_workers() == []


def test_a_server_that_drains_goes_on_serving_and_is_not_ready(tmp_path: Path) -> None:
    with Running("server", "--port", "0", "--drain", "60", cwd=tmp_path) as server:
        url = server.wait_for("listening")["url"]
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as http:
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
