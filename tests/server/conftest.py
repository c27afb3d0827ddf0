"""A server and a worker on a separate thread, like another process."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from signoff import Signoff
from signoff.runtime.clock import Clock
from signoff.server import Server
from signoff.server.auth import roles
from signoff.server.process import readiness
from tests.server import workflows
from tests.shared import Shared, leave_all
from tests.support import OnThread, new_app


def app_in(folder: Path, *, clock: Clock | None = None) -> Signoff:
    """An app that knows the workflows of these tests."""
    app = new_app(folder, clock=clock)
    workflows.register(app)
    return app


@asynccontextmanager
async def serving(app: Signoff, **options: Any) -> AsyncIterator[Server]:
    """A server and a worker of an app, on this loop. The store is closed at the end."""
    try:
        async with Server(app, **{"port": 0, **options}) as server, app.worker():
            yield server
    finally:
        await app.store.close()


_server: Shared[Server] = Shared()


@pytest.fixture(scope="session")
def nothing_shared_remains() -> Iterator[None]:
    yield
    leave_all()


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory, nothing_shared_remains: None) -> Server:
    """One server for all tests that leave it as it is; each uses ids of its own."""
    return _server.get(lambda: _serving(tmp_path_factory))


def _serving(folders: pytest.TempPathFactory) -> OnThread:
    app = app_in(folders.mktemp("server"))
    return OnThread(lambda: serving(app, allowed_hosts=["signoff.example"]))


@pytest.fixture
def open_trail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has servers show the audit trail and keys without a key, to tests of what is in them."""
    monkeypatch.setattr(roles, "NEVER_OPEN", ())


@pytest.fixture
def patient_readiness(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that stands still for a while does not make a store unavailable."""
    monkeypatch.setattr(readiness, "ANSWER_SECONDS", 60.0)


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, trust_env=False, verify=False, timeout=60) as client:
        yield client


@pytest.fixture
def name() -> str:
    """An id that no other test uses."""
    return f"run-{uuid.uuid4()}"


def start(http: httpx.Client, workflow: str, id: str, *args: Any, **more: Any) -> dict[str, Any]:
    """Start a run."""
    response = http.post("/v1/runs", json={"workflow": workflow, "id": id, "args": list(args), **more})
    assert response.status_code == 201, response.text
    return response.json()


def path_of(id: str) -> str:
    """An id as a part of a path."""
    return quote(id, safe="")


def asked(http: httpx.Client, run_id: str) -> str:
    """Wait until a run has opened a question or a promise, and return its id."""
    for event, entry in events(http, run_id):
        if event == "message" and entry["kind"] == "opened":
            return f"{run_id}.{entry['n']}"
    raise AssertionError(f"{run_id} ended without asking")


def ended(http: httpx.Client, run_id: str) -> dict[str, Any]:
    """Wait until a run has ended, and return it."""
    response = http.get(f"/v1/runs/{path_of(run_id)}/result", params={"wait": 60})
    assert response.status_code == 200, response.text
    return response.json()


def events(http: httpx.Client, run_id: str, **headers: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Follow a run's journal: the name and the data of each event."""
    with http.stream("GET", f"/v1/runs/{path_of(run_id)}/events", headers=headers) as response:
        assert response.status_code == 200
        event = "message"
        for line in response.iter_lines():
            field, _, value = line.partition(": ")
            if field == "event":
                event = value
            elif field == "data":
                yield event, json.loads(value)


def fields(response: httpx.Response) -> dict[str, str]:
    """What a refusal says of each field."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    return {field["field"]: field["message"] for field in response.json()["fields"]}


def kind(response: httpx.Response) -> str:
    """Which error a refusal is."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    assert response.json()["status"] == response.status_code
    return response.json()["type"].removeprefix("urn:signoff:")
