"""A process without file handles, threads or connections: it says so, loses nothing, and recovers."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import resource
import socket
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from signoff.runtime import process_limits
from signoff.server import Server
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.sqlite.store import SqliteStore
from tests.attacks.deployment import KINDS, Deployment, deployed
from tests.cli.commands import PATIENCE_SECONDS, Running, until
from tests.postgres.server import FAST, PostgresServer
from tests.server.conftest import kind as kind_of
from tests.support import in_asyncio

NO_THREADS = """
import pathlib
import threading

start = threading.Thread.start


def started(thread):
    if pathlib.Path("no-threads").exists():
        raise RuntimeError("can't start new thread")
    start(thread)


threading.Thread.start = started
"""


CLIENTS = "FROM pg_stat_activity WHERE backend_type = 'client backend'"
COUNT = f"SELECT count(*) {CLIENTS}"
END_OTHERS = f"SELECT pg_terminate_backend(pid) {CLIENTS} AND NOT pid = ANY(%s)"


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """How a deployment stores and works, see ``deployed``."""
    return request.param


@contextmanager
def no_handle_left(process: Running) -> Iterator[None]:
    """Lower a process's limit below the handles that it has."""
    pid = process.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def _end_once(deployment: Deployment, ids: Iterable[str]) -> None:
    """Wait for the ends of runs, and check that the step of each was executed once."""
    for id in ids:
        until(lambda id=id: deployment.ends(id))
    marks = collections.Counter(deployment.marks())
    assert {id: marks[id] for id in ids} == dict.fromkeys(ids, 1)


def test_a_server_without_file_handles_serves_its_clients_and_is_not_ready(tmp_path: Path, kind: str) -> None:
    with deployed(tmp_path, kind) as deployment:
        with no_handle_left(deployment.server):
            status, reason = deployment.ready()
            assert (status, "no file handle left" in reason) == (503, True)
            acknowledged = [id for id in ("a", "b", "c") if deployment.start(id)]
            with socket.create_connection(("127.0.0.1", deployment.port)):
                until(lambda: "connections cannot be accepted" in deployment.server.err)
                for _ in range(3):  # asyncio tries again each second, thousands of times each
                    assert deployment.ready()[0] == 503
                    acknowledged += [id for id in ("d",) if deployment.start(id)]
        assert deployment.server.err.count("connections cannot be accepted") == 1
        assert "Traceback" not in deployment.server.err
        until(lambda: deployment.ready() == (200, ""))
        assert deployment.start("after")
        _end_once(deployment, {*acknowledged, "after"})


def test_a_worker_without_a_file_handle_says_so_and_loses_nothing(tmp_path: Path, kind: str) -> None:
    with deployed(tmp_path, kind) as deployment:
        with no_handle_left(deployment.worker):
            status, reason = deployment.worker_ready()
            assert (status, "no file handle left" in reason) == (503, True)
            assert all(deployment.start(id) for id in ("a", "b"))
        until(lambda: deployment.worker_ready() == (200, ""))
        _end_once(deployment, ("a", "b"))


def test_without_threads_neither_is_ready_and_steps_wait(tmp_path: Path, kind: str) -> None:
    with deployed(tmp_path, kind, preamble=NO_THREADS) as deployment:
        (tmp_path / "no-threads").touch()
        assert "thread" in deployment.ready()[1]
        assert "no thread left" in deployment.worker_ready()[1]
        acknowledged = [id for id in ("a", "b", "c") if deployment.start(id)]
        assert acknowledged
        until(lambda: "the system has no thread left" in deployment.worker.err)
        (tmp_path / "no-threads").unlink()
        until(lambda: deployment.ready() == (200, "") and deployment.worker_ready() == (200, ""))
        _end_once(deployment, acknowledged)
        journal = deployment.http.get(f"/v1/runs/{acknowledged[0]}/journal").text
        assert "can't start new thread" not in journal, "a step that has not begun has not failed"


# Connections of clients


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Server]:
    store = SqliteStore(folder / "signoff.db")
    try:
        async with Server(store, port=0) as server:
            yield server
    finally:
        await store.close()


