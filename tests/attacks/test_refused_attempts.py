"""Attempts with names, notes and values of nearly a megabyte: the audit trail keeps little of a refused one."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from traceback import walk_tb
from typing import Any

import httpx
import pytest

from signoff import AsyncClient, Signoff
from signoff.errors import AlreadySettled, InvalidValue
from signoff.people.links.answer_links import create_link, revoke_link
from signoff.records import (
    AuditKind,
    NewAuditEvent,
    NewPromise,
    NewToken,
    PromiseKind,
    PromiseState,
    Settlement,
    TokenKind,
)
from signoff.records.paging import AuditFilter
from tests.postgres.databases import migrated_database
from tests.server import workflows
from tests.server.conftest import asked, path_of, serving, start
from tests.stores.scene import Scene, rule
from tests.support import OnThread

pytestmark = pytest.mark.usefixtures("open_trail")

LONG = "x" * 900_000
NOTE = "my-note"
ATTEMPTS: list[tuple[str, dict[str, Any]]] = [
    ("answer", {"value": LONG, "user_id": "ana", "note": NOTE}),
    ("answer", {"value": {"approved": LONG}, "user_id": "ana", "note": NOTE}),
    ("answer", {"value": {"approved": True, LONG: 1}, "user_id": "ana", "note": NOTE}),
    ("answer", {"value": {"approved": True, **{f"f{n}": 1 for n in range(50_000)}}, "user_id": "ana"}),
    ("answer", {"value": True, "user_id": "ana", "digest": LONG}),
    ("answer", {"value": True, "user_id": LONG}),
    ("answer", {"value": True, "user_id": "eve", "note": LONG}),
    ("answer", {"value": True, "user_id": "eve", "groups": [LONG]}),
    ("answer", {"value": True, "user_id": "eve", "groups": [f"g{n}" for n in range(50_000)]}),
    ("answer", {"value": True, "user_id": "eve", "request_id": LONG}),
    ("view", {"user_id": LONG}),
    ("claim", {"user_id": LONG}),
    ("claim", {"user_id": "eve", "roles": [LONG]}),
    ("release", {"user_id": LONG}),
    ("delegate", {"user_id": "eve", "to": [f"user:{LONG}"], "note": NOTE}),
    ("delegate", {"user_id": "ana", "to": [LONG], "note": NOTE}),
    ("reassign", {"to": [LONG], "by": "eve", "reason": NOTE}),
    ("reassign", {"to": [], "by": LONG}),
    ("deadline", {"timeout_seconds": 60, "by": LONG}),
    ("comments", {"user_id": LONG, "text": NOTE}),
    ("links", {"user_id": "ana", "by": LONG}),
    ("links", {"user_id": LONG}),
    ("cancel", {"by": LONG}),
]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def http(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    def client_of(url: str) -> Iterator[httpx.Client]:
        app = Signoff(url)
        workflows.register(app)
        with (
            OnThread(lambda: serving(app)) as server,
            httpx.Client(base_url=server.url, trust_env=False, verify=False, timeout=60) as client,
        ):
            yield client

    if request.param == "postgres":
        with migrated_database() as url:
            yield from client_of(url)
    else:
        yield from client_of(f"sqlite:///{tmp_path_factory.mktemp('refused') / 'signoff.db'}")


@pytest.fixture
def name() -> str:
    """An id that no other test uses."""
    return f"run-{uuid.uuid4()}"


@pytest.mark.parametrize("state", ["pending", "resolved"])
def test_of_a_refused_attempt_little_is_kept(http: httpx.Client, name: str, state: str) -> None:
    start(http, "sign", name, ["user:ana"])
    question = asked(http, name)
    path = f"/v1/questions/{path_of(question)}"
    if state == "resolved":
        assert http.post(f"{path}/answer", json={"value": True, "user_id": "ana"}).status_code == 200
    for verb, body in ATTEMPTS:
        refused = http.post(f"{path}/{verb}", json=body)
        assert 400 <= refused.status_code < 500, (verb, refused.text[:200])
        assert len(refused.content) < 64 * 1024, verb
    assert http.get(path).json()["state"] == state
    trail = http.get("/v1/audit", params={"question_id": question, "limit": 1000}).json()["items"]
    kept = [event for event in trail if event["kind"] == "refused"]
    assert len(kept) >= 5
    assert {event["kind"] for event in trail} == {"asked", "refused"} | ({state} - {"pending"})
    for event in kept:
        assert len(json.dumps(event)) < 2_000
        assert len(event["details"]["detail"]) <= 500
        assert NOTE not in json.dumps(event)


def test_actions_on_runs_and_promises_take_no_longer_names(http: httpx.Client, name: str) -> None:
    start(http, "listen", name)
    assert http.post("/v1/promises", json={"id": f"p-{name}"}).status_code == 201
    for path, body in (
        ("/v1/runs", {"workflow": "echo", "started_by": LONG}),
        (f"/v1/runs/{name}/signals", {"name": "news", "by": LONG}),
        (f"/v1/runs/{name}/suspend", {"by": LONG}),
        (f"/v1/runs/{name}/resume", {"by": LONG}),
        (f"/v1/runs/{name}/cancel", {"by": LONG}),
        (f"/v1/runs/{name}/terminate", {"by": LONG}),
        (f"/v1/runs/{name}/retry", {"by": LONG}),
        (f"/v1/promises/p-{name}/resolve", {"value": 1, "by": LONG}),
        (f"/v1/promises/p-{name}/reject", {"value": 1, "by": LONG}),
        (f"/v1/promises/p-{name}/cancel", {"by": LONG}),
        ("/v1/links/none/revoke", {"by": LONG}),
    ):
        refused = http.post(path, json=body)
        assert (refused.status_code, "limit of 256" in refused.text or "is not a valid" in refused.text) == (
            422,
            True,
        ), (path, refused.text[:200])
    assert http.get(f"/v1/runs/{name}").json()["state"] in ("ready", "running", "paused")
    assert http.post(f"/v1/runs/{name}/cancel", json={"by": "x" * 256}).status_code == 200


@rule
async def test_a_refusal_holds_nothing_of_what_was_read_for_it(scene: Scene) -> None:
    """Its frames would, and through their callers the replies to all operations of the batch."""
    await scene.store.create_promise(NewPromise("p"))
    await scene.store.settle("p", PromiseKind.PROMISE, Settlement(PromiseState.RESOLVED, "1"))
    with pytest.raises(AlreadySettled) as refused:
        await scene.store.settle("p", PromiseKind.PROMISE, Settlement(PromiseState.RESOLVED, "2"))
    files = {frame.f_code.co_filename for frame, _ in walk_tb(refused.value.__traceback__)}
    readers = [
        name for name in files if "/stores/" in name and name.endswith(("_operations.py", "_promises.py"))
    ]
    assert readers == []


@rule
async def test_no_store_keeps_an_event_with_a_longer_name(scene: Scene) -> None:
    await scene.store.create_promise(NewPromise("q", PromiseKind.QUESTION, data="{}"))
    async with AsyncClient(Signoff(scene.store)) as client:
        for attack in (
            scene.store.record([NewAuditEvent("e", AuditKind.VIEWED, "q", by=LONG)]),
            scene.store.create_token(NewToken("t", TokenKind.LINK, "0" * 64, "user:ana", created_by=LONG)),
            create_link(scene.store, "q", user_id="ana", by=LONG),
            revoke_link(scene.store, "none", by=LONG),
            client.inbox.cancel("q", by=LONG),
            client.rules.revoke("none", by=LONG),
        ):
            with pytest.raises(InvalidValue, match="256|limit|is not a valid"):
                await attack
    assert [event.kind for event in (await scene.store.list_audit(AuditFilter())).items] == [AuditKind.ASKED]
