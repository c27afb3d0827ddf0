"""The headers of every reply, and the other sites that may read it."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from signoff.errors import InvalidValue
from signoff.server import Server, create_server_app
from signoff.server.auth.roles import RIGHTS
from signoff.server.http.cors import check_origins
from signoff.server.http.response_headers import SAFE_HEADERS
from signoff.server.limits.headers import LONGEST_URL, MOST_HEADERS
from signoff.server.openapi.examples import PATH_EXAMPLES
from signoff.stores.sqlite.store import SqliteStore
from tests.server.conftest import app_in, fields, serving
from tests.server.proxied import PROXY, through
from tests.support import OnThread

pytestmark = pytest.mark.usefixtures("open_trail")

APP = "https://app.example.com"


@pytest.fixture(scope="module")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that pages of another site may use."""
    app = app_in(tmp_path_factory.mktemp("origins"))
    with OnThread(lambda: serving(app, allowed_origins=[APP])) as served:
        yield served


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Likewise, behind a proxy."""
    app = app_in(tmp_path_factory.mktemp("proxied-origins"))
    with OnThread(lambda: serving(app, proxy=PROXY, allowed_origins=[APP])) as served:
        yield served


@pytest.mark.parametrize(
    ("method", "path"), [route for route in sorted(RIGHTS) if not route[1].endswith("/changes")]
)
def test_every_reply_forbids_what_pages_could_do_with_it(http: httpx.Client, method: str, path: str) -> None:
    # No group that has runs: it would be paused for all tests that share the server.
    for parameter, example in {**PATH_EXAMPLES, "asset": "swagger-ui.css", "name": "nobodys"}.items():
        path = path.replace(f"{{{parameter}}}", example)
    with http.stream(method, path) as reply:  # some have no end
        assert set(SAFE_HEADERS) <= set(reply.headers)
    assert "frame-ancestors 'none'" in reply.headers["content-security-policy"]
    assert path.startswith("/docs/") or reply.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"origin": "https://evil.example"}, 403),
        ({"content-type": "x/y"}, 415),
    ],
)
def test_refusals_forbid_it_too(http: httpx.Client, headers: dict[str, str], status: int) -> None:
    refused = http.post("/v1/runs", content=b"{}", headers=headers)
    assert refused.status_code == status
    assert set(SAFE_HEADERS) <= set(refused.headers)


def test_an_unexpected_error_forbids_it_too(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("signoff.service.service.LocalBackend.list_runs", fail)
    caplog.set_level("CRITICAL", "uvicorn.error")
    failed = http.get("/v1/runs")
    assert failed.status_code == 500
    assert dict(SAFE_HEADERS).items() <= dict(failed.headers).items()


# Other sites


def preflight(http: httpx.Client, origin: str) -> httpx.Response:
    headers = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type, idempotency-key",
        "sec-fetch-site": "cross-site",
    }
    return http.options("/v1/runs", headers=headers)


@pytest.mark.parametrize("origin", [APP, "http://localhost:5173", "null"])
def test_no_other_site_may_read_unless_it_is_allowed(http: httpx.Client, origin: str) -> None:
    for reply in (http.get("/v1/runs", headers={"origin": origin}), preflight(http, origin)):
        assert not [header for header in reply.headers if header.startswith("access-control-")]


def test_a_site_that_is_allowed_may_read_and_write(open_server: Server, name: str) -> None:
    with httpx.Client(
        base_url=open_server.url, trust_env=False, verify=False, headers={"origin": APP}, timeout=60
    ) as page:
        asked = preflight(page, APP)
        assert asked.status_code == 200
        assert asked.headers["access-control-allow-origin"] == APP
        assert asked.headers["access-control-allow-credentials"] == "true"
        read = page.get("/v1/runs")
        assert read.headers["access-control-allow-origin"] == APP
        assert read.headers["vary"] == "Origin"
        written = page.post("/v1/runs", json={"workflow": "echo", "id": name})
        assert (written.status_code, written.headers["access-control-allow-origin"]) == (201, APP)
        refused = page.get("/v1/runs/none")
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (404, APP)


@pytest.mark.parametrize("origin", ["https://evil.example", f"{APP}.evil.example", f"{APP}:8443", "null"])
def test_where_one_site_is_allowed_others_are_not(open_server: Server, origin: str) -> None:
    with httpx.Client(base_url=open_server.url, trust_env=False, verify=False, timeout=60) as page:
        assert "access-control-allow-origin" not in preflight(page, origin).headers
        read = page.get("/v1/runs", headers={"origin": origin})
        assert "access-control-allow-origin" not in read.headers
        assert page.post("/v1/runs", json={"workflow": "echo"}, headers={"origin": origin}).status_code == 403


def test_behind_a_proxy_a_site_that_is_allowed_acts_for_who_looks_at_it(proxied: Server, name: str) -> None:
    said = {"origin": APP, "sec-fetch-site": "cross-site"}
    with through(proxied, "ana", roles="operator") as page:
        started = page.post("/v1/runs", json={"workflow": "echo", "id": name}, headers=said)
        assert (started.status_code, started.json()["started_by"]) == (201, "ana")
        refused = page.post("/v1/runs", json={}, headers={**said, "origin": "https://evil.example"})
        assert refused.status_code == 403
    with through(proxied) as nobody:
        assert preflight(nobody, APP).status_code == 200  # browsers send it without cookies
        assert nobody.get("/v1/runs", headers=said).status_code == 401


@pytest.mark.parametrize(
    "origin", ["*", "null", "", "app.example.com", f"{APP}/", f"{APP}/x", "https://*.example.com", "file://"]
)
def test_an_origin_that_is_none_is_refused_at_the_start(tmp_path: Path, origin: str) -> None:
    with pytest.raises(InvalidValue):
        create_server_app(SqliteStore(tmp_path / "signoff.db"), allowed_origins=[origin])


def test_an_origin_is_compared_as_browsers_write_it() -> None:
    assert check_origins(["HTTPS://App.Example.com", "http://[::1]:5173"]) == {APP, "http://[::1]:5173"}


# The manual


def test_the_page_of_the_description_loads_nothing_from_elsewhere(http: httpx.Client) -> None:
    page = http.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert loaded == ["docs/swagger-ui.css", "docs/swagger-ui-bundle.js"]
    for path, media_type in zip(loaded, ("text/css", "text/javascript"), strict=True):
        asset = http.get(f"/{path}")
        assert asset.status_code == 200
        assert asset.headers["content-type"].startswith(media_type)
        assert len(asset.content) > 100_000
    [script] = re.findall("<script>(.+?)</script>", page.text)
    hashed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"'sha256-{hashed}'" in page.headers["content-security-policy"]


@pytest.mark.parametrize("asset", ["none.js", "..%2Fconsts.py", "favicon.png"])
def test_the_page_gives_no_other_files(http: httpx.Client, asset: str) -> None:
    assert http.get(f"/docs/{asset}").status_code in (404, 422)


# Heads


def test_an_address_that_is_too_long_is_414(http: httpx.Client) -> None:
    refused = http.get("/v1/runs", params={"workflow": "x" * LONGEST_URL})
    assert (refused.status_code, list(fields(refused))) == (414, ["url"])
    assert http.get("/v1/runs", params={"workflow": "x" * (LONGEST_URL - 100)}).status_code == 200


def test_too_many_headers_are_431(http: httpx.Client) -> None:
    refused = http.get("/v1/runs", headers={f"x-{number}": "" for number in range(MOST_HEADERS)})
    assert (refused.status_code, list(fields(refused))) == (431, ["headers"])


def test_headers_that_are_too_long_are_refused(http: httpx.Client) -> None:
    refused = http.get("/v1/runs", headers={"x-long": "x" * 70_000})
    assert refused.status_code in (400, 431)  # uvicorn with h11 refuses such a head itself


# Entity tags


def test_a_client_with_the_current_document_gets_304(http: httpx.Client, name: str) -> None:
    assert http.post("/v1/promises", json={"id": name}).status_code == 201
    path = f"/v1/promises/{name}"
    tag = http.get(path).headers["etag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        same = http.get(path, headers={"if-none-match": known})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
        assert "content-type" not in same.headers
        assert same.headers["cache-control"] == "no-store"
    assert http.get(path, headers={"if-none-match": '"other"'}).status_code == 200
    assert http.post(f"{path}/cancel", headers={"if-none-match": tag}).status_code == 200
    changed = http.get(path, headers={"if-none-match": tag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag


def test_lists_have_tags_and_refusals_and_streams_have_none(http: httpx.Client) -> None:
    tag = http.get("/v1/questions", params={"run_id": "none"}).headers["etag"]
    again = http.get("/v1/questions", params={"run_id": "none"}, headers={"if-none-match": tag})
    assert again.status_code == 304
    assert "etag" not in http.get("/v1/runs/none").headers
    assert "etag" not in http.get("/v1/audit/export").headers
