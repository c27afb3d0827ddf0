"""The HTTP client: which requests are repeated after a broken connection, and the error without a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from examples.website_summary.processes import free_port
from signoff import AsyncClient, RunState
from signoff.client.async_client import Backend
from signoff.client.http_backend import HttpBackend
from signoff.errors import InvalidValue, StoreUnavailable
from signoff.records import Entry, EntryKind, NewPromise, NewRun, PromiseState, Settlement
from signoff.server import Server
from signoff.stores.sqlite.store import SqliteStore
from tests.server.conftest import app_in
from tests.support import in_asyncio, reaches

PROMISE = b'{"namespace":"default","id":"p","kind":"promise","state":"resolved","created_at":1.0}'
RUN = (
    b'{"namespace":"default","id":"r","workflow":"w","group":"default","arguments":{},'
    b'"state":"%s","created_at":1.0}'
)


def ok(body: bytes) -> bytes:
    """An answer with a body."""
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


@asynccontextmanager
async def scripted(*answers: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that reads each request whole, then sends the next of these answers and hangs up.

    Gives its URL and the requests so far, each as its first line. An empty answer only hangs up.
    """
    left = list(answers)
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            if length:
                await reader.readexactly(int(length[0].split(b":")[1]))
            seen.append(head.split(b"\r\n")[0])
            writer.write(left.pop(0) if left else b"")
            await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}", seen
    finally:
        server.close()
        await server.wait_closed()


@asynccontextmanager
async def backend_of(url: str) -> AsyncIterator[HttpBackend]:
    backend = HttpBackend(url)
    try:
        yield backend
    finally:
        await backend.close()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signoff.client.http_backend.QUICK", (0.0, 0.0, 0.0))
    monkeypatch.setattr("signoff.client.http_backend.PATIENT", (0.0,) * 7)
    monkeypatch.setattr("signoff.client.run_streams.PATIENT", (0.0,) * 7)


RESOLVE = Settlement(PromiseState.RESOLVED, "1")
RESOLVE_ONCE = Settlement(PromiseState.RESOLVED, "1", request_id="q")
Call = Callable[[Backend], Awaitable[Any]]

REPEATED: dict[str, tuple[Call, bytes]] = {
    "get": (lambda backend: backend.get_promise("p"), PROMISE),
    "start": (
        lambda backend: backend.create_run(NewRun("r", "w", "g", '{"args":[],"kwargs":{}}')),
        RUN % b"ready",
    ),
    "cancel": (lambda backend: backend.cancel("r"), RUN % b"cancelled"),
    "create": (lambda backend: backend.create_promise(NewPromise("p")), PROMISE),
    "settle": (lambda backend: backend.settle("p", RESOLVE_ONCE), PROMISE),
    "answer": (lambda backend: backend.answer("p", True, request_id="q"), PROMISE),
    "signal": (lambda backend: backend.signal("r", "s", "1", request_id="q"), b'{"sent":true}'),
}

SENT_ONCE: dict[str, Call] = {
    "settle": lambda backend: backend.settle("p", RESOLVE),
    "answer": lambda backend: backend.answer("p", True),
    "signal": lambda backend: backend.signal("r", "s", "1"),
    "retry": lambda backend: backend.retry("r"),
}


@pytest.mark.parametrize("name", REPEATED)
@in_asyncio
async def test_a_call_that_a_repetition_cannot_harm_is_repeated(name: str) -> None:
    call, answer = REPEATED[name]
    async with scripted(b"", b"HTTP/1.1 200", ok(answer)) as (url, seen), backend_of(url) as backend:
        await call(backend)
        assert len(seen) == 3
        assert len(set(seen)) == 1


@pytest.mark.parametrize("name", REPEATED)
@in_asyncio
async def test_a_call_is_not_repeated_endlessly(name: str) -> None:
    async with scripted() as (url, seen), backend_of(url) as backend:
        with pytest.raises(StoreUnavailable, match="the connection broke"):
            await REPEATED[name][0](backend)
        assert len(seen) == 4


