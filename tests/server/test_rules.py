"""Rules over HTTP: made with an answer, listed and revoked by their owners."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from signoff import Alike, AsyncClient
from signoff.errors import NotFound
from signoff.server import Server
from tests.server.conftest import app_in, asked, ended, fields, kind, serving, start
from tests.server.proxied import PROXY, ids, through
from tests.support import OnThread, in_asyncio, running


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server behind a proxy; other tests leave rules, which are listed, alone."""
    app = app_in(tmp_path_factory.mktemp("rules"))
    with OnThread(lambda: serving(app, proxy=PROXY)) as served:
        yield served


def test_similar_questions_are_approved_until_the_rule_is_revoked(http: httpx.Client, name: str) -> None:
    start(http, "mail", name, name)
    shown = http.get(f"/v1/questions/{asked(http, name)}").json()
    assert shown["data"]["action"] == {"tool": "send_mail", "arguments": {"to": name, "text": "Hello"}}
    body = {"value": True, "user_id": "ana", "alike": {"seconds": 60, "same": ["/to"], "everywhere": True}}
    assert http.post(f"/v1/questions/{shown['id']}/answer", json=body).status_code == 200
    made = [
        each
        for each in http.get("/v1/rules", params={"by": "ana", "tool": "send_mail", "in_force": True}).json()[
            "items"
        ]
        if each["question_id"] == shown["id"]
    ]
    assert [each["arguments"] for each in made] == [{"/to": name}]
    start(http, "mail", f"{name}-2", name, "Bye")
    assert ended(http, f"{name}-2")["result"] == {"approved": True, "by": "ana", "rule": made[0]["id"]}
    revoke = f"/v1/rules/{made[0]['id']}/revoke"
    gone = http.post(revoke, json={"by": "olga", "reason": "enough"})
    assert (gone.status_code, gone.json()["revoked_by"], gone.json()["uses"]) == (200, "olga", 1)
    assert http.post(revoke).json() == gone.json()
    start(http, "mail", f"{name}-3", name)
    late = asked(http, f"{name}-3")
    assert http.get(f"/v1/questions/{late}").json()["state"] == "pending"
    assert http.post("/v1/rules/none/revoke").status_code == 404


@pytest.mark.parametrize(
    "alike",
    [
        {},
        {"seconds": 0},
        {"seconds": 86_401},
        {"seconds": "60"},
        {"seconds": 60, "same": []},
        {"seconds": 60, "same": ["to"]},
        {"seconds": 60, "same": ["/cc"]},
        {"seconds": 60, "same": ["/to"], "any_arguments": True},
        {"seconds": 60, "tool": "everything"},
        {"seconds": 60, "max_uses": 2**31},
    ],
    ids=repr,
)
def test_a_rule_that_makes_no_sense_answers_nothing(
    http: httpx.Client, name: str, alike: dict[str, Any]
) -> None:
    start(http, "mail", name, "bob")
    path = f"/v1/questions/{asked(http, name)}"
    refused = http.post(f"{path}/answer", json={"value": True, "user_id": "ana", "alike": alike})
    assert (refused.status_code, kind(refused)) == (422, "InvalidValue")
    assert fields(refused)
    assert http.get(path).json()["state"] == "pending"


@pytest.mark.parametrize("index", ["1", "00", "-1", "0\n", "\u0660", "9" * 9, "9" * 10, "9" * 5_000])
def test_a_pointer_to_what_a_list_does_not_have_is_refused(http: httpx.Client, name: str, index: str) -> None:
    start(http, "put", name, "Go on?", kwargs={"action": ["pay", {"lines": [7]}]})
    path = f"/v1/questions/{asked(http, name)}"
    said = {"value": True, "user_id": "ana", "alike": {"seconds": 60, "same": [f"/lines/{index}"]}}
    refused = http.post(f"{path}/answer", json=said)
    assert (refused.status_code, kind(refused)) == (422, "InvalidValue")
    assert http.get(path).json()["state"] == "pending"
    said["alike"]["same"] = ["/lines/0"]
    assert http.post(f"{path}/answer", json=said).status_code == 200


