"""A server with the ports of both protocols of Resonate, for attacks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from signoff import Signoff
from signoff.server import Server
from signoff.server.resonate.legacy.listener import LegacyPorts
from signoff.stores.contract.store import Store
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.sqlite.store import SqliteStore
from tests.postgres.databases import fresh_database
from tests.server.resonate.speaker import envelope

JSON = {"content-type": "application/json"}


class Doors:
    """The ports of a server, and a client of them.

    Attributes:
        http: Sends requests.
        api: The URL of the HTTP API.
        today: The URL of the protocol of today.
        legacy: The URL of the protocol of 2024.
        messages: The URL of its messages.
        store: The store.
    """

    def __init__(self, server: Server, store: Store, key: str | None = None) -> None:
        assert server.resonate_legacy is not None
        assert server.resonate_url is not None
        self.server, self.store = server, store
        self.api, self.today = server.url, server.resonate_url
        self.legacy, self.messages = server.resonate_legacy.url, server.resonate_legacy.messages_url
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self.http = httpx.Client(trust_env=False, timeout=60, headers=headers)

    def with_key(self, key: str) -> Doors:
        """Return a client that sends a key."""
        return Doors(self.server, self.store, key)

    def __enter__(self) -> Doors:
        return self

    def __exit__(self, *error: object) -> None:
        self.http.close()

    def send(self, kind: str, data: Any, **head: Any) -> httpx.Response:
        """Send a request of the protocol of today, also one that is not valid UTF-8."""
        return self.post(json.dumps(envelope(kind, data, **head)).encode())

    def post(self, body: bytes) -> httpx.Response:
        """Send a body to the protocol of today."""
        return self.http.post(self.today, content=body, headers=JSON)

    def old(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """Send a request of the protocol of 2024."""
        return self.http.request(method, self.legacy + path, json=body, headers=headers)


@asynccontextmanager
async def doors(folder: Path, store_name: str = "sqlite", **options: Any) -> AsyncIterator[Doors]:
    """A server on a store."""
    if store_name == "postgres":
        with fresh_database() as url:
            async with _serving(PostgresStore(url), options) as opened:
                yield opened
    else:
        async with _serving(SqliteStore(folder / "signoff.db"), options) as opened:
            yield opened


@asynccontextmanager
async def _serving(store: Store, options: dict[str, Any]) -> AsyncIterator[Doors]:
    ports = {"port": 0, "resonate_port": 0, "resonate_legacy": LegacyPorts(0, 0)}
    try:
        async with Server(Signoff(store), **{**ports, **options}) as server:
            yield Doors(server, store)
    finally:
        await store.close()
