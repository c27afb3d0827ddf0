"""The inbox in Studio: a decision reaches the run, once, and no input is lost."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.server.conftest import asked, ended, path_of, start
from tests.studio.patience import UNDO_MILLISECONDS, install_clock


def put(http: httpx.Client, name: str) -> str:
    """Have a question asked whose text is its run's id."""
    start(http, "ask", name, name)
    return asked(http, name)


def result(http: httpx.Client, name: str) -> Any:
    return ended(http, name)["result"]


@pytest.fixture
def inbox(page: Page) -> Page:
    """The inbox, with a clock that runs normally until the test makes it jump."""
    install_clock(page)
    page.goto("/")
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
    return page


def opened(inbox: Page, text: str) -> None:
    inbox.get_by_role("link", name=text).click()
    expect(inbox.get_by_role("heading", name=text)).to_be_focused()


def test_a_question_appears_while_one_looks_and_is_approved_by_a_key(
    inbox: Page, http: httpx.Client, name: str
) -> None:
    put(http, name)
    opened(inbox, name)
    inbox.keyboard.press("a")
    expect(inbox.get_by_text(f"Approved: {name}")).to_be_visible()
    inbox.clock.fast_forward(UNDO_MILLISECONDS)
    assert result(http, name) == {"approved": True, "by": "me", "note": None}
    expect(inbox.get_by_text(f"Approved: {name}")).to_be_hidden()
    expect(inbox.get_by_role("link", name=name)).to_be_hidden()


def test_a_rejection_carries_its_reason(inbox: Page, http: httpx.Client, name: str) -> None:
    put(http, name)
    opened(inbox, name)
    inbox.get_by_label("Note").fill("paid twice")
    inbox.get_by_role("button", name="Reject").click()
    inbox.clock.fast_forward(UNDO_MILLISECONDS)
    assert result(http, name) == {"approved": False, "by": "me", "note": "paid twice"}


def test_a_decision_that_is_taken_back_is_never_sent(inbox: Page, http: httpx.Client, name: str) -> None:
    id = put(http, name)
    opened(inbox, name)
    inbox.get_by_label("Note").fill("a slip")
    inbox.get_by_role("button", name="Reject").click()
    inbox.keyboard.press("u")
    expect(inbox.get_by_role("link", name=name)).to_be_visible()
    inbox.clock.fast_forward(2 * UNDO_MILLISECONDS)
    opened(inbox, name)
    expect(inbox.get_by_label("Note")).to_have_value("a slip")
    assert http.get(f"/v1/questions/{path_of(id)}").json()["state"] == "pending"
    trail = http.get(f"/v1/questions/{path_of(id)}/history").json()["items"]
    assert {each["kind"] for each in trail} == {"asked", "viewed"}


def test_the_winner_is_named_and_input_survives_a_reload(inbox: Page, http: httpx.Client, name: str) -> None:
    id = put(http, name)
    opened(inbox, name)
    inbox.get_by_label("Note").fill("half a thought")
    inbox.reload()
    expect(inbox.get_by_label("Note")).to_have_value("half a thought")
    http.post(
        f"/v1/questions/{path_of(id)}/answer", json={"value": True, "user_id": "bob"}
    ).raise_for_status()
    expect(inbox.get_by_text("Approved by bob")).to_be_visible()
    expect(inbox.get_by_role("button", name="Approve")).to_be_hidden()


def test_of_two_deciding_at_once_the_second_sees_the_winner(
    inbox: Page, http: httpx.Client, name: str
) -> None:
    id = put(http, name)
    opened(inbox, name)
    inbox.get_by_role("button", name="Reject").click()
    http.post(
        f"/v1/questions/{path_of(id)}/answer", json={"value": True, "user_id": "bob"}
    ).raise_for_status()
    inbox.clock.fast_forward(UNDO_MILLISECONDS)
    toast = inbox.get_by_role("status").filter(has_text=f"Refused: {name}")
    expect(toast).to_be_visible()
    toast.get_by_role("link", name="Look").click()
    expect(inbox.get_by_text("Approved by bob")).to_be_visible()
    assert result(http, name)["approved"] is True


def test_what_was_decided_is_sent_when_the_page_is_left(inbox: Page, http: httpx.Client, name: str) -> None:
    put(http, name)
    opened(inbox, name)
    inbox.keyboard.press("a")
    inbox.goto("about:blank")
    assert result(http, name)["approved"] is True


def test_questions_are_chosen_and_left_by_keys(inbox: Page, http: httpx.Client, name: str) -> None:
    for each in (f"{name}-a", f"{name}-b"):
        put(http, each)
        expect(inbox.get_by_role("link", name=each)).to_be_visible()  # where a key leads to what is listed
    opened(inbox, f"{name}-a")
    inbox.keyboard.press("j")
    expect(inbox.get_by_role("heading", name=f"{name}-b")).to_be_focused()
    inbox.keyboard.press("k")
    expect(inbox.get_by_role("heading", name=f"{name}-a")).to_be_focused()
    inbox.keyboard.press("Escape")
    expect(inbox).to_have_url(inbox.url.split("/inbox")[0] + "/inbox")


@pytest.mark.parametrize("path", ["/", "/inbox", "/inbox/none%2Fat%20all"])
def test_each_view_has_an_address_of_its_own_that_no_other_page_frames(http: httpx.Client, path: str) -> None:
    shown = http.get(path, headers={"accept": "text/html"})
    assert shown.status_code == 200
    policy = shown.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in shown.text.replace("http-equiv", "")


def test_parts_that_are_none_are_not_found(http: httpx.Client) -> None:
    for asset in ("none.js", "..%2Findex.html", "%2e%2e%2fapp.py", ".made-of"):
        assert http.get(f"/assets/{asset}").status_code in (404, 422), asset
