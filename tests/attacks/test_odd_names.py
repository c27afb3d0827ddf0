"""Groups and workflows whose names look like those of others, and paths to files outside of the served ones."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import httpx
import pytest

from signoff.engine.timers import cron
from signoff.errors import InvalidValue
from tests.server.keyed import keyed
from tests.support import OnThread

ODD = {
    "bidirectional control": "a\u202eb",
    "zero width space": "default\u200b",
    "soft hyphen": "de\u00adfault",
    "tag": "default\U000e0041",
    "spaces around": " default ",
    "no-break space": "de\u00a0fault",
    "line end": "default\n",
    "header": "a\r\nSet-Cookie: x",
    "NUL": "a\0b",
    "long": "x" * 501,
    "empty": "",
}


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("odd")
    with OnThread(lambda: keyed(folder, require_auth=False)) as served:
        url = f"http://127.0.0.1:{served.server.port}"
        with httpx.Client(base_url=url, trust_env=False) as client:
            yield client


@pytest.mark.parametrize("name", ODD)
def test_a_name_that_looks_like_another_is_refused_at_every_route(http: httpx.Client, name: str) -> None:
    odd = ODD[name]
    at = {"id": "s", "cron": "0 0 1 1 *"}
    replies = [
        http.post("/v1/runs", json={"workflow": "w", "group": odd}),
        http.post("/v1/runs", json={"workflow": odd, "group": "g"}),
        http.post("/v1/schedules", json={**at, "workflow": "w", "group": odd}),
        http.post("/v1/schedules", json={**at, "workflow": odd, "group": "g"}),
    ]
    assert [reply.status_code for reply in replies] == [422] * 4


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../../../etc/passwd",
        "/assets/..%2f..%2f..%2fetc%2fpasswd",
        "/assets/%2e%2e/%2e%2e/pyproject.toml",
        "/assets/..\\..\\x",
        "/assets/..%5c..%5cx",
        "/assets/%252e%252e%252fapp.py",
        "/assets/x%00.js",
        "/assets//etc/passwd",
        "/assets/%2fetc%2fpasswd",
        "/assets/%c0%ae%c0%ae/app.py",
        "/docs/..%2f..%2fapp.py",
        "/docs/%2e%2e%2fapp.py",
        "/docs/swagger-ui-bundle.js%00.txt",
    ],
)
def test_no_path_leads_out_of_the_served_files(http: httpx.Client, path: str) -> None:
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"  # clients would resolve the dots
    with socket.create_connection((http.base_url.host, http.base_url.port or 0), timeout=60) as raw:
        raw.sendall(head.encode())
        received = b""
        while part := raw.recv(65536):
            received += part
    assert received.split(b" ")[1] in (b"404", b"422")


@pytest.mark.parametrize(
    "name", ["..\\x.css", "..%2fx.css", "a%00b.css", "%2e%2e%5cx.css", ".css", "C:x.css"]
)
def test_no_file_is_looked_for_under_an_odd_name(http: httpx.Client, name: str) -> None:
    assert http.get(f"/assets/{name}").status_code == 422


@pytest.mark.parametrize(
    "expression", ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0-99999999 * * * *", "*/0 * * * *"]
)
def test_a_cron_expression_without_a_time_is_refused(expression: str) -> None:
    with pytest.raises(InvalidValue):
        cron.next_time(expression, "UTC", 1.7e9)
