"""``make vulnerabilities`` fails on a known vulnerability, and reports what it could not check."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote

import pytest

from tests.grouping import ROOT

NOWHERE = "http://127.0.0.1:1"
OF_PYTHON = {
    "id": "TEST-2026-1",
    "modified": "2026-01-01T00:00:00Z",
    "summary": "a test",
    "affected": [
        {
            "package": {"ecosystem": "PyPI", "name": "starlette"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99"}]}],
        }
    ],
}
OF_NPM = {
    "id": 1,
    "url": "https://example.org/advisory",
    "title": "a test",
    "severity": "low",
    "vulnerable_versions": "<99",
    "cwe": [],
    "cvss": {"score": 0, "vectorString": None},
}


@contextmanager
def advisories(vulnerable: set[str], status: int = 200) -> Iterator[str]:
    """Serve osv.dev and npm's registry, which know of vulnerabilities in these packages."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            asked = json.loads(gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body)
            if self.path.endswith("querybatch"):
                known = {"vulns": [{key: OF_PYTHON[key] for key in ("id", "modified")}]}
                names = [each["package"]["name"] for each in asked["queries"]]
                self.reply({"results": [known if name in vulnerable else {} for name in names]})
            else:
                self.reply({name: [OF_NPM] for name in asked if name in vulnerable})

        def do_GET(self) -> None:
            name = unquote(self.path.removeprefix("/"))
            fixed = {"name": name, "version": "99.0.0"}
            package = {"name": name, "dist-tags": {"latest": "99.0.0"}, "versions": {"99.0.0": fixed}}
            self.reply(OF_PYTHON if name.startswith("v1/vulns") else package)

        def reply(self, value: Any) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def look(service: str) -> tuple[int, str]:
    """Return the exit code, and what was printed."""
    services = {"UV_AUDIT_SERVICE": service, "npm_config_registry": service}
    once = {"UV_HTTP_RETRIES": "0", "npm_config_fetch_retries": "0"}
    done = subprocess.run(
        [sys.executable, ".ci/vulnerabilities"],
        cwd=ROOT,
        env={**os.environ, **services, **once},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


@pytest.mark.long
def test_a_known_vulnerability_fails_and_is_named() -> None:
    with advisories({"starlette", "react"}) as service:
        code, printed = look(service)
    assert code == 1
    assert "starlette" in printed
    assert "TEST-2026-1" in printed
    assert "react: low" in printed


@pytest.mark.long
def test_without_any_it_passes() -> None:
    with advisories(set()) as service:
        code, printed = look(service)
    assert (code, printed.count(" 0 known"), "NOT CHECKED" in printed) == (0, 2, False)


@pytest.mark.long
def test_where_the_advisories_cannot_be_had_it_says_so_and_passes() -> None:
    code, printed = look(NOWHERE)
    assert (code, printed.count("NOT CHECKED")) == (0, 2)


@pytest.mark.long
@pytest.mark.parametrize("status", [403, 429, 500, 503])
def test_a_service_that_refuses_to_say_is_one_that_cannot_be_had(status: int) -> None:
    with advisories({"starlette", "react"}, status) as service:
        code, printed = look(service)
    assert (code, printed.count("NOT CHECKED")) == (0, 2)


def test_continuous_integration_looks() -> None:
    assert "make vulnerabilities" in (ROOT / ".ci" / "run").read_text()