def test_people_see_and_revoke_their_own_rules_and_operators_all(proxied: Server, name: str) -> None:
    with (
        through(proxied, "olga", roles="operator") as olga,
        through(proxied, "ana", groups="desk") as ana,
        through(proxied, "bob") as bob,
    ):
        for n, assignees in enumerate((["group:desk"], ["user:bob"])):
            start(olga, "mail", f"{name}-{n}", name, "Hello", assignees)
            question = asked(olga, f"{name}-{n}")
            who = (ana, bob)[n]
            body = {"value": True, "alike": {"seconds": 60, "everywhere": True}}
            assert (bob, ana)[n].post(f"/v1/questions/{question}/answer", json=body).status_code == 403
            assert who.post(f"/v1/questions/{question}/answer", json=body).status_code == 200
        [anas], [bobs] = ids(ana.get("/v1/rules")), ids(bob.get("/v1/rules"))
        assert ids(olga.get("/v1/rules")) == [anas, bobs]
        assert ids(olga.get("/v1/rules", params={"by": "ana"})) == [anas]
        assert kind(ana.get("/v1/rules", params={"by": "bob"})) == "AccessDenied"
        assert kind(ana.post(f"/v1/rules/{bobs}/revoke")) == "AccessDenied"
        assert kind(ana.post(f"/v1/rules/{anas}/revoke", json={"by": "bob"})) == "AccessDenied"
        [rule] = ana.get("/v1/rules").json()["items"]
        assert (rule["by"], rule["groups"]) == ("ana", ["desk"])
        start(olga, "mail", f"{name}-3", name, "Hello", ["group:desk"])
        assert ended(olga, f"{name}-3")["result"] == {"approved": True, "by": "ana", "rule": anas}
        assert ana.post(f"/v1/rules/{anas}/revoke").json()["revoked_by"] == "ana"
        assert olga.post(f"/v1/rules/{bobs}/revoke").json()["revoked_by"] == "olga"
        assert ids(olga.get("/v1/rules", params={"in_force": True})) == []


@in_asyncio
async def test_a_client_says_the_same_of_a_store_and_of_a_server(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with running(app) as local, Server(app, port=0) as server, AsyncClient(server.url) as far:
        for client in (local, far):
            handle = await client.start("mail", client.__class__.__name__ + str(id(client)))
            while not (questions := (await client.questions(run_id=handle.id)).items):
                pass
            alike = Alike(60, same=["/to"], max_uses=2)
            await client.answer(questions[0].id, True, user_id="ana", alike=alike)
            [rule] = (await client.rules.list(user_id="user:ana", in_force=True)).items
            assert (rule.max_uses, rule.run_id) == (2, handle.id)
            assert (await client.rules.revoke(rule.id, by="ana")).revoked_by == "ana"
            assert not (await client.rules.list(in_force=True)).items
            with pytest.raises(NotFound):
                await client.rules.revoke("none")
            handle = await client.start("mail", f"{handle.id}-c", session_id=handle.id)
            while not (questions := (await client.questions(run_id=handle.id)).items):
                pass
            await client.answer(questions[0].id, True, user_id="ana", alike=Alike(session=True))
            [rule] = (await client.rules.list(session_id=rule.run_id)).items
            assert (rule.expires_at, rule.run_id) == (None, None)
            await client.rules.revoke(rule.id)


def test_what_is_approved_for_a_session_is_so_in_its_runs(http: httpx.Client, name: str) -> None:
    body = {"value": True, "user_id": "ana", "alike": {"session": True, "same": ["/to"]}}
    start(http, "mail", f"{name}-0", name)
    alone = http.post(f"/v1/questions/{asked(http, f'{name}-0')}/answer", json=body)
    assert (alone.status_code, kind(alone)) == (422, "InvalidValue")
    for n in (1, 2):
        start(http, "mail", f"{name}-{n}", name, session_id=name)
        if n == 1:
            path = f"/v1/questions/{asked(http, f'{name}-1')}/answer"
            assert http.post(path, json=body).status_code == 200
    [made] = http.get("/v1/rules", params={"session_id": name, "in_force": True}).json()["items"]
    assert (made["session_id"], made.get("run_id"), made.get("expires_at")) == (name, None, None)
    assert ended(http, f"{name}-2")["result"] == {"approved": True, "by": "ana", "rule": made["id"]}
    assert http.get("/v1/rules", params={"session_id": f"{name}-other"}).json()["items"] == []
