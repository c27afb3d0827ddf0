"""A request that is sent twice with one ``Idempotency-Key`` is done once."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from signoff.server import Server
from signoff.server.http.idempotency_key import LONGEST_KEY
from tests.server.conftest import app_in, asked, ended, events, fields, kind, serving, start
from tests.server.proxied import PROXY, through
from tests.support import OnThread


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    app = app_in(tmp_path_factory.mktemp("idempotency"))
    with OnThread(lambda: serving(app, proxy=PROXY)) as served:
        yield served


def under(key: str) -> dict[str, str]:
    return {"idempotency-key": f'"{key}"'}


def test_a_run_is_started_once_for_a_key(http: httpx.Client, name: str) -> None:
    body = {"workflow": "echo", "args": [name]}
    first = http.post("/v1/runs", json=body, headers=under(name))
    again = http.post("/v1/runs", json=body, headers={"idempotency-key": name})  # also without quotes
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    assert ended(http, first.json()["id"])["result"] == name
    other = http.post("/v1/runs", json=body, headers=under(f"{name}-2"))
    assert (other.status_code, other.json()["id"] != first.json()["id"]) == (201, True)


def test_a_key_for_another_run_is_a_conflict(http: httpx.Client, name: str) -> None:
    assert http.post("/v1/runs", json={"workflow": "echo"}, headers=under(name)).status_code == 201
    for other in ({"workflow": "echo", "args": [2]}, {"workflow": "ask"}):
        refused = http.post("/v1/runs", json=other, headers=under(name))
        assert (refused.status_code, kind(refused)) == (409, "IdConflict")


def test_an_id_goes_before_a_key(http: httpx.Client, name: str) -> None:
    for id in (name, f"{name}-2"):
        started = http.post("/v1/runs", json={"workflow": "echo", "id": id}, headers=under(name))
        assert (started.status_code, started.json()["id"]) == (201, id)


def test_two_people_with_one_key_start_two_runs(proxied: Server, name: str) -> None:
    found: list[str] = []
    for user in ("ana", "bob"):
        with through(proxied, user, roles="operator") as http:
            started = http.post("/v1/runs", json={"workflow": "echo"}, headers=under(name))
            assert (started.status_code, started.json()["started_by"]) == (201, user)
            found.append(started.json()["id"])
    assert len(set(found)) == 2


def test_an_answer_is_given_once_for_a_key(http: httpx.Client, name: str) -> None:
    start(http, "ask", name)
    path = f"/v1/questions/{asked(http, name)}/answer"
    first = http.post(path, json={"value": True, "user_id": "ana"}, headers=under("one"))
    assert (first.status_code, first.json()["request_id"]) == (200, "one")
    assert http.post(path, json={"value": True, "user_id": "ana"}, headers=under("one")).status_code == 200
    other = http.post(path, json={"value": False, "user_id": "ana"}, headers=under("one"))
    assert (other.status_code, kind(other)) == (409, "RequestConflict")
    late = http.post(path, json={"value": True, "user_id": "ana"}, headers=under("two"))
    assert (late.status_code, kind(late)) == (409, "AlreadySettled")


def test_a_signal_is_sent_once_for_a_key(http: httpx.Client, name: str) -> None:
    start(http, "listen", name)
    path = f"/v1/runs/{name}/signals"
    sent = [
        http.post(path, json={"name": "other", "value": 1}, headers=under("one")).json() for _ in range(2)
    ]
    assert sent == [{"sent": True}, {"sent": False}]
    refused = http.post(path, json={"name": "other", "value": 2}, headers=under("one"))
    assert (refused.status_code, kind(refused)) == (409, "RequestConflict")


@pytest.mark.parametrize("verb", ["resolve", "reject", "cancel"])
def test_a_promise_is_settled_once_for_a_key(http: httpx.Client, name: str, verb: str) -> None:
    assert http.post("/v1/promises", json={"id": name}).status_code == 201
    path = f"/v1/promises/{name}/{verb}"
    for _ in range(2):
        assert http.post(path, json={}, headers=under("one")).status_code == 200
    refused = http.post(path, json={}, headers=under("two"))
    assert (refused.status_code, kind(refused)) == (409, "AlreadySettled")


def test_a_run_is_retried_once_for_a_key(http: httpx.Client, name: str) -> None:
    start(http, "forget", name)
    ended(http, name)
    for _ in range(2):
        assert http.post(f"/v1/runs/{name}/retry", headers=under("one")).status_code == 200
    retried = [entry for _, entry in events(http, name) if entry.get("kind") == "retried"]
    assert len(retried) == 1


def test_a_key_and_a_request_id_that_differ_are_refused(http: httpx.Client, name: str) -> None:
    body = {"name": "news", "request_id": "one"}
    refused = http.post(f"/v1/runs/{name}/signals", json=body, headers=under("two"))
    assert (refused.status_code, list(fields(refused))) == (422, ["request_id"])
    start(http, "listen", name)
    sent = http.post(f"/v1/runs/{name}/signals", json=body, headers=under("one"))
    assert sent.json() == {"sent": True}


@pytest.mark.parametrize(
    "keys",
    [[""], ['""'], ['"a'], ['a"b'], ["a b"], ["a\\b"], ["k" * (LONGEST_KEY + 1)], ["a", "a"], ["caf\xe9"]],
)
def test_a_key_that_is_none_is_refused(http: httpx.Client, keys: list[str]) -> None:
    headers = [("idempotency-key", key.encode("latin-1")) for key in keys]
    headers = [(name.encode(), key) for name, key in headers]  # as they are
    refused = http.post("/v1/runs", json={"workflow": "echo"}, headers=headers)
    assert (refused.status_code, list(fields(refused))) == (422, ["Idempotency-Key"])
