"""Rule: keys grant on the protocol's port what they grant on the HTTP API; people's questions stay theirs."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from signoff.people.schemas.promise_returns import data_of
from signoff.records import NewPromise, NewRun, OriginWay, PromiseKind
from signoff.records.tasks import RESEND_SECONDS
from signoff.server import Role
from signoff.server.auth.stored_keys import StoredKeys
from signoff.server.resonate.legacy.listener import LegacyPorts
from signoff.stores.contract.leases import Write
from tests.server.resonate.speaker import (
    NEVER,
    TARGET,
    Speaker,
    create_action,
    envelope,
    settle_action,
    speaking,
)
from tests.support import OnThread


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Speaker]:
    """A server that needs keys."""
    with OnThread(lambda: speaking(tmp_path, require_auth=True)) as speaker, speaker:
        yield speaker


def service(speaker: Speaker, *roles: Role, namespace: str = "default") -> Speaker:
    keys = StoredKeys(speaker.app.store.within(namespace))
    return speaker.with_key(asyncio.run(keys.create_for_service("bot", roles))[0])


def worker(speaker: Speaker, *groups: str) -> Speaker:
    keys = StoredKeys(speaker.app.store)
    return speaker.with_key(asyncio.run(keys.create_for_worker("gpu", groups=groups or None))[0])


def test_without_a_valid_key_every_request_is_401(closed: Speaker) -> None:
    for head in ({}, {"auth": "sgk_wrong"}, {"auth": "sgw_wrong"}):
        response = closed.send("promise.get", {"id": "p"}, **head)
        assert (response.status_code, response.json()["head"]["status"]) == (401, 401)
        assert response.headers["www-authenticate"] == "Bearer"
    assert closed.http.get("/poll/g/p").status_code == 401


def test_a_key_counts_in_the_header_and_in_the_head(closed: Speaker) -> None:
    with service(closed, Role.OPERATOR) as bot:
        bot.create("p")
        key = bot.http.headers["authorization"].removeprefix("Bearer ")
    assert closed.send("promise.get", {"id": "p"}, auth=key).status_code == 200


def test_a_viewer_reads_and_a_responder_does_not(closed: Speaker) -> None:
    with service(closed, Role.OPERATOR) as operator, service(closed, Role.VIEWER) as viewer:
        operator.create("p")
        assert viewer.ask("promise.get", {"id": "p"})["promise"]["id"] == "p"
        viewer.ask("promise.search", {})
        viewer.ask("promise.settle", {"id": "p", "state": "resolved"}, 403)
        viewer.ask("promise.create", {"id": "q", "timeoutAt": NEVER}, 403)
        assert viewer.http.get("/poll/g/p").status_code == 403
    with service(closed, Role.RESPONDER) as responder:
        responder.ask("promise.get", {"id": "p"}, 403)


def test_a_settlement_keeps_its_origin_and_its_user(closed: Speaker) -> None:
    with service(closed, Role.OPERATOR) as bot, worker(closed) as gpu:
        bot.create("p")
        bot.settle("p")
        bot.create("q")
        gpu.settle("q")
    store = closed.app.store
    p, q = asyncio.run(store.get_promise("p")), asyncio.run(store.get_promise("q"))
    assert p.origin is not None
    assert q.origin is not None
    assert (p.settled_by, p.origin.way, p.origin.service) == ("service:bot", OriginWay.KEY, "service:bot")
    assert (q.settled_by, q.origin.way, q.origin.service) == (None, OriginWay.WORKER, "gpu")


def test_a_key_sees_only_its_namespace(closed: Speaker) -> None:
    with service(closed, Role.OPERATOR) as here, service(closed, Role.OPERATOR, namespace="other") as there:
        here.create("p", tags=TARGET)
        there.ask("promise.get", {"id": "p"}, 404)
        assert there.ask("task.search", {})["tasks"] == []
        assert there.create("p")["tags"] == {}
        with there.polling("workers", "p") as messages:
            there.create("t", tags=TARGET)
            assert next(messages)["data"]["task"]["id"] == "t"


def test_the_messages_of_a_revoked_key_end(closed: Speaker) -> None:
    keys = StoredKeys(closed.app.store)
    secret, token = asyncio.run(keys.create_for_worker("gpu"))
    with service(closed, Role.OPERATOR) as bot, closed.with_key(secret) as gpu:
        with gpu.polling("workers", "p") as messages:
            asyncio.run(keys.revoke(token.id))
            closed.clock.advance(31)
            bot.create("t", tags=TARGET)
            assert list(messages) == []
        closed.clock.advance(RESEND_SECONDS + 1)
        with bot.polling("workers", "q") as messages:
            assert next(messages)["data"]["task"]["id"] == "t"


def test_a_worker_key_for_some_groups_works_for_these_only(closed: Speaker) -> None:
    theirs = {"resonate:target": "poll://any@theirs"}
    with worker(closed) as free, worker(closed, "workers") as bound:
        free.create("t", tags=theirs)
        free.hold("held", tags=theirs)
        lease = {"pid": "p", "ttl": 1000}
        bound.ask("task.acquire", {"id": "t", "version": 0, **lease}, 403)
        bound.ask("task.get", {"id": "t"}, 403)
        bound.ask("task.fulfill", {"id": "held", "version": 1, "action": settle_action("held")}, 403)
        bound.ask("task.create", {**lease, "action": create_action("n", tags=theirs)}, 403)
        assert bound.http.get("/poll/theirs/p").status_code == 403
        assert bound.ask("task.search", {})["tasks"] == []
        assert bound.hold("mine")["state"] == "acquired"
        bound.create("for-others", tags=theirs)  # a call of another group
        assert [each["id"] for each in bound.ask("task.search", {})["tasks"]] == ["mine"]


def test_a_question_is_shown_and_only_cancelled(speaker: Speaker) -> None:
    terms = json.dumps({"text": "Deploy?", "input_type": "select", "options": ["yes", "no"]})
    asked = speaker.create("q", tags={"signoff:question": terms})
    assert asked["state"] == "pending"
    for state in ("resolved", "rejected"):
        said = speaker.ask("promise.settle", {"id": "q", "state": state}, 422)
        assert "a person answers it" in said
    speaker.hold("t")
    fence = {"id": "t", "version": 1, "action": settle_action("q")}
    assert "a person answers it" in speaker.ask("task.fence", fence, 422)
    assert speaker.settle("q", "rejected_canceled")["state"] == "rejected_canceled"
    assert "signoff:question" in speaker.ask(
        "promise.create", {"id": "r", "timeoutAt": NEVER, "tags": {"signoff:question": "{"}}, 422
    )


async def _ask_in_a_run(speaker: Speaker) -> None:
    store = speaker.app.store
    await store.create_run(NewRun("run", "w", "main", "{}"))
    (claim,) = await store.claim("worker", "main", ["w"], 1)
    opens = (NewPromise("run.1", PromiseKind.PROMISE, "run", 1),)
    await store.append(Write("run", claim.run.epoch, opens=opens))


def test_the_promise_of_a_run_is_shown_and_settled_by_services(closed: Speaker) -> None:
    asyncio.run(_ask_in_a_run(closed))
    with service(closed, Role.OPERATOR) as bot, worker(closed) as gpu, worker(closed, "workers") as bound:
        assert bot.create("run.1")["state"] == gpu.create("run.1")["state"] == "pending"
        bound.ask("promise.get", {"id": "run.1"}, 403)
        assert bound.ask("promise.search", {})["promises"] == []
        gpu.ask("promise.settle", {"id": "run.1", "state": "resolved"}, 403)
        assert bot.settle("run.1", data="MQ==")["value"] == {"data": "MQ=="}


def _typed(speaker: Speaker, id: str) -> None:
    """Create a promise that says what it returns."""
    data = data_of(None, bool, has_data=False)
    asyncio.run(speaker.app.store.create_promise(NewPromise(id, data=data)))


def test_a_promise_is_settled_with_what_it_returns_only(speaker: Speaker) -> None:
    _typed(speaker, "typed")
    wrong, right = ({"data": base64.b64encode(text).decode()} for text in (b'"yes"', b"true"))
    said = speaker.ask("promise.settle", {"id": "typed", "state": "resolved", "value": wrong}, 422)
    assert "does not return this" in said
    speaker.hold("t")
    fence = {"id": "t", "version": 1, "action": settle_action("typed", **wrong)}
    assert "does not return this" in speaker.ask("task.fence", fence, 422)
    assert speaker.ask("promise.get", {"id": "typed"})["promise"]["state"] == "pending"
    fence["action"] = settle_action("typed", **right)
    assert speaker.ask("task.fence", fence)["action"]["data"]["promise"]["value"] == right


@pytest.mark.parametrize("id", ["question", "run.1", "typed"])
def test_what_is_no_call_gets_no_task(tmp_path: Path, id: str) -> None:
    """Its holder could settle it unchecked: a question of people, for one."""
    both = {"resonate_legacy": LegacyPorts(0, 0)}
    with OnThread(lambda: speaking(tmp_path, **both)) as speaker, speaker:
        speaker.create("question", tags={"signoff:question": json.dumps({"text": "Deploy?"})})
        asyncio.run(_ask_in_a_run(speaker))
        _typed(speaker, "typed")
        speaker.create("awaited")
        assert speaker.server.resonate_legacy is not None
        body = {"promiseId": "awaited", "rootPromiseId": id, "recv": "poll://any@g", "timeout": 1}
        reply = speaker.http.post(f"{speaker.server.resonate_legacy.url}/callbacks", json=body)
        assert (reply.status_code, reply.json()["error"]["code"]) == (400, 40000)
        speaker.ask("task.get", {"id": id}, 404)


def test_pages_of_other_sites_are_refused(speaker: Speaker) -> None:
    body: dict[str, Any] = envelope("promise.create", {"id": "p", "timeoutAt": NEVER})
    headers = {"origin": "https://evil.example"}
    assert speaker.http.post("/", json=body, headers=headers).status_code == 403
    assert (
        speaker.http.post("/", content=json.dumps(body), headers={"content-type": "text/plain"}).status_code
        == 415
    )
    assert speaker.http.post("/", json=body, headers={"host": "evil.example"}).status_code == 421
    speaker.ask("promise.get", {"id": "p"}, 404)
