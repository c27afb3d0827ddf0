"""A link's page in a real browser: on a phone, with scripts switched off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

from tests.chromium import ARGUMENTS, CHROMIUM
from tests.halves import sample
from tests.server.conftest import app_in, asked, ended, path_of, serving, start
from tests.support import OnThread

FORM = {
    "type": "object",
    "properties": {
        "amount": {"type": "integer"},
        "day": {"type": "string", "format": "date"},
        "sure": {"type": "boolean"},
    },
    "required": ["amount", "sure"],
}

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed; .ci/packages installs it"
)


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    app = app_in(tmp_path_factory.mktemp("browser"))
    with (
        OnThread(lambda: serving(app)) as served,
        httpx.Client(base_url=served.url, trust_env=False, verify=False, timeout=60) as client,
    ):
        yield client


@pytest.fixture(scope="module", params=sample(["light", "dark"]))
def phone(request: pytest.FixtureRequest) -> Iterator[BrowserContext]:
    with sync_playwright() as playwright, ExitStack() as closing:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        closing.callback(browser.close)
        context = browser.new_context(
            java_script_enabled=False,
            viewport={"width": 320, "height": 640},
            color_scheme=request.param,
            is_mobile=True,
            has_touch=True,
        )
        closing.callback(context.close)
        yield context


@pytest.fixture
def page(phone: BrowserContext) -> Iterator[Page]:
    opened = phone.new_page()
    complaints: list[str] = []
    asked_for: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("request", lambda request: asked_for.append(request.url))
    yield opened
    opened.close()
    assert not [text for text in complaints if "Content Security" in text or "Refused" in text], complaints
    assert all("/l/sgl_" in url for url in asked_for), "it asks for nothing but itself"


def opened(http: httpx.Client, page: Page, run: str, **asked_for: Any) -> str:
    """Open the link of a question in the browser; returns the run."""
    start(http, "put", run, "Well?", kwargs=asked_for)
    question = asked(http, run)
    link = http.post(f"/v1/questions/{path_of(question)}/links", json={"user_id": "ana"}).json()
    page.goto(link["url"])
    assert page.evaluate("document.documentElement.scrollWidth") <= 320, "nothing is cut off"
    return run


def run_id(request: pytest.FixtureRequest) -> str:
    return f"run-{abs(hash(request.node.name))}"


def test_an_approval_is_given_with_a_thumb(
    http: httpx.Client, page: Page, request: pytest.FixtureRequest
) -> None:
    run = opened(http, page, run_id(request), metadata={"order": "o-" + "1" * 200})
    expect(page.get_by_role("group", name="Your decision")).to_have_count(1)
    for target in (page.locator(".choice").first, page.get_by_role("button", name="Send answer")):
        box = target.bounding_box()
        assert box is not None
        assert box["height"] >= 44
    page.get_by_label("Approve").check()
    page.get_by_label("Note").fill("from the train")
    page.get_by_role("button", name="Send answer").click()
    expect(page.get_by_role("heading", name="Your answer is recorded")).to_be_visible()
    result = ended(http, run)["result"]
    assert (result["value"], result["user_id"], result["note"]) == (True, "ana", "from the train")
    page.reload()  # the form is sent again
    expect(page.get_by_role("heading", name="Your answer is recorded")).to_be_visible()


def test_wrong_fields_are_listed_and_reached_from_there(
    http: httpx.Client, page: Page, request: pytest.FixtureRequest
) -> None:
    run = opened(http, page, run_id(request), input_type="form", answer_type=FORM)
    page.get_by_label("amount").fill("many")
    page.get_by_label("Yes").check()
    page.get_by_role("button", name="Send answer").click()
    summary = page.get_by_role("alert")
    expect(summary).to_contain_text("this is not a whole number")
    summary.get_by_role("link").click()
    amount = page.get_by_label("amount")
    expect(amount).to_have_value("many")
    expect(amount).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Yes")).to_be_checked()
    amount.fill("3")
    page.get_by_label("day").fill("2026-11-30")
    page.get_by_role("button", name="Send answer").click()
    expect(page.get_by_role("heading", name="Your answer is recorded")).to_be_visible()
    assert ended(http, run)["result"]["value"] == {"amount": 3, "day": "2026-11-30", "sure": True}


def test_what_is_not_touched_comes_back_as_it_was(
    http: httpx.Client, page: Page, request: pytest.FixtureRequest
) -> None:
    proposal = {
        "lines": "\n one\r\ntwo\n\n",
        "spaces": "  x  ",
        "quotes": "\"'<&amp;>",
        "hidden": "a\u202eb\u0007",
        "number": 1.10,
        "large": 10**20,
        "nested": {"a": [1, {"b": None}]},
        "empty": "",
        "nothing": None,
        "yes": True,
    }
    run = opened(http, page, run_id(request), proposal=proposal)
    page.get_by_label("Approve as proposed").check()
    page.get_by_role("button", name="Send answer").click()
    expect(page.get_by_role("heading", name="Your answer is recorded")).to_be_visible()
    result = ended(http, run)["result"]
    assert (result["proposal"], result["edits"]) == (proposal, [])
