"""Every route of the app, without a key: from the server's own machine, and through a proxy.

The routes are those of the app itself, so a new one is tried as well: it must answer as everything else does, or be in
a list here.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi.routing import iter_route_contexts

from signoff.server import Role, create_server_app
from signoff.stores.sqlite.store import SqliteStore
from tests.server.keyed import Keyed, client_of, keyed
from tests.support import OnThread

NEEDS_NOBODY = {
    *(("GET", path) for path in ("/health", "/ready", "/metrics", "/login", "/login/callback")),
    *(("GET", f"/.well-known/oauth-protected-resource{path}") for path in ("", "/mcp")),
    *(("GET", path) for path in ("/assets/{asset}", "/l/{secret}", "/c/{secret}")),
    *(("POST", path) for path in ("/logout", "/l/{secret}", "/c/{secret}", "/v1/slack/{channel}/actions")),
}
"""What may answer anybody: it tells nothing, or a secret or a signature says for whom it is."""

NEVER_OPEN = {
    *(("GET", path) for path in ("/v1/store", "/v1/store/changes", "/v1/keys")),
    *(("GET", path) for path in ("/v1/audit", "/v1/audit/chain", "/v1/audit/export")),
    *(("POST", path) for path in ("/v1/store", "/v1/keys")),
    *(("POST", f"/v1/keys/{{key_id}}/{what}") for what in ("rotate", "revoke")),
}
"""What needs a key even where the database has none."""

REFUSED = (401, 403, 429)
"""429 after some wrong secrets."""

FORWARDED = [
    {"X-Forwarded-For": "127.0.0.1"},
    {"X-Forwarded-For": "::1, 127.0.0.1"},
    {"Forwarded": "for=127.0.0.1;host=localhost"},
    {"X-Real-IP": "127.0.0.1"},
    {"X-Forwarded-Host": "localhost", "X-Forwarded-Proto": "https"},
    {"X-Original-URL": "/health", "X-Rewrite-URL": "/health"},
    {"X-HTTP-Method-Override": "GET", "X-Forwarded-Prefix": "/health"},
    {"Authorization": "Basic YWRtaW46YWRtaW4="},
    {"Authorization": "Bearer"},
    {"Authorization": "Bearer sgk_"},
    {"X-Forwarded-User": "ana", "X-Forwarded-Roles": "admin"},
    {"Cookie": "signoff=sgs_x; __Host-signoff=sgs_x"},
]
"""What a client may write itself, hoping to be taken for the machine, another path or another person."""


def _routes(folder: Path) -> list[tuple[str, str]]:
    api = create_server_app(SqliteStore(folder / "signoff.db"))
    found = {
        (method, route.path or "")
        for route in iter_route_contexts(api.routes)
        for method in (route.methods or {"?"}) - {"HEAD"}
    }
    assert len(found) > 80
    return sorted(found)


def _sent(http: httpx.Client, method: str, path: str, headers: dict[str, str] | None = None) -> int:
    """Send a request and return its status; what has no end is not waited for."""
    url = re.sub(r"\{\w+\}", "none", path)
    params = {"namespace": "default"} if path.startswith("/v1/store") else {}
    body = {"json": {}} if method == "POST" and not path.startswith(("/l/", "/v1/slack")) else {}
    with http.stream(method, url, params=params, headers=headers, **body) as answer:
        return answer.status_code


@pytest.fixture(scope="module")
def keyless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    with OnThread(lambda: keyed(tmp_path_factory.mktemp("keyless"), require_auth=False)) as here:
        yield here


@pytest.fixture(scope="module", params=["service", "worker"])
def locked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    """A server whose database has one key, and that of another namespace."""
    with OnThread(lambda: keyed(tmp_path_factory.mktemp("locked"), require_auth=False)) as here:
        if request.param == "service":
            here.key("bot", Role.VIEWER, namespace="acme")
        else:
            here.worker_key("gpu", namespace="acme")
        yield here


def test_without_any_key_every_route_answers_but_those_that_never_do(keyless: Keyed, tmp_path: Path) -> None:
    with keyless.http() as http:
        refused = {route for route in _routes(tmp_path) if _sent(http, *route) in REFUSED}
    assert refused == NEVER_OPEN


@pytest.mark.parametrize("headers", FORWARDED, ids=str)
def test_no_header_opens_what_is_closed_without_a_key(keyless: Keyed, headers: dict[str, str]) -> None:
    with keyless.http() as http:
        for route in NEVER_OPEN:
            assert _sent(http, *route, headers) in REFUSED, route


def test_with_a_key_of_any_namespace_only_public_routes_answer_without_one(
    locked: Keyed, tmp_path: Path
) -> None:
    with locked.http() as http:
        answered = {route for route in _routes(tmp_path) if _sent(http, *route) not in REFUSED}
    assert answered <= NEEDS_NOBODY
    assert answered > {("GET", "/health"), ("GET", "/ready")}


@pytest.mark.parametrize("locked", ["service"], indirect=True)
@pytest.mark.parametrize("headers", FORWARDED, ids=str)
def test_no_header_opens_a_route_where_there_is_a_key(
    locked: Keyed, tmp_path: Path, headers: dict[str, str]
) -> None:
    with locked.http() as http:
        answered = {route for route in _routes(tmp_path) if _sent(http, *route, headers) not in REFUSED}
    assert answered <= NEEDS_NOBODY


OTHER_SPELLINGS = [
    *("/v1/%61udit", "/v1/audit/", "//v1/audit", "/v1//audit", "/v1/./audit", "/x/../v1/audit", "/V1/AUDIT"),
    *("/v1/audit%2fchain", "/v1/audit;x", "/v1/audit/chain/", "/v1/keys/", "/v1/%6beys", "/v1/keys/x/../y"),
    *("/v1/stor%65?namespace=default", "/v1/store/?namespace=default", "//v1/store?namespace=default"),
    *("/health/../v1/audit", "/assets/..%2f..%2fv1%2faudit", "/v1/store/x/../changes?namespace=default"),
]


@pytest.mark.parametrize("path", OTHER_SPELLINGS)
def test_no_other_spelling_of_a_path_opens_it(keyless: Keyed, path: str) -> None:
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", keyless.server.port), timeout=60) as raw:
        raw.sendall(head.encode())
        answer = raw.makefile("rb").read()
    assert answer.split()[1] in (b"400", b"401", b"403", b"404", b"405", b"422"), answer[:200]


HOSTS = [
    *("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "localhost:1@evil.example"),
    *("[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "127.1", "0x7f000001", "2130706433", "127.0.0.2", "0.0.0.0"),
    *("localhost.", "LOCALHOST\t.evil", "localhost evil.example", "", "[::1", "169.254.169.254"),
]
"""What a page that has rebound its name to this machine sends as ``Host``, and what may be read as this machine."""


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("path", ["/v1/runs", "/v1/me", "/health", "/", "/v1/store?namespace=default"])
def test_a_page_that_rebinds_its_name_reads_nothing(keyless: Keyed, host: str, path: str) -> None:
    head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", keyless.server.port), timeout=60) as raw:
        raw.sendall(head.encode())
        answer = raw.makefile("rb").read()
    assert answer.split()[1] in (b"400", b"421"), answer[:200]


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_request_without_a_host_reads_nothing(keyless: Keyed, version: str) -> None:
    with socket.create_connection(("127.0.0.1", keyless.server.port), timeout=60) as raw:
        raw.sendall(f"GET /v1/runs HTTP/{version}\r\nConnection: close\r\n\r\n".encode())
        assert raw.makefile("rb").read().split()[1] in (b"400", b"421")


LISTENING = [("::", "::1"), ("::", "127.0.0.1"), ("0.0.0.0", "127.0.0.2"), ("::1", "::1")]


@pytest.mark.parametrize(("listens", "peer"), LISTENING)
def test_no_address_of_this_machine_opens_what_is_closed(tmp_path: Path, listens: str, peer: str) -> None:
    """IPv6, IPv4 mapped into IPv6, and other addresses of the loopback network."""
    if listens == "::" and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no dual stack")
    with OnThread(lambda: keyed(tmp_path, require_auth=False, host=listens)) as here:
        url = f"http://[{peer}]" if ":" in peer else f"http://{peer}"
        headers = {"host": "localhost"}
        with httpx.Client(
            base_url=f"{url}:{here.server.port}", trust_env=False, headers=headers, timeout=60
        ) as http:
            assert http.get("/health").status_code == 200
            for route in NEVER_OPEN:
                assert _sent(http, *route) in REFUSED, route


def test_a_worker_key_opens_no_route_but_the_store(locked: Keyed, tmp_path: Path) -> None:
    secret, _ = locked.worker_key("mine")
    with client_of(locked.server, secret) as http:
        answered = {route for route in _routes(tmp_path) if _sent(http, *route) not in REFUSED}
    store = {("GET", "/v1/store"), ("GET", "/v1/store/changes"), ("POST", "/v1/store")}
    assert answered - NEEDS_NOBODY == store
