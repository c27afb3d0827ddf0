"""On a laptop without sign-in, users enter their groups, and see the questions of these."""

from __future__ import annotations

import httpx
from playwright.sync_api import Page, expect

from tests.server.conftest import ended, path_of
from tests.studio.decisions import put
from tests.studio.patience import UNDO_MILLISECONDS, install_clock


def test_what_a_group_is_asked_is_answered_by_who_says_that_they_are_in_it(
    page: Page, http: httpx.Client, name: str
) -> None:
    id = put(http, name, assignees=["group:finance"])
    install_clock(page)
    page.goto("/inbox")
    expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
    page.get_by_role("link", name="All", exact=True).click()
    expect(page.get_by_role("link", name=name)).to_be_visible()
    page.goto("/inbox")
    groups = page.get_by_label("Your groups").filter(visible=True)
    groups.fill("ops, finance")
    page.get_by_role("link", name=name).click()
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text(f"Approved: {name}")).to_be_visible()
    page.clock.fast_forward(UNDO_MILLISECONDS)
    assert ended(http, name)["state"] == "succeeded"
    assert http.get(f"/v1/questions/{path_of(id)}").json()["settled_by"] == "me"
    trail = http.get(f"/v1/questions/{path_of(id)}/history").json()["items"]
    assert {each["kind"] for each in trail} == {"asked", "viewed", "resolved"}, "nothing was refused"
    page.reload()
    expect(groups).to_have_value("ops, finance")


def test_on_a_phone_groups_are_said_in_the_menu(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto("/inbox")
    groups = page.get_by_label("Your groups").filter(visible=True)
    expect(groups).to_have_count(0)
    page.get_by_role("button", name="More").click()
    groups.fill("finance")
    expect(groups).to_have_value("finance")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