@pytest.mark.parametrize("name", SENT_ONCE)
@in_asyncio
async def test_a_write_without_a_request_id_is_sent_once(name: str) -> None:
    async with scripted(b"", ok(PROMISE)) as (url, seen), backend_of(url) as backend:
        with pytest.raises(StoreUnavailable, match="may or may not have taken effect.*request id"):
            await SENT_ONCE[name](backend)
        assert len(seen) == 1


@pytest.mark.parametrize("name", [*REPEATED, *(f"{name}-once" for name in SENT_ONCE)])
@in_asyncio
async def test_a_server_that_is_not_there_is_named(name: str) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    call = SENT_ONCE[name.removesuffix("-once")] if name.endswith("-once") else REPEATED[name][0]
    async with backend_of(url) as backend:
        with pytest.raises(StoreUnavailable, match="no server answers there.*signoff server") as error:
            await call(backend)
    assert error.value.store == url


@in_asyncio
async def test_waiting_and_following_fail_at_once_without_a_server() -> None:
    async with backend_of(f"http://127.0.0.1:{free_port()}") as backend:
        for call in (backend.wait("r"), anext(backend.follow("r"))):
            with pytest.raises(StoreUnavailable, match="no server answers there"):
                await call


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (ok(b"<html>"), "not from a signoff server"),
        (ok(b""), "not from a signoff server"),
        (ok(b"[]"), "not from a signoff server"),
        (ok(b'{"id":"p"}'), "not from a signoff server"),
        (b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 4\r\n\r\noops", "502 Bad Gateway"),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}", "404 Not Found"),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n[]", "404 Not Found"),
        (b"HTTP/1.1 302 Found\r\nlocation: /login\r\ncontent-length: 0\r\n\r\n", "302 Found"),
    ],
)
@in_asyncio
async def test_what_is_no_signoff_server_is_said_to_be_none(answer: bytes, says: str) -> None:
    async with scripted(answer) as (url, _), backend_of(url) as backend:
        with pytest.raises(StoreUnavailable, match=says):
            await backend.get_promise("p")


@pytest.mark.parametrize("url", ["", "127.0.0.1:8000", "ftp://x", "http://", "sqlite:///x.db", "http://x:y"])
def test_what_is_no_url_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(InvalidValue, match="url"):
        HttpBackend(url)


@in_asyncio
async def test_a_host_that_the_server_does_not_go_by_is_named(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "signoff.db")
    async with (
        Server(store, host="0.0.0.0", port=0) as server,
        backend_of(f"http://127.0.0.2:{server.port}") as backend,
    ):
        with pytest.raises(InvalidValue, match="has no host name '127.0.0.2") as error:
            await backend.get_run("r")
        assert error.value.path == "Host"
    await store.close()


@in_asyncio
async def test_a_url_may_have_a_path_of_its_own() -> None:
    async with scripted(ok(PROMISE)) as (url, seen), backend_of(f"{url}/signoff/") as backend:
        await backend.get_promise("a/b")
        assert seen == [b"GET /signoff/v1/promises/a%2Fb HTTP/1.1"]


@in_asyncio
async def test_a_client_needs_no_server_before_its_first_call(tmp_path: Path) -> None:
    port = free_port()
    app = app_in(tmp_path)
    async with AsyncClient(f"http://127.0.0.1:{port}") as client, Server(app, port=port):
        assert (await client.list()).items == ()
    await app.store.close()


