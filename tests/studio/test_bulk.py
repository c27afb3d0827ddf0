"""Deciding several questions together in Studio: a summary first, then each counts by itself."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.server.conftest import asked, ended, path_of, start
from tests.studio.patience import UNDO_MILLISECONDS, install_clock


@pytest.fixture
def inbox(page: Page, name: str) -> Page:
    """The inbox, of what this test asks."""
    install_clock(page)
    page.goto(f"/inbox?q={name}&view=all")
    expect(page.get_by_text("No matching questions")).to_be_visible()
    return page


def put(http: httpx.Client, name: str, count: int) -> list[str]:
    """Have so many asked, of runs that end in their number."""
    for n in range(count):
        start(http, "ask", f"{name}-{n}", f"{name}-{n}?")
    return [asked(http, f"{name}-{n}") for n in range(count)]


def link(inbox: Page, text: str) -> Locator:
    return inbox.get_by_role("link", name=text)


def summary(inbox: Page) -> Locator:
    return inbox.get_by_role("dialog", name=re.compile("Approve|Reject"))


def test_all_that_are_shown_are_rejected_with_one_reason_by_keys(
    inbox: Page, http: httpx.Client, name: str
) -> None:
    put(http, name, 3)
    expect(link(inbox, f"{name}-2?")).to_be_visible()
    inbox.keyboard.press("*")
    expect(inbox.get_by_text("3 selected")).to_be_visible()
    inbox.keyboard.press("Shift+R")
    expect(summary(inbox).get_by_role("heading", name="Reject 3 questions?")).to_be_visible()
    expect(summary(inbox).get_by_text("3 × ask")).to_be_visible()
    expect(inbox.get_by_label("Reason, for each of them")).to_be_focused()
    inbox.keyboard.type("out of money")
    inbox.keyboard.press("Control+Enter")
    expect(inbox.get_by_text("Rejecting 3 questions")).to_be_visible()
    expect(link(inbox, f"{name}-0?")).to_be_hidden()
    inbox.clock.fast_forward(UNDO_MILLISECONDS)
    expect(inbox.get_by_text("3 questions rejected")).to_be_visible()
    for n in range(3):
        assert ended(http, f"{name}-{n}")["result"] == {"approved": False, "by": "me", "note": "out of money"}
    expect(inbox.get_by_text("No matching questions")).to_be_visible()


def test_many_decisions_are_undone_by_one_key_and_keep_the_reason(
    inbox: Page, http: httpx.Client, name: str
) -> None:
    ids = put(http, name, 2)
    expect(link(inbox, f"{name}-1?")).to_be_visible()
    inbox.keyboard.press("*")
    inbox.keyboard.press("Shift+A")
    inbox.keyboard.type("as agreed")
    summary(inbox).get_by_role("button", name="Approve 2 questions").click()
    expect(link(inbox, f"{name}-0?")).to_be_hidden()
    inbox.keyboard.press("u")
    expect(link(inbox, f"{name}-0?")).to_be_visible()
    inbox.clock.fast_forward(2 * UNDO_MILLISECONDS)
    inbox.keyboard.press("*")
    inbox.keyboard.press("Shift+R")
    expect(inbox.get_by_label("Reason, for each of them")).to_have_value("as agreed")
    assert {http.get(f"/v1/questions/{path_of(id)}").json()["state"] for id in ids} == {"pending"}


def test_what_cannot_be_decided_together_is_said_with_why_and_stays_open(
    inbox: Page, http: httpx.Client, name: str
) -> None:
    more = {"assignees": ["user:bob"]}
    start(http, "put", f"{name}-mine", f"{name} mine", kwargs={"action": ["pay", {"cents": 700}]})
    start(http, "put", f"{name}-text", f"{name} text", kwargs={"input_type": "text"})
    start(http, "put", f"{name}-bobs", f"{name} bobs", kwargs={"input_type": "approval", **more})
    texts, bobs = asked(http, f"{name}-text"), asked(http, f"{name}-bobs")
    for what in ("mine", "text", "bobs"):
        expect(link(inbox, f"{name} {what}")).to_be_visible()
    inbox.get_by_label("Select all 3 shown").check()
    inbox.get_by_role("button", name="Approve selected").click()
    expect(summary(inbox).get_by_role("heading", name="Approve 1 question?")).to_be_visible()
    summary(inbox).get_by_text("1 × pay").click()
    expect(summary(inbox).get_by_text('{"cents":700}')).to_be_visible()
    others = summary(inbox).get_by_role("region", name="Not decided")
    expect(others.get_by_text("1 × asks for a text")).to_be_visible()
    expect(others.get_by_text("1 × assigned to others")).to_be_visible()
    summary(inbox).get_by_role("button", name="Approve 1 question").click()
    inbox.clock.fast_forward(UNDO_MILLISECONDS)
    expect(inbox.get_by_text("1 question approved")).to_be_visible()
    assert ended(http, f"{name}-mine")["result"]["user_id"] == "me"
    for id in (texts, bobs):
        assert http.get(f"/v1/questions/{path_of(id)}").json()["state"] == "pending"


def test_a_bulk_decision_names_the_winners_of_lost_races(inbox: Page, http: httpx.Client, name: str) -> None:
    ids = put(http, name, 3)
    expect(link(inbox, f"{name}-2?")).to_be_visible()
    inbox.keyboard.press("*")
    inbox.keyboard.press("Shift+A")
    summary(inbox).get_by_role("button", name="Approve 3 questions").click()
    http.post(
        f"/v1/questions/{path_of(ids[1])}/answer", json={"value": False, "user_id": "bob"}
    ).raise_for_status()
    inbox.clock.fast_forward(UNDO_MILLISECONDS)
    expect(inbox.get_by_text("2 questions approved, 1 refused")).to_be_visible()
    inbox.get_by_role("button", name="Show").click()
    refused = inbox.get_by_role("dialog", name="Refused answers")
    expect(refused.get_by_text("answered by bob")).to_be_visible()
    refused.get_by_role("link", name=f"{name}-1?").click()
    expect(inbox.get_by_text("Rejected by bob")).to_be_visible()


def test_what_could_not_be_sent_is_sent_again_and_counts_once(
    inbox: Page, http: httpx.Client, name: str
) -> None:
    put(http, name, 2)
    expect(link(inbox, f"{name}-1?")).to_be_visible()
    inbox.keyboard.press("*")
    inbox.keyboard.press("Shift+A")

    def lose_the_reply(route: Route) -> None:
        route.fetch()
        route.fulfill(status=400, body="")

    inbox.route("**/v1/questions/answers", lose_the_reply, times=1)
    summary(inbox).get_by_role("button", name="Approve 2 questions").click()
    inbox.clock.fast_forward(UNDO_MILLISECONDS)
    expect(inbox.get_by_text("0 questions approved, 2 not sent")).to_be_visible()
    inbox.get_by_role("button", name="Show").click()
    inbox.get_by_role("button", name="Send again").click()
    expect(inbox.get_by_text("2 questions approved", exact=True)).to_be_visible()
    assert ended(http, f"{name}-0")["result"]["approved"] is True


def test_some_are_selected_one_by_one_and_from_one_to_another(
    inbox: Page, http: httpx.Client, name: str
) -> None:
    put(http, name, 5)
    expect(link(inbox, f"{name}-4?")).to_be_visible()
    texts = inbox.get_by_role("list", name="Open questions").get_by_role("link").all_inner_texts()
    order = [text.splitlines()[0] for text in texts]
    link(inbox, order[0]).click()
    expect(inbox.get_by_role("heading", name=order[0])).to_be_focused()
    inbox.keyboard.press("x")
    expect(inbox.get_by_text("1 selected")).to_be_visible()
    link(inbox, order[3]).click(modifiers=["Shift"])
    expect(inbox.get_by_text("4 selected")).to_be_visible()
    expect(inbox.get_by_label(f"Select: {order[2]}")).to_be_checked()
    inbox.get_by_label(f"Select: {order[1]}").uncheck()
    expect(inbox.get_by_text("3 selected")).to_be_visible()
    inbox.keyboard.press("Escape")
    expect(inbox.get_by_text("3 selected")).to_be_hidden()
    expect(inbox.get_by_role("heading", name=order[0])).to_be_visible()


def test_what_is_no_longer_shown_is_no_longer_selected(inbox: Page, http: httpx.Client, name: str) -> None:
    put(http, name, 2)
    expect(link(inbox, f"{name}-1?")).to_be_visible()
    inbox.keyboard.press("*")
    expect(inbox.get_by_text("2 selected")).to_be_visible()
    inbox.get_by_role("searchbox", name="Search").fill(f"{name}-1")
    expect(inbox.get_by_text("1 selected")).to_be_visible()
