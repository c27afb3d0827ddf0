"""Serving inside another program: when and where it listens, and how it stops."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from pathlib import Path

import httpx
import pytest
import uvicorn

from signoff import AsyncClient, RunState
from signoff.errors import StoreUnavailable
from signoff.server import Server, create_server_app, serve
from signoff.stores.sqlite.store import SqliteStore
from signoff.testing import VirtualClock
from signoff.wire.http import KEPT_SECONDS
from tests.server.conftest import app_in, serving
from tests.support import in_asyncio, reaches

USUAL_IDLE_SECONDS = 60
"""After how long load balancers close connections that are idle."""

pytestmark = pytest.mark.usefixtures("patient_readiness")


@in_asyncio
async def test_clients_and_balancers_close_idle_connections_before_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that is sent while the server closes its connection fails."""
    begun: list[uvicorn.Config] = []
    load = uvicorn.Config.load

    def note(self: uvicorn.Config) -> None:
        begun.append(self)
        load(self)

    monkeypatch.setattr(uvicorn.Config, "load", note)
    store = SqliteStore(tmp_path / "signoff.db")
    async with Server(store, port=0):
        assert begun[0].timeout_keep_alive > max(KEPT_SECONDS, USUAL_IDLE_SECONDS)
    await store.close()


@in_asyncio
async def test_a_server_is_reachable_once_entered_and_not_after_its_exit(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path / "signoff.db")
    async with Server(store, port=0) as server:
        assert server.port > 0
        assert server.url == f"http://127.0.0.1:{server.port}"
        async with httpx.AsyncClient(trust_env=False, verify=False, timeout=60) as http:
            assert (await http.get(f"{server.url}/health")).status_code == 200
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port))
    assert not await store.list_workers(), "the store is open still"
    await store.close()


@in_asyncio
async def test_a_server_listens_on_the_ipv6_loopback(tmp_path: Path) -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    store = SqliteStore(tmp_path / "signoff.db")
    try:
        async with Server(store, host="::1", port=0) as server, AsyncClient(server.url) as client:
            assert server.url == f"http://[::1]:{server.port}"
            assert (await client.list()).items == ()
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    finally:
        await store.close()


@in_asyncio
async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "signoff.db")
    async with Server(store, port=0) as first:
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1 port {first.port}"):
            async with Server(store, port=first.port):
                pass
    await store.close()


@in_asyncio
async def test_a_store_that_cannot_be_opened_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        async with Server(SqliteStore(tmp_path / "no" / "folder" / "signoff.db"), port=0):
            pass


@in_asyncio
async def test_the_name_it_listens_by_is_an_allowed_host(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "signoff.db")
    async with Server(store, host="127.0.0.2", port=0) as server, AsyncClient(server.url) as client:
        assert (await client.list()).items == ()
    await store.close()


@in_asyncio
async def test_serve_says_when_it_listens_and_stops_when_cancelled(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "signoff.db")
    listening: asyncio.Future[Server] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(store, port=0, listening=listening.set_result))
    server = await listening
    async with httpx.AsyncClient(trust_env=False, verify=False, timeout=60) as http:
        assert (await http.get(f"{server.url}/ready")).status_code == 200
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port))
    await store.close()


@in_asyncio
async def test_signals_are_left_to_the_program(tmp_path: Path) -> None:
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    store = SqliteStore(tmp_path / "signoff.db")
    async with Server(store, port=0):
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers
    await store.close()


@in_asyncio
async def test_stopping_waits_neither_for_streams_nor_for_long_polls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signoff.server.process.uvicorn_server.GRACE_SECONDS", 100)
    app = app_in(tmp_path)
    async with (
        Server(app, port=0) as server,
        httpx.AsyncClient(trust_env=False, verify=False, timeout=60) as http,
    ):
        url = f"{server.url}/v1/runs"
        await http.post(url, json={"workflow": "ask", "id": "r"})
        polling = asyncio.create_task(http.get(f"{url}/r/result", params={"wait": 60}))
        async with http.stream("GET", f"{url}/r/events") as stream:
            # Both have begun: the stream has its headers, and this poll was sent after the other.
            await http.get(f"{url}/r/result", params={"wait": 0.1})
            async with asyncio.timeout(50):  # less than the grace that requests have
                leaving = asyncio.create_task(server.__aexit__())
                assert [line async for line in stream.aiter_lines() if "event: end" in line] == []
                assert (await polling).status_code == 202
                await leaving
    await app.store.close()


@in_asyncio
async def test_deadlines_fire_without_a_worker(tmp_path: Path) -> None:
    clock = VirtualClock()
    store = SqliteStore(tmp_path / "signoff.db", clock=clock)
    async with Server(store, port=0) as server, AsyncClient(server.url) as client:
        promise = await client.promises.create("p", timeout_seconds=3600)
        assert promise.due_at == clock.now() + 3600
        clock.advance(3600)
        state = None
        while state != "timed_out":
            state = (await client.promises.get("p")).state
    await store.close()


@in_asyncio
async def test_a_deadline_of_a_run_wakes_it_on_a_virtual_clock(tmp_path: Path) -> None:
    clock = VirtualClock()
    app = app_in(tmp_path, clock=clock)
    async with serving(app) as server, AsyncClient(server.url) as client:
        handle = await client.start("ask", timeout_seconds=None, id="r")
        await reaches(app, "r", RunState.PAUSED)
        assert not await handle.done()

        timed = await client.start("ask", "Quick?", 60.0, id="t")
        await reaches(app, "t", RunState.PAUSED)
        clock.advance(61)
        assert await timed.result(timeout=60) == {"timed_out": True}


@in_asyncio
async def test_the_application_runs_under_any_asgi_server(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "signoff.db")
    api = create_server_app(store)
    transport = httpx.ASGITransport(api)
    async with (
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as http,
    ):
        assert (await http.get("/ready")).status_code == 200
        assert (await http.post("/v1/promises", json={"id": "a/b"})).status_code == 201
        assert (await http.get("/v1/promises/a%2Fb")).json()["id"] == "a/b"
    await store.close()


@in_asyncio
async def test_a_server_whose_timers_died_is_not_ready(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteStore(tmp_path / "signoff.db")
    api = create_server_app(store)
    async with api.router.lifespan_context(api):
        timers = api.state.services.timers
        timers.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await timers
        transport = httpx.ASGITransport(api)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            assert (await http.get("/ready")).status_code == 503
            assert (await http.get("/health")).status_code == 200
    await store.close()


@in_asyncio
async def test_an_app_gives_runs_its_group(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    app.group = "special"
    async with (
        Server(app, port=0) as server,
        httpx.AsyncClient(trust_env=False, verify=False, timeout=60) as http,
    ):
        run = (await http.post(f"{server.url}/v1/runs", json={"workflow": "echo"})).json()
        assert run["group"] == "special"
    await app.store.close()
