"""Filters of Studio's inbox: each has its own address, and may be saved under a name."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.server.conftest import asked, start


@pytest.fixture
def questions(http: httpx.Client, name: str) -> None:
    """One of each kind that is looked for."""
    start(http, "ask", f"{name}-plain", f"{name} plain")
    start(http, "ask", f"{name}-soon", f"{name} soon", kwargs={"timeout_seconds": 3600}, group="default")
    start(http, "put", f"{name}-text", f"{name} text", kwargs={"input_type": "text"})
    start(
        http,
        "put",
        f"{name}-bobs",
        f"{name} bobs",
        kwargs={"input_type": "approval", "assignees": ["user:bob"]},
    )
    for what in ("plain", "soon", "text", "bobs"):
        asked(http, f"{name}-{what}")


def texts(page: Page) -> Locator:
    return page.get_by_role("list", name="Open questions").get_by_role("link")


FILTERS = [
    ("Run", "{name}-soon", ["soon"]),
    ("Workflow", "ask", ["plain", "soon"]),
    ("Group", "none of that", []),
    ("Assignee", "user:bob", ["bobs"]),
    ("Type", "text", ["text"]),
    ("Deadline", "Within a day", ["soon"]),
]


@pytest.mark.usefixtures("questions")
@pytest.mark.parametrize(("field", "value", "found"), FILTERS, ids=[field for field, *_ in FILTERS])
def test_a_filter_finds_what_is_like_it_and_is_in_the_address(
    page: Page, name: str, field: str, value: str, found: list[str]
) -> None:
    page.goto(f"/inbox?view=all&q={name}")
    expect(texts(page)).to_have_count(4)
    page.get_by_role("button", name="Filters").click()
    control = page.get_by_label(field, exact=True)
    if field in ("Type", "Deadline"):
        control.select_option(value)
    else:
        control.fill(value.format(name=name))
    expect(texts(page)).to_have_count(len(found))
    for what in found:
        expect(page.get_by_role("link", name=f"{name} {what}")).to_be_visible()
    expect(page.get_by_role("button", name="Filters (1)")).to_be_visible()
    page.reload()
    expect(page.get_by_role("button", name="Filters (1)")).to_be_visible()
    expect(texts(page)).to_have_count(len(found))


@pytest.mark.usefixtures("questions")
def test_what_is_asked_meanwhile_is_there_if_its_workflow_is_looked_for(
    page: Page, http: httpx.Client, name: str
) -> None:
    page.goto(f"/inbox?view=all&q={name}&workflow=ask")
    expect(texts(page)).to_have_count(2)
    start(http, "put", f"{name}-other", f"{name} other", kwargs={"input_type": "text"})
    asked(http, f"{name}-other")
    start(http, "ask", f"{name}-new", f"{name} new")
    asked(http, f"{name}-new")
    expect(page.get_by_role("link", name=f"{name} new")).to_be_visible()
    expect(texts(page)).to_have_count(3)


@pytest.mark.usefixtures("questions")
def test_the_search_is_reached_by_a_key_and_finds_words_in_any_order(page: Page, name: str) -> None:
    page.goto("/inbox?view=all")
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type(f"SOON {name}")
    expect(texts(page)).to_have_count(1)
    expect(page.get_by_role("searchbox")).to_have_value(f"SOON {name}")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(page.get_by_role("heading", name=f"{name} soon")).to_be_focused()
    expect(page).to_have_url(re.compile(r"/inbox/.*q=SOON"))


@pytest.mark.usefixtures("questions")
def test_a_view_is_saved_renamed_and_removed(page: Page, name: str) -> None:
    page.goto(f"/inbox?view=all&q={name}&due=day")
    expect(texts(page)).to_have_count(1)
    page.get_by_role("button", name="Save view").click()
    page.get_by_label("Name", exact=True).fill("Urgent")
    page.keyboard.press("Enter")
    views = page.get_by_role("group", name="Saved views")
    expect(views.get_by_role("button", name="Urgent", pressed=True)).to_be_visible()
    page.goto("/inbox")
    views.get_by_role("button", name="Urgent").click()
    expect(texts(page)).to_have_count(1)
    expect(page).to_have_url(re.compile("due=day"))
    views.get_by_role("button", name="Rename").click()
    page.get_by_label("Name", exact=True).fill("Today")
    page.keyboard.press("Enter")
    expect(views.get_by_role("button", name="Today")).to_be_visible()
    expect(views.get_by_role("button", name="Urgent")).to_be_hidden()
    views.get_by_role("button", name="Remove").click()
    expect(views.get_by_role("button", name="Today")).to_be_hidden()
    page.reload()
    expect(texts(page)).to_have_count(1)
    expect(views.get_by_role("button", name="Today")).to_be_hidden()