@in_asyncio
async def test_waiting_and_following_outlive_a_restart_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signoff.client.http_backend.PATIENT", (0.05,) * 600)
    monkeypatch.setattr("signoff.client.run_streams.PATIENT", (0.05,) * 600)
    port = free_port()
    app = app_in(tmp_path)
    url = f"http://127.0.0.1:{port}"
    async with (
        AsyncClient(url) as client,
        AsyncClient(app) as here,
        app.worker(),
        AsyncExitStack() as servers,
    ):
        first = await servers.enter_async_context(Server(app, port=port))
        handle = await client.start("ask", id="r")
        await reaches(app, "r", RunState.PAUSED)
        waiting = asyncio.create_task(handle.result())
        entries: list[Entry] = []
        async for entry in handle.events():
            entries.append(entry)
            if entry.kind is EntryKind.OPENED:
                await first.__aexit__()
                await here.answer("r.1", True, user_id="ana")
                await servers.enter_async_context(Server(app, port=port))
        assert [entry.seq for entry in entries] == [0, 1, 2, 3]
        assert (await waiting)["by"] == "ana"
    await app.store.close()


@in_asyncio
async def test_a_text_with_any_line_break_comes_through_a_stream(server: Server, name: str) -> None:
    text = "a\nb\rc\u2028d\u2029e\x85f\x0bg\x0ch\x1ci"
    async with AsyncClient(server.url) as client:
        handle = await client.start("listen", id=name)
        await handle.signal("news", text)
        assert await handle.result() == text
        values = [entry.value async for entry in handle.events() if entry.kind is EntryKind.SIGNALLED]
        assert [json.loads(value) for value in values if value] == [text]


@in_asyncio
async def test_a_stream_is_resumed_after_the_last_event_that_came() -> None:
    def stream(*blocks: bytes) -> bytes:
        return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + b"".join(blocks)

    def event(seq: int) -> bytes:
        return b'data: {"seq":%d,"at":1.0,"kind":"progressed"}\nid: %d\n\n' % (seq, seq)

    asked: list[bytes] = []
    answers: Sequence[bytes] = (
        ok(RUN % b"running"),
        stream(event(0), b": ping\n\n", event(1), event(2)[:20]),  # torn in the middle of an event
        b"",
        stream(event(2), event(3)),
        stream(b"event: end\ndata: {}\n\n"),
    )
    left = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            asked.extend(line for line in head.lower().split(b"\r\n") if line.startswith(b"last-event-id"))
            writer.write(left.pop(0))
            await writer.drain()
        finally:
            writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with backend_of(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}") as backend:
        assert [entry.seq async for entry in backend.follow("r")] == [0, 1, 2, 3]
    listener.close()
    await listener.wait_closed()
    assert asked == [b"last-event-id: %d" % seq for seq in (-1, 1, 1, 3)]


@in_asyncio
async def test_waiting_polls_until_the_run_has_ended() -> None:
    states = (b"running", b"paused", b"ready", b"succeeded")
    async with scripted(*(ok(RUN % state) for state in states)) as (url, seen), backend_of(url) as backend:
        assert (await backend.wait("r")).state is RunState.SUCCEEDED
        assert seen[0] == b"GET /v1/runs/r HTTP/1.1"
        assert seen[1:] == [b"GET /v1/runs/r/result?wait=30.0 HTTP/1.1"] * 3


@in_asyncio
async def test_giving_up_waiting_leaves_the_client_usable(server: Server, name: str) -> None:
    async with AsyncClient(server.url) as client:
        handle = await client.start("ask", id=name)
        with pytest.raises(TimeoutError):
            await handle.result(timeout=0.1)
        assert await handle.status() in (RunState.READY, RunState.RUNNING, RunState.PAUSED)


@in_asyncio
async def test_those_who_wait_leave_connections_for_others(
    server: Server, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signoff.client.http_backend.POLL_SECONDS", 60.0)
    async with AsyncClient(server.url) as client, asyncio.timeout(50):  # less than a poll
        handle = await client.start("ask", id=name)
        waiting = [asyncio.create_task(handle.result()) for _ in range(110)]
        done, _ = await asyncio.wait(waiting, timeout=1)
        assert not done
        async for entry in handle.events():
            if entry.kind is EntryKind.OPENED:
                await client.answer(f"{name}.1", True)
        assert len(await asyncio.gather(*waiting)) == 110
