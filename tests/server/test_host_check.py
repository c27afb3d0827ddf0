"""Requests that a page of another site can make a browser send are refused."""

from __future__ import annotations

import socket
from pathlib import Path

import httpx
import pytest

from signoff.server import Server, create_server_app
from signoff.stores.sqlite.store import SqliteStore
from tests.server.conftest import fields
from tests.support import in_asyncio


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:80",
        "LOCALHOST:1",
        "127.0.0.1",
        "127.0.0.1:65535",
        "[::1]",
        "[::1]:8000",
        "signoff.example",
        "Signoff.Example:8443",
    ],
)
def test_local_and_configured_hosts_are_served_on_any_port(http: httpx.Client, host: str) -> None:
    assert http.get("/v1/runs", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "evil.example:localhost",
        "localhost@evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.2",
        "0.0.0.0",
        "[::2]",
        "[::1",
        "::1",
        "localhost:80:80",
        "localhost:abc",
        "localhost/",
        "sub.signoff.example",
        "",
    ],
)
@pytest.mark.parametrize("path", ["/v1/runs", "/health", "/openapi.json"])
def test_another_host_is_refused(http: httpx.Client, host: str, path: str) -> None:
    refused = http.get(path, headers={"host": host})
    assert refused.status_code == 421
    assert list(fields(refused)) == ["Host"]


@pytest.mark.parametrize(
    "lines",
    [b"", b"Host: localhost\r\nHost: evil.example\r\n"],
    ids=["none", "two"],
)
def test_a_request_names_one_host(server: Server, lines: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as raw:
        raw.sendall(b"GET /health HTTP/1.1\r\n" + lines + b"Connection: close\r\n\r\n")
        status = raw.makefile("rb").readline().split()[1]
    assert status in (b"400", b"421")


@in_asyncio
async def test_two_hosts_are_refused_whatever_the_asgi_server_lets_through(tmp_path: Path) -> None:
    api = create_server_app(SqliteStore(tmp_path / "signoff.db"))
    two = [("host", "localhost"), ("host", "evil.example")]
    transport = httpx.ASGITransport(api)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        assert (await http.get("/health", headers=two)).status_code == 421
        assert (await http.get("/health", headers=two[:1])).status_code == 200


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "https://evil.example:8000",
        "http://localhost.evil.example",
        "http://localhost@evil.example",
        "null",
        "file://",
        "http://[::1",
        "",
        "http://localhost:5173",
        "http://localhost",
        "http://127.0.0.1:8000",
        "http://[::1]:8000",
    ],
)
@pytest.mark.parametrize("verb", ["cancel", "retry"])
def test_a_write_from_another_site_or_another_port_is_refused(
    http: httpx.Client, verb: str, origin: str
) -> None:
    refused = http.post(f"/v1/runs/x/{verb}", headers={"origin": origin})
    assert refused.status_code == 403
    assert list(fields(refused)) == ["Origin"]


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://localhost:8000", "localhost:8000"),
        ("http://LOCALHOST:8000", "localhost:8000"),
        ("http://localhost", "localhost:80"),
        ("http://localhost", "localhost"),
        ("https://localhost", "localhost:443"),
        ("http://[::1]:8000", "[::1]:8000"),
        ("https://signoff.example", "localhost:8000"),
        ("https://signoff.example:8443", "signoff.example:9000"),
    ],
)
def test_a_write_from_an_own_page_passes(http: httpx.Client, origin: str, host: str) -> None:
    assert http.post("/v1/runs/x/retry", headers={"origin": origin, "host": host}).status_code == 404


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain; application/json",
        "application/jsonp",
        "",
    ],
)
@pytest.mark.parametrize("path", ["/v1/runs", "/v1/runs/x/retry", "/v1/questions/x/answer"])
def test_a_body_that_a_form_could_send_is_refused(http: httpx.Client, path: str, content_type: str) -> None:
    body = b'{"workflow": "echo", "value": true}'
    refused = http.post(path, content=body, headers={"content-type": content_type})
    assert refused.status_code == 415
    assert list(fields(refused)) == ["Content-Type"]


def test_a_body_of_json_may_name_its_charset(http: httpx.Client) -> None:
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    assert http.post("/v1/runs", content=b'{"workflow": "echo"}', headers=headers).status_code == 201


def test_no_page_of_another_site_may_read(http: httpx.Client) -> None:
    seen = http.get("/v1/runs", headers={"origin": "http://evil.example"})
    assert "access-control-allow-origin" not in seen.headers
    preflight = http.options(
        "/v1/runs", headers={"origin": "http://evil.example", "access-control-request-method": "POST"}
    )
    assert preflight.status_code == 405
    assert "access-control-allow-origin" not in preflight.headers
