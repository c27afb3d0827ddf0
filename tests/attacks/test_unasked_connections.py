"""No value of a request makes the server look up or connect to a host."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.conftest import app_in, serving
from tests.server.described import bodies, description, operations
from tests.support import OnThread

HOST = "inside.example.invalid"
URLS = (f"https://{HOST}/x", f"http://{HOST}:8080/", f"//{HOST}/x", f"user:a@{HOST}", HOST)
HEADERS = ("origin", "referer", "x-forwarded-host", "forwarded", "traceparent", "from", "via")


def test_no_value_of_a_request_is_looked_up_or_connected_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up = list[str]()
    look_up = socket.getaddrinfo

    def noted(host: Any, *args: Any, **options: Any) -> Any:
        looked_up.append(str(host))
        return look_up(host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", noted)
    described, statuses = description(), set[int]()
    with (
        OnThread(lambda: serving(app_in(tmp_path))) as server,
        httpx.Client(base_url=server.url.replace("127.0.0.1", "localhost"), trust_env=False) as http,
    ):
        for method, path, operation in operations(described):
            if method != "POST" or "requestBody" not in operation:
                continue
            for _, body in bodies(described, operation):
                for field, value in body.items():
                    for url in URLS if isinstance(value, str | list | dict) else ():
                        told = [url] if isinstance(value, list) else {"$ref": url} if value == {} else url
                        to = path.replace("{", "").replace("}", "")
                        statuses.add(http.post(to, json={**body, field: told}).status_code)
        for url in URLS:
            statuses |= {http.get("/v1/runs", headers={name: url}).status_code for name in HEADERS}
    assert "localhost" in looked_up, "what the client looks up is noted"
    assert [host for host in looked_up if HOST in host] == []
    assert {200, 201, 422} <= statuses
    assert max(statuses) < 500
