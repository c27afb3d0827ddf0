"""A server that speaks the durable promise protocol, and a client that sends single requests."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx

from signoff import Signoff
from signoff.server import Server
from signoff.stores.contract.store import Store
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.sqlite.store import SqliteStore
from signoff.testing import VirtualClock

VERSION = "2026-04-01"
NEVER = 2**53 - 1
START = 1_700_000_000_000
TARGET = {"resonate:target": "poll://any@workers"}


class Speaker:
    """Sends requests to a server, and reads its messages.

    Attributes:
        app: The app of the server.
        clock: The clock of its store.
    """

    def __init__(self, server: Server, app: Signoff, clock: VirtualClock, key: str | None = None) -> None:
        assert server.resonate_url is not None
        self.server, self.app, self.clock = server, app, clock
        self.url = server.resonate_url
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self.http = httpx.Client(base_url=self.url, trust_env=False, timeout=60, headers=headers)

    def with_key(self, key: str) -> Speaker:
        """Return a client that sends a key."""
        return Speaker(self.server, self.app, self.clock, key)

    def __enter__(self) -> Speaker:
        return self

    def __exit__(self, *error: object) -> None:
        self.http.close()

    def send(self, kind: str, data: Any = None, **head: Any) -> httpx.Response:
        """Send a request."""
        body = json.dumps(envelope(kind, data, **head))  # also what is no UTF-8, such as half a character
        return self.http.post("/", content=body, headers={"content-type": "application/json"})

    def ask(self, kind: str, data: Any, status: int = 200) -> Any:
        """Return the data of a reply, whose status must be this one in its head and over HTTP."""
        response = self.send(kind, data)
        reply = response.json()
        shown = (response.status_code, reply["head"])
        assert shown == (status, {"corrId": "c", "status": status, "version": VERSION}), response.text
        assert reply["kind"] == kind
        return reply["data"]

    def create(self, id: str, **more: Any) -> Any:
        """Create a promise. Returns its record."""
        return self.ask("promise.create", {"id": id, "timeoutAt": NEVER, **more})["promise"]

    def hold(self, id: str, **more: Any) -> Any:
        """Create a promise whose task this process holds."""
        data = {"id": id, "timeoutAt": NEVER, "tags": TARGET, **more}
        action = {"kind": "promise.create", "head": {}, "data": data}
        return self.ask("task.create", {"pid": "p", "ttl": 60_000, "action": action})["task"]

    def settle(self, id: str, state: str = "resolved", **value: Any) -> Any:
        """Settle a promise. Returns its record."""
        return self.ask("promise.settle", {"id": id, "state": state, "value": value})["promise"]

    def task(self, id: str) -> Any:
        """Return a task."""
        return self.ask("task.get", {"id": id})["task"]

    @contextmanager
    def polling(self, group: str, pid: str) -> Iterator[Iterator[Any]]:
        """Yield the messages for a process."""
        with self.http.stream("GET", f"/poll/{group}/{pid}") as response:
            assert response.status_code == 200, response.read()
            lines = response.iter_lines()
            assert next(lines).startswith(":")  # it is connected
            yield (json.loads(line[6:]) for line in lines if line.startswith("data: "))


def envelope(kind: str, data: Any = None, **head: Any) -> dict[str, Any]:
    """Return a request."""
    said = {"corrId": "c", "version": VERSION, **head}
    return {"kind": kind, "head": said, "data": {} if data is None else data}


def settle_action(id: str, state: str = "resolved", **value: Any) -> dict[str, Any]:
    """Return the request to settle a promise within another one."""
    return {"kind": "promise.settle", "head": {}, "data": {"id": id, "state": state, "value": value}}


def create_action(id: str, **more: Any) -> dict[str, Any]:
    """Return the request to create a promise within another one."""
    return {"kind": "promise.create", "head": {}, "data": {"id": id, "timeoutAt": NEVER, **more}}


def await_action(awaited: str, awaiter: str) -> dict[str, Any]:
    """Return the request to await a promise within another one."""
    data = {"awaited": awaited, "awaiter": awaiter}
    return {"kind": "promise.register_callback", "head": {}, "data": data}


@asynccontextmanager
async def speaking(folder: Path, **options: Any) -> AsyncIterator[Speaker]:
    """A server on a clock that the test moves."""
    clock = VirtualClock(START / 1000)
    async with speaking_on(
        open_store(f"sqlite:///{folder}/signoff.db", clock=clock), clock, **options
    ) as speaker:
        yield speaker


def open_store(url: str, **options: Any) -> Store:
    """Return a store on a database, with options such as clocks."""
    if url.startswith("sqlite"):
        return SqliteStore(url.removeprefix("sqlite:///"), **options)
    return PostgresStore(url, **options)


@asynccontextmanager
async def speaking_on(store: Store, clock: VirtualClock, **options: Any) -> AsyncIterator[Speaker]:
    """A server on a store, which is closed at the end."""
    app = Signoff(store)
    try:
        async with Server(app, port=0, resonate_port=0, **options) as server:
            yield Speaker(server, app, clock)
    finally:
        await app.store.close()
