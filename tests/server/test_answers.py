"""Answers over HTTP: wrong, late, duplicate and unbound ones change nothing and get a reason."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.server.conftest import asked, ended, fields, kind, start

pytestmark = pytest.mark.usefixtures("open_trail")

APPROVE = {"approved": True}


def answer(http: httpx.Client, question: str, value: Any, **more: Any) -> httpx.Response:
    return http.post(f"/v1/questions/{question}/answer", json={"value": value, **more})


def question(http: httpx.Client, id: str) -> dict[str, Any]:
    return http.get(f"/v1/questions/{id}").json()


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ("banana", "approved"),
        ("true", "approved"),
        ("yes", "approved"),
        (None, "approved"),
        (1, "approved"),
        (0, "approved"),
        ([], "approved"),
        ([True], "approved"),
        ({}, "approved"),
        ({"approved": "banana"}, "approved"),
        ({"approved": "true"}, "approved"),
        ({"approved": None}, "approved"),
        ({"approved": 1}, "approved"),
        ({"approved": []}, "approved"),
        ({"Approved": True}, "approved"),
        ({"approved": True, "amount": 3}, "amount"),
    ],
    ids=repr,
)
def test_a_wrong_approval_is_refused_and_the_question_stays_open(
    http: httpx.Client, name: str, value: Any, field: str
) -> None:
    start(http, "ask", name)
    id = asked(http, name)
    before = question(http, id)
    refused = answer(http, id, value)
    assert refused.status_code == 422
    assert kind(refused) == "WrongAnswer"
    assert field in fields(refused)
    assert refused.json()["question_id"] == id
    assert question(http, id) == before
    assert before["state"] == "pending"

    assert answer(http, id, False).status_code == 200
    assert ended(http, name)["result"]["approved"] is False


@pytest.mark.parametrize(
    ("workflow", "value", "wrong"),
    [
        ("choose", "green", [""]),
        ("choose", None, [""]),
        ("choose", ["red"], [""]),
        ("refund", {}, ["amount", "reason"]),
        ("refund", {"amount": 1}, ["reason"]),
        ("refund", {"amount": "1", "reason": "x"}, ["amount"]),
        ("refund", {"amount": 1.5, "reason": None}, ["amount", "reason"]),
        ("refund", None, [""]),
    ],
    ids=repr,
)
def test_each_wrong_field_of_an_answer_is_named(
    http: httpx.Client, name: str, workflow: str, value: Any, wrong: list[str]
) -> None:
    start(http, workflow, name)
    id = asked(http, name)
    refused = answer(http, id, value)
    assert refused.status_code == 422
    assert sorted(fields(refused)) == wrong
    assert question(http, id)["state"] == "pending"


@pytest.mark.parametrize("value", [True, {"approved": True}], ids=repr)
def test_an_approval_is_a_bare_decision_or_an_object(http: httpx.Client, name: str, value: Any) -> None:
    start(http, "ask", name)
    settled = answer(http, asked(http, name), value, user_id="ana", note="fine")
    assert settled.status_code == 200
    assert settled.json()["value"] == {"approved": True}
    assert ended(http, name)["result"] == {"approved": True, "by": "ana", "note": "fine"}


def test_a_skippable_question_is_skipped_by_an_explicit_null_only(http: httpx.Client, name: str) -> None:
    start(http, "skip", name)
    id = asked(http, name)
    missing = http.post(f"/v1/questions/{id}/answer", json={})
    assert missing.status_code == 422
    assert list(fields(missing)) == ["value"]
    assert answer(http, id, "null").status_code == 422
    assert answer(http, id, None).status_code == 200
    assert ended(http, name)["result"] is True


def test_an_answer_is_bound_to_what_was_seen(http: httpx.Client, name: str) -> None:
    start(http, "ask", name)
    id = asked(http, name)
    seen = question(http, id)["data"]["digest"]
    other = answer(http, id, True, digest="0" * 64)
    assert other.status_code == 422
    assert list(fields(other)) == ["digest"]
    assert question(http, id)["state"] == "pending"
    assert answer(http, id, True, digest=seen).status_code == 200


@pytest.mark.parametrize("second", [True, False, "banana"], ids=repr)
def test_a_second_answer_gets_the_winners_name(http: httpx.Client, name: str, second: Any) -> None:
    start(http, "ask", name)
    id = asked(http, name)
    assert answer(http, id, True, user_id="ana").status_code == 200
    settled = question(http, id)
    late = answer(http, id, second, user_id="bob")
    assert late.status_code == 409
    assert kind(late) == "AlreadySettled"
    assert late.json()["promise_id"] == id
    assert late.json()["settled_by"] == "ana"
    assert late.json()["state"] == "resolved"
    assert question(http, id) == settled


def test_a_repeated_request_is_a_success_without_effect(http: httpx.Client, name: str) -> None:
    start(http, "ask", name)
    id = asked(http, name)
    first = answer(http, id, True, user_id="ana", request_id="r-1")
    assert answer(http, id, True, user_id="bob", request_id="r-1").json() == first.json()
    assert answer(http, id, APPROVE, request_id="r-1").json() == first.json()


@pytest.mark.parametrize("other", [False, "banana"], ids=repr)
def test_a_repeated_request_with_another_value_is_a_conflict(
    http: httpx.Client, name: str, other: Any
) -> None:
    start(http, "ask", name)
    id = asked(http, name)
    assert answer(http, id, True, request_id="r-1").status_code == 200
    conflict = answer(http, id, other, request_id="r-1")
    assert conflict.status_code == 409
    assert kind(conflict) == "RequestConflict"
    assert (conflict.json()["request_id"], conflict.json()["target"]) == ("r-1", id)
    assert question(http, id)["value"] == APPROVE


@pytest.mark.parametrize("verb", ["answer", "cancel"])
def test_a_request_id_over_256_characters_is_refused_and_not_stored(
    http: httpx.Client, name: str, verb: str
) -> None:
    start(http, "ask", name)
    id = asked(http, name)
    said = {"value": "banana"} if verb == "answer" else {}
    refused = http.post(f"/v1/questions/{id}/{verb}", json={**said, "request_id": "x" * 257})
    assert (refused.status_code, kind(refused)) == (422, "InvalidValue")
    assert "256" in refused.text
    assert len(refused.content) < 2_000
    trail = http.get("/v1/audit", params={"question_id": id}).json()["items"]
    assert [event["kind"] for event in trail] == ["asked"]
    said = {"value": True} if verb == "answer" else {}
    assert http.post(f"/v1/questions/{id}/{verb}", json={**said, "request_id": "x" * 256}).status_code == 200


def test_of_several_answers_none_has_a_longer_request_id(http: httpx.Client) -> None:
    given = {"question_id": "q", "value": True, "request_id": "x" * 257}
    refused = http.post("/v1/questions/answers", json={"answers": [given]})
    assert (refused.status_code, kind(refused)) == (422, "InvalidValue")


def test_a_promise_and_a_signal_have_no_longer_request_id_either(http: httpx.Client, name: str) -> None:
    start(http, "listen", name)
    http.post("/v1/promises", json={"id": f"p-{name}"})
    long = {"request_id": "x" * 257}
    for path, said in (
        (f"promises/p-{name}/resolve", {"value": 1}),
        (f"promises/p-{name}/reject", {"value": 1}),
        (f"promises/p-{name}/cancel", {}),
        (f"runs/{name}/signals", {"name": "news"}),
    ):
        refused = http.post(f"/v1/{path}", json={**said, **long})
        assert (refused.status_code, kind(refused)) == (422, "InvalidValue"), path


def test_an_unknown_question_is_not_found(http: httpx.Client, name: str) -> None:
    for response in (answer(http, name, True), http.get(f"/v1/questions/{name}")):
        assert response.status_code == 404
        assert kind(response) == "NotFound"
        assert (response.json()["noun"], response.json()["id"]) == ("question", name)


def test_a_promise_is_no_question(http: httpx.Client, name: str) -> None:
    http.post("/v1/promises", json={"id": name})
    assert answer(http, name, True).status_code == 404
    assert http.get(f"/v1/questions/{name}").status_code == 404
    assert http.get(f"/v1/promises/{name}").json()["state"] == "pending"


def test_a_question_of_a_cancelled_run_is_closed(http: httpx.Client, name: str) -> None:
    start(http, "ask", name)
    id = asked(http, name)
    http.post(f"/v1/runs/{name}/cancel")
    ended(http, name)
    late = answer(http, id, True)
    assert late.status_code == 409
    assert (kind(late), late.json()["state"]) == ("AlreadySettled", "cancelled")


def test_a_question_that_timed_out_is_closed(http: httpx.Client, name: str) -> None:
    start(http, "ask", name, kwargs={"timeout_seconds": 0.01})
    assert ended(http, name)["result"] == {"timed_out": True}
    late = answer(http, f"{name}.1", True)
    assert late.status_code == 409
    assert (kind(late), late.json()["state"]) == ("AlreadySettled", "timed_out")


@pytest.mark.parametrize("verb", ["resolve", "reject", "cancel"])
def test_no_route_of_promises_settles_a_question(http: httpx.Client, name: str, verb: str) -> None:
    start(http, "ask", name)
    id = asked(http, name)
    body = {"by": "mallory"} if verb == "cancel" else {"by": "mallory", "value": APPROVE}
    refused = http.post(f"/v1/promises/{id}/{verb}", json=body)
    assert refused.status_code == 404
    assert kind(refused) == "NotFound"
    assert question(http, id)["state"] == "pending"
    assert answer(http, id, False).status_code == 200


def test_open_questions_are_listed_oldest_first_page_by_page(http: httpx.Client, name: str) -> None:
    for index in range(3):
        start(http, "ask", f"{name}-{index}", f"Question {index}?")
        asked(http, f"{name}-{index}")
    assert answer(http, f"{name}-1.1", True).status_code == 200

    listed: list[dict[str, Any]] = []
    after = None
    while True:
        query = {"limit": 2, **({"after": after} if after else {})}
        page = http.get("/v1/questions", params=query).json()
        listed += page["items"]
        after = page["next"]
        if after is None:
            break
    mine = [item for item in listed if item["run_id"].startswith(name)]
    assert [item["id"] for item in mine] == [f"{name}-0.1", f"{name}-2.1"]
    assert [item["data"]["text"] for item in mine] == ["Question 0?", "Question 2?"]
    assert all(item["state"] == "pending" for item in listed)


def test_questions_are_listed_by_run(http: httpx.Client, name: str) -> None:
    start(http, "ask", name)
    id = asked(http, name)
    items = http.get("/v1/questions", params={"run_id": name}).json()["items"]
    assert [item["id"] for item in items] == [id]
    assert items[0]["data"]["answer_schema"]["required"] == ["approved"]
