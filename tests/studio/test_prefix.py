"""Studio under a path of a shared host, behind a real reverse proxy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from signoff.errors import InvalidValue
from signoff.runtime.clock import SystemClock
from signoff.server import OpenIdConnect, Role, Server, create_server_app
from signoff.testing import MemoryStore
from tests.server.conftest import app_in, asked, path_of, serving, start
from tests.server.provider import CLIENT, SECRET, LocalProvider
from tests.studio.places import PLACES, furnish, serving_rooms
from tests.studio.prefixed import PREFIX, Host, behind_proxy
from tests.support import OnThread

ADMIN = {"X-Forwarded-User": "ana", "X-Forwarded-Roles": "admin"}


@pytest.fixture(scope="module", params=[True, False], ids=["taken off", "left"])
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("prefix")

    @asynccontextmanager
    async def serve(url: str) -> AsyncIterator[Server]:
        async with serving_rooms(folder, root_path=PREFIX) as server:
            servers.append(server)
            yield server

    servers: list[Server] = []
    with OnThread(lambda: behind_proxy(serve, strips=request.param)) as found:
        furnish(servers[0])
        yield found


@pytest.fixture
def page(browser: Browser, host: Host) -> Iterator[Page]:
    """A window in which nothing is asked for beside the prefix, and no script fails."""
    context = browser.new_context(extra_http_headers=ADMIN)
    trouble: list[str] = []
    context.on("request", lambda each: each.url.startswith(f"{host.url}/") or trouble.append(each.url))
    context.on("weberror", lambda error: trouble.append(str(error.error)))
    yield context.new_page()
    context.close()
    assert (trouble, host.strays) == ([], [])


DEPTHS = ("inbox", "approval", "run", "group", "keys")
"""Pages at each depth: all that a proxy that takes the prefix off could do to a page is done to these."""


def test_each_page_is_whole_and_its_links_lead_below_the_prefix(page: Page, host: Host) -> None:
    for name, place in PLACES.items():
        if host.strips and name not in DEPTHS:
            continue
        page.goto(host.url + place.address)
        expect(page.get_by_role("main").get_by_text(place.sees).filter(visible=True).first).to_be_visible()
        shown = page.get_by_role("link")
        expect(shown.nth(9)).to_be_attached()  # who one is, is known after what is shown
        links: list[str] = shown.evaluate_all("links => links.map(each => each.href)")
        assert [link for link in links if not link.startswith(f"{host.url}/")] == [], name


def test_events_are_shown_and_decisions_arrive_under_a_prefix(page: Page, host: Host) -> None:
    page.goto(f"{host.url}/")
    expect(page).to_have_url(f"{host.url}/inbox")
    page.get_by_role("link", name="Runs").click()
    page.get_by_role("link", name="Inbox").click()
    page.get_by_role("button", name="All").click()
    expect(page.get_by_role("link", name="Send it?").first).to_be_visible()
    with httpx.Client(base_url=host.url, headers=ADMIN, trust_env=False, verify=False, timeout=60) as http:
        start(http, "ask", f"live-{host.strips}", "Is it there?")
        page.get_by_role("link", name="Is it there?").click()
        expect(page.get_by_role("heading", name="Is it there?")).to_be_visible()
        id = asked(http, f"live-{host.strips}")
        http.post(f"/v1/questions/{path_of(id)}/answer", json={"value": True}).raise_for_status()
    expect(page.get_by_text("Approved by ana")).to_be_visible()


def test_an_answer_link_and_the_manual_are_below_the_prefix(page: Page, host: Host) -> None:
    with httpx.Client(base_url=host.url, headers=ADMIN, trust_env=False, verify=False, timeout=60) as http:
        made = http.post("/v1/questions/deploy.1/links", json={"user_id": "ana"}).json()
    assert made["url"].startswith(f"{host.url}/l/")
    page.goto(made["url"])
    expect(page.get_by_text("Deploy the shop?").first).to_be_visible()
    page.goto(f"{host.url}/docs")
    expect(page.get_by_text("/v1/runs").first).to_be_visible(timeout=30_000)


def test_who_is_not_signed_in_comes_back_to_where_they_were_going(browser: Browser, tmp_path: Path) -> None:
    @asynccontextmanager
    async def serve(url: str) -> AsyncIterator[Server]:
        async with LocalProvider(SystemClock()).serving() as provider:
            openid = OpenIdConnect(provider.url, CLIENT, url, SECRET, default_role=Role.VIEWER)
            async with serving(app_in(tmp_path), openid=openid, public_url=url) as server:
                yield server

    with OnThread(lambda: behind_proxy(serve, strips=True, host="localhost")) as host:
        page = browser.new_page()
        page.goto(f"{host.url}/schedules")
        expect(page).to_have_url(f"{host.url}/schedules")
        expect(page.get_by_text("ana@example.com")).to_be_visible()
        page.goto(f"{host.url}/login")
        expect(page).to_have_url(f"{host.url}/inbox")
        page.context.close()
        assert host.strays == []


@pytest.mark.parametrize("wrong", ["signoff", "/a b", "//evil.example", "/v1", "/runs/x", '/"><script>'])
def test_a_prefix_that_could_mean_something_else_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidValue, match="root_path"):
        create_server_app(MemoryStore(), root_path=wrong)


def test_the_prefix_is_that_of_the_public_url(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    with (
        OnThread(lambda: serving(app, public_url="https://example.com/a/signoff/")) as server,
        httpx.Client(base_url=server.url, trust_env=False, verify=False, timeout=60) as http,
    ):
        assert '<base href="/a/signoff/" />' in http.get("/inbox").text
        assert http.get("/a/signoff/v1/runs").status_code == 200
