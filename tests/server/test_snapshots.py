"""Snapshots over HTTP: a run moves from one server to another, once, and only admins can read it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from signoff import AsyncClient
from signoff.errors import InvalidValue, NotFound, PayloadTooLarge, SnapshotRefused
from signoff.server import Role, Server
from tests.server.conftest import app_in, asked, ended, fields, kind, serving, start
from tests.server.keyed import Keyed, keyed
from tests.support import OnThread, in_asyncio

pytestmark = pytest.mark.usefixtures("open_trail")


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Another server with a store of its own."""
    app = app_in(tmp_path_factory.mktemp("elsewhere"))
    with OnThread(lambda: serving(app)) as served:
        yield served


@in_asyncio
async def test_a_run_goes_on_at_another_server_once(server: Server, elsewhere: Server, name: str) -> None:
    async with AsyncClient(server.url) as here, AsyncClient(elsewhere.url) as there:
        await here.start("approve", id=name)
        async for event in (await here.get(name)).events():
            if event.fact("id") == f"{name}.1":
                break
        snapshot = await here.save(name, by="user:ana")
        handle = await there.load(snapshot, by="user:bob")
        with pytest.raises(SnapshotRefused):
            await there.load(snapshot)
        with pytest.raises(SnapshotRefused):
            await here.load(snapshot)
        await there.answer(f"{name}.1", True, user_id="eve")
        assert (await handle.result(60))["approved"] is True
        assert (await here.promises.get(f"{name}.1")).state == "pending", "it is a copy"
        [saved] = [each for each in (await here.inbox.history(run_id=name)).items if each.kind == "saved"]
        [loaded] = [each for each in (await there.inbox.history(run_id=name)).items if each.kind == "loaded"]
        assert (saved.by, loaded.by) == ("user:ana", "user:bob")
        assert snapshot["digest"] in (saved.details or "")
        assert snapshot["digest"] in (loaded.details or "")


@in_asyncio
async def test_what_is_no_snapshot_is_refused_by_its_place(server: Server, name: str) -> None:
    async with AsyncClient(server.url) as client:
        with pytest.raises(NotFound):
            await client.save(name)
        await client.start("ask", id=name)
        snapshot = await client.save(name)
        for wrong, path in (
            ({}, "schema"),
            ({**snapshot, "schema": "signoff/snapshot/2"}, "schema"),
            ({**snapshot, "runs": "none"}, "runs"),
            ({**snapshot, "saved_at": 0}, "digest"),
        ):
            with pytest.raises(InvalidValue) as refused:
                await client.load(wrong)
            assert refused.value.path == path


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ({"text": 1}, "snapshot.runs.0.promises.0.data.text"),
        ([], "snapshot.runs.0.promises.0.data"),
        (
            {"text": "Pay?", "attachments": [{"url": "javascript:alert(1)"}]},
            "snapshot.runs.0.promises.0.data.attachments.0.url",
        ),
    ],
)
@in_asyncio
async def test_a_snapshot_with_an_unreadable_question_is_refused(
    server: Server, elsewhere: Server, name: str, data: object, path: str
) -> None:
    """It was changed by hand, with a digest of its own: the route of snapshots takes no more than other doors."""
    async with AsyncClient(server.url) as here, AsyncClient(elsewhere.url) as there:
        await here.start("approve", id=name)
        async for event in (await here.get(name)).events():
            if event.fact("id") == f"{name}.1":
                break
        snapshot = json.loads(json.dumps(dict(await here.save(name))))
        snapshot["runs"][0]["promises"][0]["data"] = json.dumps(data)
        body = {part: value for part, value in snapshot.items() if part != "digest"}
        snapshot["digest"] = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        with pytest.raises(InvalidValue) as refused:
            await there.load(snapshot)
        assert refused.value.path == path
        with pytest.raises(NotFound):
            await there.get(name)


def test_a_snapshot_may_be_longer_than_other_bodies_up_to_a_limit(
    http: httpx.Client, elsewhere: Server, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(http, "ask", name)
    for letter in "abc":
        http.post(f"/v1/runs/{name}/signals", json={"name": "news", "value": letter * 900_000})
    snapshot = http.post(f"/v1/runs/{name}/save", json={}).json()
    body = {"snapshot": snapshot}
    with httpx.Client(base_url=elsewhere.url, trust_env=False, verify=False, timeout=60) as there:
        monkeypatch.setattr("signoff.server.http.request_bodies.SNAPSHOT_LIMIT", 2_000_000)
        refused = there.post("/v1/snapshots", json=body)
        assert (refused.status_code, kind(refused)) == (413, "PayloadTooLarge")
        monkeypatch.undo()
        assert there.post("/v1/snapshots", json=body).status_code == 201
        assert (
            there.post("/v1/prune", json={"older_than_seconds": 1, "x": "y" * 2_000_000}).status_code == 413
        )


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    with OnThread(lambda: keyed(tmp_path_factory.mktemp("keyed"))) as here:
        yield here


def test_only_admins_save_and_load_and_the_trail_has_which_key(keys: Keyed, name: str) -> None:
    secret, key = keys.key("mover", Role.ADMIN)
    with keys.service("op", [Role.OPERATOR]) as op, keys.http(secret) as admin:
        start(op, "approve", name)
        asked(op, name)
        for path, body in ((f"/v1/runs/{name}/save", {}), ("/v1/snapshots", {"snapshot": {}})):
            refused = op.post(path, json=body)
            assert (refused.status_code, kind(refused)) == (403, "AccessDenied")
        assert admin.post(f"/v1/runs/{name}/save", json={"by": "user:ana"}).status_code == 403
        assert admin.post(f"/v1/runs/{name}/save").status_code == 200
        [saved] = [
            each
            for each in admin.get("/v1/audit", params={"run_id": name}).json()["items"]
            if each["kind"] == "saved"
        ]
        assert (saved["by"], saved["origin"]["credential"]) == ("service:mover", key.id)


def test_where_payloads_are_redacted_no_snapshot_is_given(tmp_path: Path, name: str) -> None:
    app = app_in(tmp_path)
    with (
        OnThread(lambda: serving(app, redact=["secret"])) as server,
        httpx.Client(base_url=server.url, trust_env=False, verify=False, timeout=60) as http,
    ):
        start(http, "echo", name, {"secret": "s3cr3t"})
        ended(http, name)
        refused = http.post(f"/v1/runs/{name}/save", json={})
        assert (refused.status_code, kind(refused)) == (409, "SnapshotRefused")
        assert "s3cr3t" not in refused.text
        assert http.post("/v1/runs/none/save", json={}).status_code == 404


def test_a_body_in_which_something_is_there_twice_is_refused(http: httpx.Client) -> None:
    twice = b'{"snapshot": {"schema": "a", "schema": "b"}}'
    refused = http.post("/v1/snapshots", content=twice, headers={"content-type": "application/json"})
    assert refused.status_code == 422
    assert fields(refused)


@in_asyncio
async def test_a_client_gets_an_error_for_a_too_long_snapshot(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signoff.server.http.request_bodies.SNAPSHOT_LIMIT", 1_000)
    async with AsyncClient(server.url) as client:
        snapshot: dict[str, Any] = {"schema": "x" * 1_000}
        with pytest.raises(PayloadTooLarge):
            await client.load(snapshot)
