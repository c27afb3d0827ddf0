"""Sessions over HTTP; a client on a store and one on a server behave alike."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from signoff import AsyncClient
from signoff.errors import IdConflict, NotFound
from tests.server.conftest import app_in, kind, serving
from tests.support import OnThread, in_asyncio, opened


def test_runs_of_a_session_are_started_listed_and_shown(http: httpx.Client, name: str) -> None:
    for number in range(3):
        body = {
            "workflow": "nobody-has-it",
            "id": f"{name}-{number}",
            "group": "nobody",
            "session_id": name,
        }
        run = http.post("/v1/runs", json=body).json()
        assert (run["session_id"], run["position"]) == (name, number + 1)
        assert run["state"] == ("ready" if number == 0 else "paused")
    page = http.get("/v1/runs", params={"session_id": name, "limit": 2}).json()
    assert [run["id"] for run in page["items"]] == [f"{name}-2", f"{name}-1"]
    shown = http.get(f"/v1/sessions/{name}").json()
    assert (shown["last_position"], shown["active_run_id"]) == (3, f"{name}-0")
    assert shown in http.get("/v1/sessions").json()["items"]
    http.post(f"/v1/runs/{name}-0/cancel")
    assert http.get(f"/v1/sessions/{name}").json()["active_run_id"] == f"{name}-1"


def test_what_makes_no_session_is_refused(http: httpx.Client, name: str) -> None:
    body = {"workflow": "w", "id": name, "group": "nobody", "session_id": " x"}
    refused = http.post("/v1/runs", json=body)
    assert (refused.status_code, kind(refused)) == (422, "InvalidValue")
    missing = http.get(f"/v1/sessions/{name}")
    assert (missing.status_code, kind(missing)) == (404, "NotFound")


@in_asyncio
async def test_a_client_sees_the_same_of_a_store_and_of_a_server(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with opened(app) as local:
        for number, session in enumerate("aabc"):
            await local.start("echo", number, id=f"r{number}", session_id=session, group="nobody")
        with OnThread(lambda: serving(app_in(tmp_path))) as server:
            async with AsyncClient(server.url) as remote:
                first = await local.sessions.list(limit=2)
                assert [session.id for session in first.items] == ["c", "b"]
                page = await remote.sessions.list(limit=2)
                assert page.items == first.items
                rest = await remote.sessions.list(after=page.next)
                assert [session.id for session in rest.items] == ["a"]
                assert await remote.sessions.get("a") == await local.sessions.get("a")
                assert await remote.list(session_id="a") == await local.list(session_id="a")
                with pytest.raises(NotFound):
                    await remote.sessions.get("none")
                with pytest.raises(IdConflict):
                    await remote.start("echo", 0, id="r0", session_id="b", group="nobody")
