"""Texts that no store keeps, in every part of a request: refused or not found, on either store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from signoff import Signoff
from signoff.server import Server
from signoff.stores.postgres.store import PostgresStore
from tests.halves import sample
from tests.postgres.databases import migrated_database
from tests.server import workflows
from tests.server.conftest import app_in, serving
from tests.server.described import bodies, description, operations
from tests.support import OnThread

LAPTOP = description()
READS = sorted(path for method, path, _ in operations(LAPTOP) if method == "GET")
WRITES = [
    (path, body)
    for method, path, operation in operations(LAPTOP)
    if method == "POST" and "requestBody" in operation
    for _, body in bodies(LAPTOP, operation)
]
IDS = [
    "%00",
    "a%00b",
    "%ED%A0%80",
    "%FF",
    "%2E%2E",
    "%2F",
    "%0A",
    "%E2%80%AE",
    "%25",
    "x" * 10_000,
    "a%",
    "+",
]
TEXTS = ["\0", "a\0b", "", " ", "\n", "\u202e", "x" * 10_000, "9" * 5_000, "-1", "1e9", "null", "%", "NaN"]

NUMBERS = ["1e400", "-1e400", "9" * 400, "9" * 4_000, "9" * 5_000, "1.5", "NaN", "-Infinity", "-0", "true"]
OPTIONAL_NUMBERS = ("timeout_seconds", "delay_seconds", "start_at", "priority", "concurrency_limit", "limit")


@pytest.fixture(scope="module", params=sample(["postgres", "sqlite"]))
def http(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with ExitStack() as stack:
        if request.param == "sqlite":
            app = app_in(tmp_path_factory.mktemp("odd"))
        else:
            app = Signoff(PostgresStore(stack.enter_context(migrated_database())))
            workflows.register(app)
        server = stack.enter_context(OnThread(lambda: serving(app)))
        yield stack.enter_context(client_of(server))


def client_of(server: Server) -> httpx.Client:
    return httpx.Client(base_url=server.url, trust_env=False, verify=False, timeout=60)


def check(response: httpx.Response) -> None:
    assert response.status_code < 500, f"{response.request.content[:300]!r}: {response.text}"
    if response.status_code >= 400:
        assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("id", sample(IDS, every=4))
def test_an_odd_id_in_a_path_is_not_found_or_refused(http: httpx.Client, id: str) -> None:
    for method, path, operation in operations(LAPTOP):
        if "{" in path:
            *_, name = path[: path.index("}")].partition("{")
            url = path.replace(f"{{{name}}}", id)
            [body] = [body for _, body in bodies(LAPTOP, operation)] if "requestBody" in operation else [None]
            response = http.request(method, url, json=body)
            check(response)
            assert response.status_code >= 400 or "groups" in path, response.text


@pytest.mark.parametrize("text", sample(TEXTS, every=4))
def test_an_odd_text_in_a_query_is_refused_or_finds_nothing(http: httpx.Client, text: str) -> None:
    for method, path, operation in operations(LAPTOP):
        for parameter in operation.get("parameters", ()):
            if method == "GET" and parameter["in"] == "query" and not path.endswith("/events"):
                check(http.get(path.replace("{run_id}", "none"), params={parameter["name"]: text}))


@pytest.mark.parametrize(("path", "body"), WRITES, ids=[path for path, _ in WRITES])
def test_an_odd_text_in_a_body_is_refused_or_kept(
    http: httpx.Client, path: str, body: dict[str, Any]
) -> None:
    path = path.replace("{", "").replace("}", "")
    for field, value in body.items():
        for text in TEXTS if isinstance(value, str | list) else ():
            check(http.post(path, json={**body, field: [text] if isinstance(value, list) else text}))


@pytest.mark.parametrize(("path", "body"), WRITES, ids=[path for path, _ in WRITES])
def test_an_odd_number_in_a_body_is_refused_or_kept(
    http: httpx.Client, path: str, body: dict[str, Any]
) -> None:
    path = path.replace("{", "").replace("}", "")
    headers = {"content-type": "application/json"}
    for field in {**body, **dict.fromkeys(OPTIONAL_NUMBERS)}:
        known = field in body or is_known(http, path, body, field)
        for number in NUMBERS if known else ():
            content = json.dumps({**body, field: "@"}).replace('"@"', number)
            check(http.post(path, content=content, headers=headers))


def is_known(http: httpx.Client, path: str, body: dict[str, Any], field: str) -> bool:
    """Whether a body may have a field. One that it may not have is refused, whatever its value."""
    response = http.post(path, json={**body, field: 1})
    check(response)
    return "Extra inputs are not permitted" not in response.text