@in_asyncio
async def test_clients_hold_no_more_connections_than_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_limits, "handle_limit", lambda: 40)
    most = process_limits.connection_limit()
    assert most == 20
    async with serving(tmp_path) as server:
        address = "127.0.0.1", server.port
        opened = [await asyncio.open_connection(*address) for _ in range(most)]
        reader, writer = await asyncio.open_connection(*address)
        async with asyncio.timeout(PATIENCE_SECONDS):
            refusal = await reader.read()
        assert refusal.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after" in refusal
        writer.close()
        # A client that sends a body gets the refusal, too, and no reset.
        reader, writer = await asyncio.open_connection(*address)
        writer.write(
            b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000
        )
        async with asyncio.timeout(PATIENCE_SECONDS):
            await writer.drain()
            assert (await reader.read()).startswith(b"HTTP/1.1 503 ")
        writer.close()
        opened.pop()[1].close()
        async with (
            httpx.AsyncClient(base_url=server.url, trust_env=False) as http,
            asyncio.timeout(PATIENCE_SECONDS),
        ):
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    if (await http.get("/health")).status_code == 200:
                        break
        for _, writer in opened:
            writer.close()


@pytest.mark.parametrize(
    ("soft", "expected"),
    [(1024, 896), (256, 128), (100, 50), (65_536, 65_408), (resource.RLIM_INFINITY, None)],
)
def test_connections_leave_handles_to_the_store(
    monkeypatch: pytest.MonkeyPatch, soft: int, expected: int | None
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, resource.RLIM_INFINITY))
    assert process_limits.connection_limit() == expected


@pytest.mark.parametrize(
    ("soft", "hard", "expected"),
    [(1024, 524_288, 65_536), (1024, 4096, 4096), (1024, 1024, None), (100_000, 524_288, None)],
)
def test_a_program_of_ours_raises_its_limit(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, expected: int | None
) -> None:
    made = list[Any]()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: made.append(limits))
    process_limits.raise_handle_limit()
    assert made == ([] if expected is None else [(expected, hard)])


@in_asyncio
async def test_servers_of_one_loop_leave_its_exception_handler_as_it_was(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    seen = list[dict[str, Any]]()
    loop.set_exception_handler(lambda _, context: seen.append(context))
    mine = loop.get_exception_handler()
    (tmp_path / "second").mkdir()
    first, second = serving(tmp_path), serving(tmp_path / "second")
    await first.__aenter__()
    await second.__aenter__()
    loop.call_exception_handler({"message": "of the program"})
    loop.call_exception_handler({"message": "socket.accept() out of system resource"})
    assert [context["message"] for context in seen] == ["of the program"]
    await first.__aexit__(None, None, None)  # in the order in which they began
    await second.__aexit__(None, None, None)
    assert loop.get_exception_handler() is mine
    loop.set_exception_handler(None)


# Connections to the database


@in_asyncio
async def test_a_database_without_free_connections_is_not_ready_then_recovers() -> None:
    settings = {**FAST, "max_connections": "20", "superuser_reserved_connections": "0"}
    with PostgresServer(settings=settings) as database:
        store = PostgresStore(database.url())
        try:
            async with (
                Server(store, port=0) as server,
                httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=PATIENCE_SECONDS) as http,
            ):
                await _until_ready(http)
                hogs = await asyncio.to_thread(_take_all, database.url())
                refused = await http.get("/ready")
                assert (refused.status_code, kind_of(refused)) == (503, "StoreUnavailable")
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while "too many clients" not in (await http.get("/ready")).json()["detail"]:
                        await asyncio.sleep(0.05)
                assert (await http.get("/health")).status_code == 200
                for hog in hogs:
                    hog.close()
                await _until_ready(http)
                assert (await http.post("/v1/runs", json={"workflow": "w", "id": "r"})).status_code == 201
        finally:
            await store.close()


async def _until_ready(http: httpx.AsyncClient) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await http.get("/ready")).status_code != 200:
            await asyncio.sleep(0.05)


def _take_all(url: str) -> list[psycopg.Connection[Any]]:
    """Take every connection that the database has, those of the server first."""
    hogs = [psycopg.connect(url, autocommit=True)]
    for _ in range(1000):
        hogs[0].execute(END_OTHERS, [[hog.info.backend_pid for hog in hogs]])
        with contextlib.suppress(psycopg.OperationalError):
            while True:
                hogs.append(psycopg.connect(url, autocommit=True))
        rows = (
            hogs[0]
            .execute("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
            .fetchone()
        )
        if rows == (len(hogs),):
            return hogs
    raise AssertionError("the server kept a connection")
