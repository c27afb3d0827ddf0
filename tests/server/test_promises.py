"""Routes of promises."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.server.conftest import asked, ended, fields, kind, start


def test_a_promise_is_created_once(http: httpx.Client, name: str) -> None:
    created = http.post("/v1/promises", json={"id": name, "data": {"why": None}})
    assert created.status_code == 201
    assert created.json()["data"] == {"why": None}
    assert created.json()["state"] == "pending"
    again = http.post("/v1/promises", json={"id": name})
    assert again.status_code == 200
    assert again.json() == created.json() == http.get(f"/v1/promises/{name}").json()


def test_data_of_null_is_kept_apart_from_none(http: httpx.Client, name: str) -> None:
    assert http.post("/v1/promises", json={"id": name, "data": None}).json()["data"] is None
    assert "data" not in http.post("/v1/promises", json={"id": f"{name}-2"}).json()


def test_a_promise_times_out(http: httpx.Client, name: str) -> None:
    http.post("/v1/promises", json={"id": name, "timeout_seconds": 0.01})
    start(http, "promised", f"{name}-run", name)
    assert ended(http, f"{name}-run")["error"]["type"].endswith(":PromiseTimeout")
    assert http.get(f"/v1/promises/{name}").json()["state"] == "timed_out"


def test_an_id_of_a_question_is_no_id_for_a_promise(http: httpx.Client, name: str) -> None:
    start(http, "ask", name)
    conflict = http.post("/v1/promises", json={"id": asked(http, name)})
    assert conflict.status_code == 409
    assert kind(conflict) == "IdConflict"


@pytest.mark.parametrize(
    ("verb", "value", "result"),
    [("resolve", {"x": [1]}, {"x": [1]}), ("resolve", None, None), ("reject", "no", {"rejected": "no"})],
)
def test_settling_a_promise_ends_the_run_that_waits_for_it(
    http: httpx.Client, name: str, verb: str, value: Any, result: Any
) -> None:
    start(http, "promised", name)
    id = asked(http, name)
    settled = http.post(f"/v1/promises/{id}/{verb}", json={"value": value, "by": "ana"})
    assert settled.status_code == 200
    assert settled.json()["value"] == value
    assert settled.json()["settled_by"] == "ana"
    assert ended(http, name)["result"] == result


def test_a_promise_is_withdrawn_without_a_word(http: httpx.Client, name: str) -> None:
    start(http, "promised", name)
    assert http.post(f"/v1/promises/{asked(http, name)}/cancel").json()["state"] == "cancelled"
    assert ended(http, name)["result"] == "cancelled"


def test_a_promise_is_settled_once(http: httpx.Client, name: str) -> None:
    http.post("/v1/promises", json={"id": name})
    settle = {"value": 1, "by": "ana", "request_id": "r"}
    first = http.post(f"/v1/promises/{name}/resolve", json=settle)
    assert http.post(f"/v1/promises/{name}/resolve", json=settle).json() == first.json()
    conflict = http.post(f"/v1/promises/{name}/resolve", json={**settle, "value": 2})
    assert (conflict.status_code, kind(conflict)) == (409, "RequestConflict")
    late = http.post(f"/v1/promises/{name}/reject", json={"value": 1})
    assert (late.status_code, kind(late), late.json()["settled_by"]) == (409, "AlreadySettled", "ana")
    assert http.get(f"/v1/promises/{name}").json() == first.json()


def test_an_unknown_promise_is_not_found(http: httpx.Client, name: str) -> None:
    for response in (
        http.get(f"/v1/promises/{name}"),
        http.post(f"/v1/promises/{name}/resolve", json={}),
        http.post(f"/v1/promises/{name}/reject", json={}),
        http.post(f"/v1/promises/{name}/cancel"),
    ):
        assert response.status_code == 404
        assert (kind(response), response.json()["id"]) == ("NotFound", name)


def test_promises_are_listed_by_kind_state_and_run(http: httpx.Client, name: str) -> None:
    start(http, "promised", name)
    id = asked(http, name)

    def listed(**query: str) -> list[str]:
        return [item["id"] for item in http.get("/v1/promises", params=query).json()["items"]]

    assert listed(run_id=name) == [id]
    assert listed(run_id=name, kind="question") == []
    assert listed(run_id=name, state="resolved") == []
    http.post(f"/v1/promises/{id}/resolve", json={"value": 1})
    assert listed(run_id=name, state="resolved", kind="promise") == [id]


@pytest.mark.parametrize("id", ["", " x", "a\tb", "x" * 257])
def test_an_id_that_cannot_be_one_is_refused(http: httpx.Client, id: str) -> None:
    refused = http.post("/v1/promises", json={"id": id})
    assert refused.status_code == 422
    assert list(fields(refused)) == ["id"]


def test_a_value_that_is_not_what_a_promise_returns_is_refused(http: httpx.Client, name: str) -> None:
    made = http.post("/v1/promises", json={"id": name, "returns": {"type": "boolean"}})
    assert made.json()["data"] == {"$returns": {"type": "boolean"}}
    refused = http.post(f"/v1/promises/{name}/resolve", json={"value": "false"})
    assert refused.status_code == 422
    assert kind(refused) == "InvalidValue"
    assert "does not return this" in refused.text
    assert http.get(f"/v1/promises/{name}").json()["state"] == "pending"
    assert http.post(f"/v1/promises/{name}/resolve", json={"value": False}).json()["value"] is False


def test_a_promise_with_a_wrong_schema_is_not_created(http: httpx.Client, name: str) -> None:
    wrong = http.post("/v1/promises", json={"id": name, "returns": {"type": "bool"}})
    assert wrong.status_code == 422
    assert http.get(f"/v1/promises/{name}").status_code == 404
