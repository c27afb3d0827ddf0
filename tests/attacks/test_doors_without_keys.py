"""A program on the server's machine without a key, where one tenant has one: each route authenticates callers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from signoff.server import Role
from tests import forks
from tests.cli.commands import Running, environment, until
from tests.server.conftest import kind
from tests.server.keyed import Keyed, keyed
from tests.support import OnThread

STORE = "/v1/store"
CREATE_TOKEN = {
    "new": {
        "id": "stolen",
        "kind": "api_key",
        "hash": "0" * 64,
        "subject": "service:eve",
        "data": '{"roles": ["admin"]}',
    }
}


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Keyed]:
    with OnThread(lambda: keyed(tmp_path, require_auth=False)) as here:
        yield here


@pytest.mark.parametrize("namespace", ["default", "acme", "none"])
def test_the_store_door_is_closed_by_a_key_of_any_namespace(here: Keyed, namespace: str) -> None:
    here.key("bot", Role.VIEWER, namespace="acme")
    asked: list[tuple[str, dict[str, object]]] = [
        ("list_runs", {"which": {}}),
        ("cancel", {"run_id": "r"}),
        ("create_token", CREATE_TOKEN),
        ("has_token", {"kinds": ["api_key"]}),
    ]
    with here.http() as anybody:
        answers = [anybody.get(STORE, params={"namespace": namespace})]
        for number, (do, arguments) in enumerate(asked):
            operation = {"id": number, "do": do, "namespace": namespace, "arguments": arguments}
            batch = {"client": "c", "floor": 0, "operations": [operation]}
            answers.append(anybody.post(STORE, json=batch))
    assert [(each.status_code, kind(each)) for each in answers] == [(403, "AccessDenied")] * 5


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/runs"),
        ("GET", "/v1/questions"),
        ("GET", "/v1/audit"),
        ("GET", "/v1/keys"),
        ("POST", "/v1/keys"),
        ("POST", "/v1/runs"),
    ],
)
def test_each_route_authenticates_once_another_process_made_a_key(
    here: Keyed, method: str, path: str
) -> None:
    with here.http() as anybody:
        assert anybody.get("/v1/runs").status_code == 200
        here.key("bot", Role.VIEWER, namespace="acme")
        assert anybody.request(method, path, json={} if method == "POST" else None).status_code == 401
        assert anybody.get("/health").status_code == 200


def test_a_worker_key_of_another_namespace_closes_every_door(here: Keyed) -> None:
    with here.http() as anybody:
        assert anybody.get("/v1/runs").status_code == 200
        here.worker_key("gpu", namespace="acme")
        assert anybody.get("/v1/runs").status_code == 401
        assert anybody.get(STORE, params={"namespace": "default"}).status_code == 403


@pytest.mark.parametrize("path", ["/v1/audit", "/v1/audit/chain", "/v1/audit/export", "/v1/keys"])
def test_a_refusal_says_how_to_make_a_key(here: Keyed, path: str) -> None:
    with here.http() as anybody:
        refused = anybody.get(path)
    assert (refused.status_code, kind(refused)) == (401, "NotAuthenticated")
    assert "signoff keys create NAME --role admin" in refused.json()["detail"]


def test_doors_that_asked_once_ask_until_the_server_starts_again(here: Keyed) -> None:
    _, token = here.key("bot", Role.VIEWER, namespace="acme")
    with here.http() as anybody:
        assert anybody.get("/v1/runs").status_code == 401
        here.revoke(token)
        assert anybody.get("/v1/runs").status_code == 401
        assert anybody.get(STORE, params={"namespace": "default"}).status_code == 403


SERVERS = [
    ((), False),
    (("--require-auth",), True),
    (("--user-header", "X-User"), True),
]


@pytest.mark.parametrize(("options", "authenticates"), SERVERS)
def test_a_server_that_authenticates_no_caller_says_so_when_it_starts(
    tmp_path: Path, options: tuple[str, ...], authenticates: bool
) -> None:
    with Running("server", "--port", "0", *options, cwd=tmp_path) as server:
        assert server.wait_for("listening")["authenticates"] is authenticates
    file = tmp_path / "said"
    with file.open("w") as said:
        command = ["signoff", "server", "--port", "0", *options]
        server = forks.Program(command, cwd=tmp_path, env=environment({}), stdout=said, stderr=said)
        try:
            lines = 1 if authenticates else 2
            text = until(lambda: (text := file.read_text()).count("\n") >= lines and text)
        finally:
            server.kill()
            server.wait(60)
    note = " ".join(str(text).split())
    for words in (
        "callers are not authenticated",
        "Closed without a key: workers (/v1/store), keys, the audit trail",
        "signoff keys create NAME --role admin --store ",
        "export SIGNOFF_WORKER_KEY=$(signoff keys create --worker)",
    ):
        assert (words in note) is not authenticates
