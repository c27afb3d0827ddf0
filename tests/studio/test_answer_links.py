"""The pages of answer links: axe finds no serious problems, and screenshots are kept."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page

from signoff.server import Server
from tests.server.conftest import asked, path_of, start
from tests.studio.axe import serious
from tests.studio.looks import LOOKS
from tests.studio.pictures import take_picture

ASKED = {
    "approval": ("mail", ["bob@example.org"]),
    "form": ("refund", []),
    "options": ("choose", []),
    "skippable": ("skip", []),
}


@pytest.fixture(params=LOOKS)
def opened(request: pytest.FixtureRequest, browser: Browser, served: Server) -> Iterator[tuple[str, Page]]:
    context = browser.new_context(base_url=served.url, **LOOKS[request.param])
    yield request.param, context.new_page()
    context.close()


@pytest.mark.parametrize("kind", ASKED)
def test_axe_finds_nothing_serious_on_a_links_page(
    opened: tuple[str, Page], http: httpx.Client, name: str, kind: str
) -> None:
    look, page = opened
    workflow, arguments = ASKED[kind]
    start(http, workflow, name, *arguments)
    question = asked(http, name)
    link = http.post(f"/v1/questions/{path_of(question)}/links", json={"user_id": "ana"}).json()
    page.goto(link["path"])
    take_picture(page, f"link-of-{kind}-{look}")
    assert serious(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_axe_finds_nothing_serious_where_a_link_opens_nothing(opened: tuple[str, Page]) -> None:
    look, page = opened
    page.goto("/l/sgl_nothing")
    take_picture(page, f"link-of-nothing-{look}")
    assert serious(page) == []
