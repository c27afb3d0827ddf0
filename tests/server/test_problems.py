"""Errors as problems, and back: the same class, attributes and message."""

from __future__ import annotations

import logging
import queue
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import QueueHandler
from pathlib import Path

import httpx
import pytest
from pydantic_core import from_json

from signoff.errors import (
    AccessDenied,
    AlreadySettled,
    IdConflict,
    InvalidState,
    InvalidValue,
    NotAuthenticated,
    NotFound,
    NotSerializable,
    PayloadTooLarge,
    RequestConflict,
    SchemaTooNew,
    SignoffError,
    StoreDamaged,
    StoreFull,
    StoreMoved,
    StoreReadOnly,
    StoreUnavailable,
    WrongAnswer,
)
from signoff.server.http.problems import problem
from signoff.wire.records import from_problem
from tests.server.conftest import app_in, fields, kind, serving
from tests.support import OnThread

ERRORS: list[tuple[SignoffError, int]] = [
    (NotAuthenticated("the proxy names no user"), 401),
    (AccessDenied("GET /v1/runs", "'ana' needs a role with access"), 403),
    (NotFound("run", "r"), 404),
    (IdConflict("r", "it is another"), 409),
    (AlreadySettled("p", "resolved", "ana", 1700000000.25), 409),
    (AlreadySettled("p", "timed_out", None, None), 409),
    (RequestConflict("q", "p"), 409),
    (InvalidState("r", "succeeded", "retry"), 409),
    (PayloadTooLarge("value", 7, 5), 413),
    (WrongAnswer("p", [("approved", "is missing"), ("", "é")]), 422),
    (InvalidValue("args.a", "is no number"), 422),
    (NotSerializable("value.x", "a set of sets"), 422),
    (StoreUnavailable("sqlite:///x.db", "it is locked"), 503),
    (StoreDamaged("sqlite:///x.db", "database disk image is malformed"), 503),
    (StoreFull("sqlite:///x.db"), 503),
    (StoreReadOnly("sqlite:///x.db"), 503),
    (StoreMoved("sqlite:///x.db", "its file was deleted"), 503),
]


@pytest.mark.parametrize(("error", "status"), ERRORS, ids=lambda value: type(value).__name__)
def test_an_error_is_a_problem_and_comes_back_the_same(error: SignoffError, status: int) -> None:
    response = problem(error)
    assert response.status_code == status
    assert response.media_type == "application/problem+json"
    assert ("retry-after" in response.headers) == (status == 503)
    again = from_problem(from_json(response.body))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


@pytest.mark.parametrize("error", [error for error, status in ERRORS if status == 422], ids=repr)
def test_what_is_wrong_with_a_value_is_a_list_of_fields(error: SignoffError) -> None:
    listed = from_json(problem(error).body)["fields"]
    assert listed
    assert all(set(each) == {"field", "message"} for each in listed)


def test_an_error_of_ours_without_a_status_is_a_500_that_names_it() -> None:
    response = problem(SchemaTooNew("sqlite:///x.db", 9, 1))
    assert response.status_code == 500
    assert from_json(response.body)["detail"].startswith("store sqlite:///x.db has schema 9")
    assert from_problem(from_json(response.body)) is None


@contextmanager
def broken_server(folder: Path) -> Iterator[httpx.Client]:
    """A server whose store is closed under it, as by a file system that went away."""
    app = app_in(folder)
    with (
        OnThread(lambda: serving(app)) as server,
        httpx.Client(base_url=server.url, trust_env=False, verify=False, timeout=60) as client,
    ):
        app.store._file.close()  # type: ignore[attr-defined]
        yield client


def test_a_store_that_is_away_is_503_with_retry_after(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    with broken_server(tmp_path) as http:
        for response in (
            http.get("/v1/runs/x"),
            http.get("/v1/runs"),
            http.post("/v1/runs", json={"workflow": "echo"}),
            http.get("/ready"),
        ):
            assert response.status_code == 503
            assert kind(response) == "StoreUnavailable"
            assert response.headers["retry-after"] == "1"
        assert http.get("/health").status_code == 200


def test_an_unexpected_error_reveals_no_internals(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("secret")

    logged: queue.Queue[logging.LogRecord] = queue.Queue()
    monkeypatch.setattr("signoff.service.service.LocalBackend.list_runs", fail)
    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "handlers", [QueueHandler(logged)])
    response = http.get("/v1/runs")
    assert response.status_code == 500
    assert response.headers["content-type"] == "application/problem+json"
    assert "secret" not in response.text
    assert "secret" in logged.get(timeout=60).getMessage()


@pytest.mark.parametrize(
    ("path", "methods"),
    [("/v1/runs", "GET, POST"), ("/v1/runs/x", "GET"), ("/v1/runs/x/retry", "POST"), ("/health", "GET")],
)
def test_an_unknown_method_gets_the_list_of_methods(http: httpx.Client, path: str, methods: str) -> None:
    for method in ("DELETE", "PUT", "TRACE", "OPTIONS"):
        refused = http.request(method, path)
        assert (refused.status_code, refused.headers["allow"]) == (405, methods)


def test_each_wrong_field_is_in_the_list(http: httpx.Client) -> None:
    refused = http.post("/v1/runs", json={"id": 1, "args": 2, "more": 3})
    assert sorted(fields(refused)) == ["args", "id", "more", "workflow"]
