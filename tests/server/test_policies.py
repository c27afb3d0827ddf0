"""Questions with policies over HTTP: refused users get the reason, and nothing changes."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from signoff.people.audit.hash_chain import GENESIS, hash_of
from signoff.records import AuditEvent
from signoff.wire.records import from_wire
from tests.cli.commands import until
from tests.server.conftest import ended, fields, kind, start
from tests.server.open_questions import open_question

pytestmark = pytest.mark.usefixtures("open_trail")

DO = ("answer", "claim", "release", "delegate")


def do(http: httpx.Client, verb: str, id: str, **body: Any) -> httpx.Response:
    needed = {"answer": {"value": True}, "delegate": {"to": ["user:bob"]}}.get(verb, {})
    return http.post(f"/v1/questions/{id}/{verb}", json={**needed, **body})


def question(http: httpx.Client, id: str) -> dict[str, Any]:
    return http.get(f"/v1/questions/{id}").json()


@pytest.mark.parametrize("verb", ["answer", "claim", "delegate"])
@pytest.mark.parametrize(
    ("body", "status", "problem"),
    [
        ({}, 403, "NotAllowed"),
        ({"user_id": "eva"}, 403, "NotAllowed"),
        ({"user_id": "eva", "groups": ["group:finance"]}, 403, "NotAllowed"),
        ({"user_id": "eva", "groups": ["Finance"]}, 403, "NotAllowed"),
        ({"user_id": "group:finance"}, 422, "InvalidValue"),
        ({"user_id": "user:user:ana", "groups": ["finance"]}, 422, "InvalidValue"),
        ({"user_id": "ana ", "groups": ["finance"]}, 422, "InvalidValue"),
        ({"user_id": "an\u200ba", "groups": ["finance"]}, 422, "InvalidValue"),
        ({"user_id": "a" * 257, "groups": ["finance"]}, 422, "InvalidValue"),
        ({"user_id": "ana", "groups": ["finance", "x\u0000"]}, 422, "InvalidValue"),
        ({"user_id": "req", "groups": ["finance"]}, 403, "NotAllowed"),
        ({"user_id": "user:req", "groups": ["finance"]}, 403, "NotAllowed"),
        ({"groups": ["finance"]}, 403, "NotAllowed"),
        ({"user_id": "signoff:timeout", "groups": ["finance"]}, 422, "InvalidValue"),
        ({"user_id": "", "groups": ["finance"]}, 422, "InvalidValue"),
        ({"user_id": "ana", "groups": "finance"}, 422, "InvalidValue"),
        ({"user_id": "ana", "groups": ["finance"], "admin": True}, 422, "InvalidValue"),
    ],
    ids=repr,
)
def test_a_non_assignee_changes_nothing_and_gets_the_reason(
    http: httpx.Client, name: str, verb: str, body: dict[str, Any], status: int, problem: str
) -> None:
    id = open_question(http, name, assignees=["group:finance"], exclude_requester=True)
    before = question(http, id)
    refused = do(http, verb, id, **body)
    assert (refused.status_code, kind(refused)) == (status, problem)
    assert question(http, id) == before


def test_a_question_that_is_claimed_is_answered_by_who_has_claimed_it(http: httpx.Client, name: str) -> None:
    id = open_question(http, name)
    assert do(http, "claim", id, user_id="ana").json()["progress"]["claimed_by"] == "user:ana"
    for verb in ("answer", "claim", "delegate"):
        refused = do(http, verb, id, user_id="bob")
        assert (refused.status_code, kind(refused)) == (409, "QuestionClaimed")
        assert refused.json()["claimed_by"] == "user:ana"
    assert do(http, "release", id, user_id="bob").status_code == 403
    assert do(http, "answer", id, user_id="ana").json()["state"] == "resolved"
    assert ended(http, name)["result"] == {"approved": True, "by": "ana", "votes": 0}
    for verb in DO:
        assert (do(http, verb, id, user_id="ana").status_code, verb) == (409, verb)


def test_votes_are_counted_until_enough_agree(http: httpx.Client, name: str) -> None:
    id = open_question(http, name, quorum=[2, 3])
    first = do(http, "answer", id, user_id="ana", note="fine")
    assert (first.status_code, first.json()["state"], len(first.json()["progress"]["votes"])) == (
        200,
        "pending",
        1,
    )
    changed = do(http, "answer", id, user_id="ana", value=False)
    assert (changed.status_code, kind(changed)) == (409, "AlreadyVoted")
    assert do(http, "answer", id, user_id="bob").json()["state"] == "resolved"
    assert ended(http, name)["result"] == {"approved": True, "by": "bob", "votes": 2}


@pytest.mark.parametrize("to", [[], ["bob"], ["team:x"], ["user:req"], "user:bob", [1]], ids=repr)
def test_a_question_is_delegated_to_a_valid_assignee(http: httpx.Client, name: str, to: Any) -> None:
    id = open_question(http, name, exclude_requester=True)
    before = question(http, id)
    refused = do(http, "delegate", id, user_id="ana", to=to)
    assert (refused.status_code, kind(refused)) == (422, "InvalidValue")
    assert any(field.startswith("to") for field in fields(refused))
    assert question(http, id) == before


def test_an_inbox_lists_what_a_person_may_answer(http: httpx.Client, name: str) -> None:
    mine = open_question(http, f"{name}-1", assignees=[f"user:{name}"])
    ours = open_question(http, f"{name}-2", assignees=[f"group:{name}", f"user:{name}"])
    theirs = open_question(http, f"{name}-3", assignees=["user:somebody"])
    anybodys = open_question(http, f"{name}-4")

    def inbox(*assignees: str) -> set[str]:
        items = http.get("/v1/questions", params={"assignee": list(assignees), "limit": 1000}).json()["items"]
        return {item["id"] for item in items} & {mine, ours, theirs, anybodys}

    assert inbox(f"user:{name}") == {mine, ours, anybodys}
    assert inbox(f"group:{name}") == {ours, anybodys}
    assert inbox("user:nobody") == {anybodys}
    assert inbox("user:nobody", "user:somebody") == {theirs, anybodys}

    def of_run(assignee: str) -> list[str]:
        params = {"assignee": assignee, "run_id": f"{name}-3"}
        return [item["id"] for item in http.get("/v1/questions", params=params).json()["items"]]

    assert (of_run("user:somebody"), of_run(f"user:{name}")) == ([theirs], [])
    many = [f"user:a{n}" for n in range(201)]
    for wrong in ({"assignee": "ana"}, {"assignee": many}, {"assignee": many, "run_id": "r"}):
        assert http.get("/v1/questions", params=wrong).status_code == 422


def test_the_trail_shows_all_events_and_its_hashes_can_be_checked_remotely(
    http: httpx.Client, name: str
) -> None:
    id = open_question(http, name, assignees=["user:ana"])
    do(http, "answer", id, user_id="mallory")
    do(http, "answer", id, user_id="ana", value="banana")
    do(http, "answer", id, user_id="ana", note='<script>"\u202eno\u0007')
    events = http.get("/v1/audit", params={"question_id": id}).json()["items"]
    assert [(event["kind"], event.get("by")) for event in events] == [
        ("asked", None),
        ("refused", "mallory"),
        ("refused", "ana"),
        ("resolved", "ana"),
    ]
    assert [event["details"].get("error") for event in events[1:3]] == ["NotAllowed", "WrongAnswer"]
    assert events[3]["details"]["note"] == '<script>"\u202eno\u0007'
    of_run = http.get("/v1/audit", params={"run_id": name}).json()["items"]
    assert [event["id"] for event in of_run] == [event["id"] for event in events]  # they may be sealed by now

    def sealed() -> list[dict[str, Any]] | None:
        lines = [json.loads(line) for line in http.get("/v1/audit/export").text.splitlines()]
        return lines if sum(line["event"]["question_id"] == id for line in lines) == 4 else None

    hash = GENESIS
    for seq, line in enumerate(until(sealed)):
        hash = hash_of(hash, from_wire(AuditEvent, line["event"]))
        assert (line["seq"], line["hash"]) == (seq, hash)
    page = http.get("/v1/audit/chain", params={"after": 0, "limit": 2}).json()["items"]
    assert [link["seq"] for link in page] == [1, 2]


def test_an_answer_to_a_run_that_is_gone_changes_nothing(http: httpx.Client, name: str) -> None:
    id = open_question(http, name)
    start(http, "echo", f"{name}-other")
    http.post(f"/v1/runs/{name}/cancel", json={})
    ended(http, name)
    assert (do(http, "answer", id, user_id="ana").status_code, question(http, id)["state"]) == (
        409,
        "cancelled",
    )


def test_a_question_is_withdrawn_once_and_its_workflow_notified(http: httpx.Client, name: str) -> None:
    id = open_question(http, name, assignees=["user:ana"])
    done = http.post(
        f"/v1/questions/{id}/cancel", json={"by": "olga", "reason": "a mistake", "request_id": name}
    )
    assert (done.status_code, done.json()["state"], done.json()["note"]) == (200, "cancelled", "a mistake")
    again = http.post(f"/v1/questions/{id}/cancel", json={"by": "olga", "request_id": name})
    assert (again.status_code, again.json()) == (200, done.json())
    late = http.post(f"/v1/questions/{id}/cancel")
    assert (late.status_code, kind(late), late.json()["settled_by"]) == (409, "AlreadySettled", "olga")
    assert ended(http, name)["error"]["type"] == "signoff.errors:QuestionCancelled"
    assert http.post("/v1/questions/none/cancel").status_code == 404
    assert http.post(f"/v1/questions/{id}/cancel", json={"by": ""}).status_code == 422


def test_an_operator_has_others_answer(http: httpx.Client, name: str) -> None:
    id = open_question(http, name, assignees=["user:ana"])
    wrong = http.post(f"/v1/questions/{id}/reassign", json={"to": []})
    assert (wrong.status_code, kind(wrong)) == (422, "InvalidValue")
    done = http.post(f"/v1/questions/{id}/reassign", json={"to": ["user:bob"], "by": "olga", "reason": "ill"})
    assert (done.status_code, done.json()["assignees"]) == (200, ["user:bob"])
    assert kind(do(http, "answer", id, user_id="ana")) == "NotAllowed"
    assert do(http, "answer", id, user_id="bob").json()["state"] == "resolved"
    late = http.post(f"/v1/questions/{id}/reassign", json={"to": ["user:eva"]})
    assert (late.status_code, kind(late)) == (409, "AlreadySettled")


def test_an_operator_moves_a_deadline(http: httpx.Client, name: str) -> None:
    id = open_question(http, name, timeout_seconds=3600)
    before = question(http, id)["due_at"]
    moved = http.post(f"/v1/questions/{id}/deadline", json={"timeout_seconds": 7200, "by": "olga"})
    assert (moved.status_code, moved.json()["due_at"] > before + 3500) == (200, True)
    wrong = http.post(f"/v1/questions/{id}/deadline", json={"timeout_seconds": -1})
    assert (wrong.status_code, kind(wrong)) == (422, "InvalidValue")
    soon = http.post(f"/v1/questions/{id}/deadline", json={"timeout_seconds": 0.01})
    assert soon.status_code == 200
    assert ended(http, name)["error"]["type"] == "signoff.errors:SignalTimeout"
