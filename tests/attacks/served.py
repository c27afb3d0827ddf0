"""A server with a store full of large rows, as a separate process whose memory is measured from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import httpx
import pytest

from signoff.stores.contract.store import Store
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.sqlite.store import SqliteStore
from tests import worker_keys
from tests.attacks.large_rows import fill
from tests.attacks.measuring import Measured
from tests.attacks.requests_of_all import batch, entry_of, operation
from tests.cli.commands import Running, signoff
from tests.postgres.databases import fresh_database

MOST_KIB: Final = 64 * 1024
"""By how much a request may raise a server's memory."""
ROWS: Final = 24
NAMES: Final = ("sqlite", "postgres")
STREAM_BYTES: Final = 12 * 1024 * 1024
"""How much is read of what has no end."""
LONG_SECONDS: Final = 120.0
JSON: Final = {"content-type": "application/json"}


async def _fill(store: Store) -> None:
    await store.open()
    try:
        await fill(store, ROWS)
    finally:
        await store.close()


@pytest.fixture(
    scope="session",
    params=[pytest.param(name, marks=pytest.mark.long) if name == "postgres" else name for name in NAMES],
)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A store full of large rows."""
    if request.param == "sqlite":
        path = tmp_path_factory.mktemp("filled") / "signoff.db"
        asyncio.run(_fill(SqliteStore(path)))
        yield f"sqlite:///{path}"
        return
    with fresh_database() as database:
        asyncio.run(_fill(PostgresStore(database)))
        yield database


class Served:
    """A server as a process of its own, and a client of it."""

    def __init__(self, stack: ExitStack, url: str, folder: Path, *options: str) -> None:
        made = ("keys", "create", "bot", "--role", "admin", "--act-as", "--store", url, "--json")
        key = signoff(*made, cwd=folder).json["key"]
        shared = {"SIGNOFF_WORKER_KEY": worker_keys.SECRET}
        command = ("server", "--store", url, "--port", "0", *options)
        # A forked server would have much free memory from the start, and its requests would take none.
        server = stack.enter_context(Running(*command, cwd=folder, is_forked=False, **shared))
        self.said = server.wait_for("listening")
        self.memory = Measured(server.process.pid)
        self.http = stack.enter_context(
            httpx.Client(
                base_url=f"http://127.0.0.1:{self.said['port']}",
                headers={"authorization": f"Bearer {key}"},
                timeout=LONG_SECONDS,
                trust_env=False,
                limits=httpx.Limits(max_connections=None),
            )
        )
        for path in (
            "/v1/runs?limit=1",
            "/openapi.json",
            "/v1/questions?limit=1",
            "/metrics",
        ):  # imports, caches
            self.http.get(path)

    def hold(self, run_id: str) -> tuple[str, int]:
        """Start a run, hold its lease and write an entry. Returns its id and the epoch of the lease."""
        new = {"id": run_id, "workflow": run_id, "group": "default", "arguments": '{"args":[]}'}
        claim = {"worker_id": "w", "group": "default", "workflows": [run_id], "limit": 1}
        self.ask(operation("create_run", new=new))
        epoch = self.ask(operation("claim", **claim))[0]["run"]["epoch"]
        self.ask(operation("append", write={"run_id": run_id, "epoch": epoch, "entries": [entry_of(0)]}))
        return run_id, epoch

    def ask(self, asked: dict[str, Any]) -> Any:
        """Have an operation done as a worker, and return its result."""
        content = batch([asked], f"client {uuid4()}")
        headers = {**JSON, "authorization": f"Bearer {worker_keys.SECRET}"}
        return self.http.post("/v1/store", content=content, headers=headers).json()["result"]

    def take(self, method: str, path: str, **more: Any) -> int:
        """Send a request and read its reply. Returns the status."""
        size = 0
        if path.startswith("/v1/store"):
            headers = {"authorization": f"Bearer {worker_keys.SECRET}"}
            more = {**more, "headers": {**more.get("headers", {}), **headers}}
        with self.http.stream(method, path, **more) as reply:
            for part in reply.iter_raw():
                size += len(part)
                if path.endswith("events") and (
                    size > STREAM_BYTES or part.endswith(b"event: gap\ndata: {}\n\n")
                ):
                    break
            return reply.status_code


@pytest.fixture
def served(url: str, tmp_path: Path) -> Iterator[Served]:
    with ExitStack() as stack:
        yield Served(stack, url, tmp_path)
