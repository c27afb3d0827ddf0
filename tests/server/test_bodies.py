"""Request bodies: strict JSON of a limited size."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from signoff.codec import MAX_BYTES
from signoff.server import create_server_app
from signoff.server.http.request_bodies import LIMIT, ExactRoute
from signoff.testing import MemoryStore
from tests.server.conftest import ended, fields, kind, start


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/runs", {}, "workflow"),
        ("/v1/runs", {"workflow": ""}, "workflow"),
        ("/v1/runs", {"workflow": 1}, "workflow"),
        ("/v1/runs", {"workflow": "echo", "args": {}}, "args"),
        ("/v1/runs", {"workflow": "echo", "kwargs": []}, "kwargs"),
        ("/v1/runs", {"workflow": "echo", "id": 7}, "id"),
        ("/v1/runs", {"workflow": "echo", "group": 7}, "group"),
        ("/v1/runs", {"workflow": "echo", "timeout_seconds": "5"}, "timeout_seconds"),
        ("/v1/runs", {"workflow": "echo", "timeout_seconds": True}, "timeout_seconds"),
        ("/v1/runs", {"workflow": "echo", "wait": True}, "wait"),
        ("/v1/runs/x/cancel", {"reason": 1}, "reason"),
        ("/v1/runs/x/cancel", {"force": True}, "force"),
        ("/v1/runs/x/signals", {}, "name"),
        ("/v1/runs/x/signals", {"name": ""}, "name"),
        ("/v1/runs/x/signals", {"name": "n", "request_id": 1}, "request_id"),
        ("/v1/runs/x/signals", {"name": "n", "values": 1}, "values"),
        ("/v1/questions/x/answer", {}, "value"),
        ("/v1/questions/x/answer", {"value": True, "user_id": 1}, "user_id"),
        ("/v1/questions/x/answer", {"value": True, "digest": 1}, "digest"),
        ("/v1/questions/x/answer", {"value": True, "approved": True}, "approved"),
        ("/v1/promises", {}, "id"),
        ("/v1/promises", {"id": "x", "kind": "question"}, "kind"),
        ("/v1/promises", {"id": "x", "timeout_seconds": "soon"}, "timeout_seconds"),
        ("/v1/promises/x/resolve", {"state": "rejected"}, "state"),
        ("/v1/promises/x/reject", {"by": 1}, "by"),
        ("/v1/promises/x/cancel", {"value": 1}, "value"),
    ],
)
def test_a_wrong_or_unknown_field_is_refused_by_name(
    http: httpx.Client, path: str, body: dict[str, Any], field: str
) -> None:
    refused = http.post(path, json=body)
    assert refused.status_code == 422
    assert kind(refused) == "InvalidValue"
    assert list(fields(refused)) == [field]


@pytest.mark.parametrize("body", [b"", b"{", b"null", b"[]", b'"x"', b"\xff", b'{"workflow": "\\ud800"}'])
def test_what_is_no_json_object_is_refused(http: httpx.Client, body: bytes) -> None:
    refused = http.post("/v1/runs", content=body, headers={"content-type": "application/json"})
    assert refused.status_code in (400, 422)
    assert refused.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999", '"\\ud800"', "[" * 5000 + "]" * 5000])
def test_a_value_that_cannot_be_stored_is_refused(http: httpx.Client, name: str, value: str) -> None:
    start(http, "listen", name)
    refused = http.post(
        f"/v1/runs/{name}/signals",
        content=f'{{"name": "news", "value": {value}}}',
        headers={"content-type": "application/json"},
    )
    assert refused.status_code in (400, 422), refused.text
    assert refused.headers["content-type"] == "application/problem+json"
    entries = http.get(f"/v1/runs/{name}/journal").json()["items"]
    assert "signalled" not in {entry["kind"] for entry in entries}


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/runs/x/cancel", "reason"),
        ("/v1/runs/x/signals", "name"),
        ("/v1/runs/x/signals", "request_id"),
        ("/v1/questions/x/answer", "user_id"),
        ("/v1/questions/x/answer", "note"),
        ("/v1/questions/x/answer", "digest"),
        ("/v1/promises/x/resolve", "by"),
        ("/v1/promises", "id"),
        ("/v1/runs", "workflow"),
        ("/v1/runs", "group"),
    ],
)
def test_text_that_is_no_unicode_is_refused(http: httpx.Client, path: str, field: str) -> None:
    needed = {"signals": '"name": "n"', "answer": '"value": 1', "runs": '"workflow": "w"'}
    rest = needed.get(path.rpartition("/")[2], '"data": 1' if path == "/v1/promises" else "")
    rest = "" if f'"{field}"' in rest else rest
    body = ", ".join(part for part in (rest, f'"{field}": "\\ud800"') if part)
    refused = http.post(path, content=f"{{{body}}}", headers={"content-type": "application/json"})
    assert refused.status_code == 422
    assert list(fields(refused)) == [field]


@pytest.mark.parametrize("seconds", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("path", ["/v1/runs", "/v1/promises"])
def test_a_timeout_is_a_number(http: httpx.Client, name: str, path: str, seconds: str) -> None:
    body = f'{{"id": "{name}", "timeout_seconds": {seconds}'
    body += ', "workflow": "echo"}' if path == "/v1/runs" else "}"
    refused = http.post(path, content=body, headers={"content-type": "application/json"})
    assert refused.status_code == 422
    assert list(fields(refused)) == ["timeout_seconds"]


def test_numbers_pass_unchanged(http: httpx.Client, name: str) -> None:
    numbers = [0.1, 1e16, -0.0, 10**40, 2**53 + 1, 1e-300]
    start(http, "echo", name, numbers)
    assert ended(http, name)["result"] == numbers


def test_a_body_under_the_limit_passes_and_its_value_is_measured(http: httpx.Client, name: str) -> None:
    largest = "x" * (MAX_BYTES - 2)
    http.post("/v1/promises", json={"id": name})
    over = http.post(f"/v1/promises/{name}/resolve", json={"value": largest + "x"})
    assert over.status_code == 413
    assert kind(over) == "PayloadTooLarge"
    assert (over.json()["path"], over.json()["size"]) == ("value", MAX_BYTES + 1)
    fits = http.post(f"/v1/promises/{name}/resolve", json={"value": largest})
    assert fits.status_code == 200
    assert fits.json()["value"] == largest


@pytest.mark.parametrize("path", ["/v1/runs", "/v1/runs/x/retry", "/v1/nothing"])
def test_a_body_over_the_limit_is_refused_by_its_declared_length(http: httpx.Client, path: str) -> None:
    refused = http.post(path, content=b" " * (LIMIT + 1), headers={"content-type": "application/json"})
    assert refused.status_code == 413
    assert kind(refused) == "PayloadTooLarge"
    assert (refused.json()["path"], refused.json()["limit"]) == ("body", LIMIT)


def test_a_body_over_the_limit_is_refused_without_a_declared_length(http: httpx.Client) -> None:
    parts = [b" " * (64 * 1024)] * (3 * LIMIT // (64 * 1024))
    refused = http.post("/v1/runs", content=iter(parts), headers={"content-type": "application/json"})
    assert refused.status_code == 413
    assert kind(refused) == "PayloadTooLarge"
    assert refused.json()["size"] < 2 * LIMIT, "it was read to its end"


def test_a_chunked_body_under_the_limit_passes(http: httpx.Client, name: str) -> None:
    parts = [b'{"workflow": "echo", ', f'"id": "{name}"}}'.encode()]
    created = http.post("/v1/runs", content=iter(parts), headers={"content-type": "application/json"})
    assert created.status_code == 201


def test_each_route_with_a_body_refuses_a_key_that_is_there_twice() -> None:
    app = create_server_app(MemoryStore())
    routes = [each for each in app.routes if isinstance(each, APIRoute) and each.body_field is not None]
    assert [each.path for each in routes if not isinstance(each, ExactRoute)] == []
    assert len(routes) > 25


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/runs", '{"workflow": "echo", "workflow": "pay"}'),
        ("/v1/runs", '{"workflow": "echo", "args": [{"cents": 1, "cents": 700000}]}'),
        ("/v1/runs/x/signals", '{"name": "paid", "value": {"ok": false, "ok": true}}'),
        ("/v1/promises", '{"id": "p", "id": "q"}'),
        ("/v1/promises/x/resolve", '{"value": false, "value": true}'),
        ("/v1/schedules", '{"id": "s", "workflow": "echo", "cron": "0 0 1 1 *", "id": "t"}'),
        ("/v1/prune", '{"older_than_seconds": 86400, "older_than_seconds": 0}'),
    ],
)
def test_a_key_that_is_there_twice_is_refused(http: httpx.Client, path: str, body: str) -> None:
    refused = http.post(path, content=body, headers={"content-type": "application/json"})
    assert refused.status_code == 422
    assert "duplicate key" in refused.text
