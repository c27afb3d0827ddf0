"""One question in Studio: its comments, its assignment, and its deadline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from examples.website_summary.processes import free_port
from signoff.server import Server
from tests.server.conftest import app_in, asked, ended, path_of, serving, start
from tests.server.proxied import PROXY, through
from tests.studio.decisions import ORDER, put, question, result, show
from tests.studio.patience import UNDO_MILLISECONDS
from tests.support import OnThread

HOUR = 3600


def say(http: httpx.Client, id: str, what: str, **body: Any) -> None:
    http.post(f"/v1/questions/{path_of(id)}/{what}", json=body).raise_for_status()


def comments(http: httpx.Client, id: str) -> list[tuple[str, str]]:
    trail = http.get(f"/v1/questions/{path_of(id)}/history").json()["items"]
    return [(each["by"], each["details"]["text"]) for each in trail if each["kind"] == "commented"]


# Comments


def test_a_comment_is_made_by_keys_and_other_comments_appear_live(
    page: Page, http: httpx.Client, name: str
) -> None:
    id = put(http, name)
    show(page, id, name)
    page.keyboard.press("c")
    page.keyboard.type("Is that the order of May?")
    page.keyboard.press("Control+Enter")
    said = page.get_by_role("region", name="Comments").get_by_role("listitem")
    expect(said.filter(has_text="Is that the order of May?")).to_contain_text("me")
    expect(page.get_by_label("Comment", exact=True)).to_have_value("")
    say(http, id, "comments", text="Yes, it is.", user_id="bob")
    expect(said.filter(has_text="Yes, it is.")).to_contain_text("bob")
    assert comments(http, id) == [("me", "Is that the order of May?"), ("bob", "Yes, it is.")]
    assert question(http, id)["state"] == "pending"


def test_a_comment_that_is_not_kept_is_not_lost_and_is_made_once(
    page: Page, http: httpx.Client, name: str
) -> None:
    id = put(http, name)
    show(page, id, name)

    def lose_the_reply(route: Any) -> None:
        route.fetch()
        route.fulfill(status=409, json={"type": "urn:signoff:Gone", "title": "The reply was lost"})

    page.route("**/comments", lose_the_reply)
    page.get_by_label("Comment", exact=True).fill("once")
    page.get_by_role("button", name="Comment").click()
    expect(page.get_by_role("alert")).to_contain_text("The reply was lost")
    expect(page.get_by_label("Comment", exact=True)).to_have_value("once")
    page.unroute("**/comments")
    page.get_by_role("button", name="Comment").click()
    expect(page.get_by_role("alert")).to_be_hidden()
    expect(page.get_by_label("Comment", exact=True)).to_have_value("")
    assert comments(http, id) == [("me", "once")]


def test_a_closed_question_takes_comments_and_keeps_a_draft(
    page: Page, http: httpx.Client, name: str
) -> None:
    id = put(http, name)
    show(page, id, name)
    page.get_by_label("Comment", exact=True).fill("half a thought")
    say(http, id, "answer", value=True, user_id="bob")
    expect(page.get_by_text("Approved by bob")).to_be_visible()
    page.get_by_role("button", name="Comment").click()
    expect(page.get_by_role("listitem").filter(has_text="half a thought")).to_be_visible()
    assert comments(http, id) == [("me", "half a thought")]


# Who answers


def test_a_question_is_claimed_and_released_by_a_key(page: Page, http: httpx.Client, name: str) -> None:
    id = put(http, name)
    show(page, id, name)
    page.keyboard.press("t")
    expect(page.get_by_text("claimed by user:me")).to_be_visible()
    assert question(http, id)["progress"]["claimed_by"] == "user:me"
    page.keyboard.press("t")
    expect(page.get_by_role("button", name="Claim")).to_be_visible()
    assert "claimed_by" not in question(http, id)["progress"]
    expect(page.get_by_role("listitem").filter(has_text="released it")).to_be_visible()


def test_a_question_claimed_by_another_is_theirs_and_input_stays(
    page: Page, http: httpx.Client, name: str
) -> None:
    id = put(http, name)
    show(page, id, name)
    page.get_by_label("Note").fill("half a thought")
    say(http, id, "claim", user_id="bob")
    expect(page.get_by_text("user:bob has claimed this")).to_be_visible()
    expect(page.get_by_role("button", name="Approve")).to_be_hidden()
    say(http, id, "release", user_id="bob")
    expect(page.get_by_label("Note")).to_have_value("half a thought")


def test_a_question_is_delegated_by_keys_and_a_refusal_keeps_the_input(
    page: Page, http: httpx.Client, name: str
) -> None:
    id = put(http, name, assignees=["user:me"])
    show(page, id, name)
    page.keyboard.press("d")
    page.keyboard.type("group:")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Failed")
    expect(page.get_by_label("To")).to_have_value("group:")
    page.get_by_label("To").fill("bob, group:finance")
    page.keyboard.press("Tab")
    page.keyboard.type("away")
    page.keyboard.press("Enter")
    expect(page.get_by_text("assigned to user:bob, group:finance")).to_be_visible()
    expect(page.get_by_role("button", name="Approve")).to_be_hidden()
    expect(page.get_by_role("listitem").filter(has_text="delegated it to user:bob")).to_contain_text("away")
    assert question(http, id)["assignees"] == ["user:bob", "group:finance"]


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    app = app_in(tmp_path_factory.mktemp("deciding"))
    with OnThread(lambda: serving(app, proxy=PROXY)) as server:
        yield server


def as_somebody(browser: Browser, server: Server, user: str, roles: str) -> Page:
    headers = {"X-Forwarded-User": user, "X-Forwarded-Roles": roles}
    return browser.new_context(base_url=server.url, extra_http_headers=headers).new_page()


def test_an_operator_has_others_answer_what_they_are_not_asked(
    browser: Browser, proxied: Server, name: str
) -> None:
    with through(proxied, "boss", roles="operator") as http:
        id = put(http, name, assignees=["user:ana"])
        page = as_somebody(browser, proxied, "boss", "operator")
        show(page, id, name)
        expect(page.get_by_text("This question is assigned to others. You are boss.")).to_be_visible()
        expect(page.get_by_role("button", name="Claim")).to_be_hidden()
        page.keyboard.press("d")
        page.keyboard.type("eve")
        page.keyboard.press("Enter")
        expect(page.get_by_text("assigned to user:eve")).to_be_visible()
        assert question(http, id)["assignees"] == ["user:eve"]
        page.context.close()


def test_an_assignee_without_operator_rights_sees_no_run_and_no_reassign(
    browser: Browser, proxied: Server, name: str
) -> None:
    with through(proxied, "boss", roles="operator") as http:
        id = put(http, name, assignees=["user:ana"])
    page = as_somebody(browser, proxied, "ana", "responder")
    show(page, id, name)
    expect(page.get_by_role("button", name="Delegate")).to_be_visible()
    expect(page.get_by_role("button", name="Reassign")).to_be_hidden()
    expect(page.get_by_text("The run so far")).to_be_hidden()
    page.context.close()


def test_of_several_who_decide_each_sees_who_has_voted(page: Page, http: httpx.Client, name: str) -> None:
    start(http, "approve", name, kwargs={"quorum": [2, 3]})
    id = asked(http, name)
    say(http, id, "answer", value=True, user_id="bob", note="fine")
    show(page, id, "Deploy?")
    votes = page.get_by_role("region", name="Votes")
    expect(votes).to_contain_text("1 of 2 approvals, of up to 3 voters")
    expect(votes).to_contain_text("bob approved")
    expect(votes).to_contain_text("fine")
    expect(page.get_by_role("button", name="Claim")).to_be_hidden()
    page.keyboard.press("r")
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    page.clock.fast_forward(UNDO_MILLISECONDS)
    page.goto(f"/inbox/{path_of(id)}")
    expect(page.get_by_text("You have voted: rejected.")).to_be_visible()
    say(http, id, "answer", value=True, user_id="eve")
    assert ended(http, name)["result"] == {"approved": True, "by": "eve", "votes": 3}
    expect(page.get_by_text("Approved by eve")).to_be_visible()


# What is shown


def test_the_run_so_far_what_is_known_beside_and_attachments_are_shown(
    page: Page, http: httpx.Client, name: str
) -> None:
    metadata = {"order": "o-1", "paid": True, "tags": ["a", "b"], "customer": {"name": "Ana"}}
    files = [{"name": "invoice", "url": "https://files.example/1.pdf", "media_type": "application/pdf"}]
    id = put(http, name, metadata=metadata, attachments=files)
    show(page, id, name)
    for text in ("o-1", "yes", "a, b", '"Ana"', "files.example, application/pdf"):
        expect(page.get_by_text(text)).to_be_visible()
    link = page.get_by_role("link", name="invoice")
    assert link.get_attribute("href") == "https://files.example/1.pdf"
    assert link.get_attribute("rel") == "noopener noreferrer"
    page.get_by_text("The run so far").click()
    story = page.get_by_role("list", name="Timeline")
    expect(story.get_by_text("started")).to_be_visible()
    expect(story.get_by_text(name, exact=True)).to_be_visible()


def test_what_turns_the_direction_of_writing_is_seen(page: Page, http: httpx.Client, name: str) -> None:
    id = put(http, name, metadata={"to": "ana\u202egro.live"})
    show(page, id, name)
    say(http, id, "comments", text="see\u200bn", user_id="bob")
    expect(page.get_by_text("ana\\u202egro.live")).to_be_visible()
    expect(page.get_by_text("see\\u200bn")).to_be_visible()


def test_on_a_phone_nothing_is_wider_than_the_page(page: Page, http: httpx.Client, name: str) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    lines = [{"what": "a word that is long " * 3, "amount": 7}]
    id = put(http, name, proposal={"lines": lines}, metadata={"key": "x" * 80}, skippable=True)
    show(page, id, name)
    page.keyboard.press("e")
    page.keyboard.press("d")
    expect(page.get_by_role("form", name="Delegate")).to_be_visible()
    expect(page.get_by_role("region", name="Changes")).to_be_visible()
    assert page.evaluate("document.querySelector('.inbox-detail').scrollWidth") <= 360


# Later


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("list", name="Open questions").get_by_role("link", name=name)


def test_a_snoozed_question_is_elsewhere_until_it_comes_back_by_itself(
    page: Page, http: httpx.Client, name: str
) -> None:
    id = put(http, name)
    show(page, id, name)
    page.keyboard.press("z")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(row(page, name)).to_be_hidden()
    page.get_by_role("button", name="Snoozed").click()
    expect(row(page, name)).to_be_visible()
    page.reload()
    expect(row(page, name)).to_be_visible()
    page.get_by_role("button", name="Mine").click()
    expect(row(page, name)).to_be_hidden()
    page.clock.fast_forward(HOUR * 1000)
    expect(row(page, name)).to_be_visible()


def test_a_snoozed_question_is_woken(page: Page, http: httpx.Client, name: str) -> None:
    id = put(http, name)
    show(page, id, name)
    page.get_by_label("Later").select_option("Until tomorrow, 9:00")
    page.get_by_role("button", name="Snooze", exact=True).click()
    expect(row(page, name)).to_be_hidden()
    page.goto(f"/inbox/{path_of(id)}")
    page.get_by_role("button", name="End snooze").click()
    expect(row(page, name)).to_be_visible()


def test_a_snoozed_question_comes_back_before_its_deadline(page: Page, http: httpx.Client, name: str) -> None:
    start(http, "ask", name, name, kwargs={"timeout_seconds": 1.5 * HOUR})
    show(page, asked(http, name), name)
    page.get_by_label("Later").select_option("Until tomorrow, 9:00")
    page.get_by_role("button", name="Snooze", exact=True).click()
    expect(row(page, name)).to_be_hidden()
    page.clock.fast_forward(0.5 * HOUR * 1000)
    expect(row(page, name)).to_be_visible()
    row(page, name).click()
    expect(page.get_by_role("button", name="Approve")).to_be_visible()
    expect(page.get_by_role("button", name="Snooze", exact=True)).to_be_hidden()


# Two at once, and servers that go


def test_of_two_browsers_one_wins_and_the_other_keeps_its_input(
    browser: Browser, served: Server, http: httpx.Client, name: str
) -> None:
    id = put(http, name)
    pages: list[Page] = []
    for user in ("ana", "bob"):
        page = browser.new_context(base_url=served.url).new_page()
        page.add_init_script(f"localStorage.setItem('signoff.name', '{user}')")
        show(page, id, name)
        page.get_by_label("Note").fill(f"says {user}")
        pages.append(page)
    first, second = pages
    first.get_by_role("button", name="Approve").click()
    second.get_by_role("button", name="Reject").click()
    got = result(first, http, name)
    assert (got["value"], got["user_id"], got["note"]) == (True, "ana", "says ana")
    second.clock.fast_forward(UNDO_MILLISECONDS)
    toast = second.get_by_role("status").filter(has_text=f"Refused: {name}")
    toast.get_by_role("link", name="Look").click()
    expect(second.get_by_text("Approved by ana")).to_be_visible()
    expect(second.get_by_role("region", name="Your input")).to_contain_text("says bob")
    for page in pages:
        page.context.close()


def test_what_was_half_filled_while_the_server_was_restarted_is_sent(
    browser: Browser, tmp_path: Path, name: str
) -> None:
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with OnThread(lambda: serving(app_in(tmp_path), port=port)):
        with httpx.Client(base_url=address, trust_env=False, verify=False, timeout=60) as http:
            id = put(http, name, input_type="form", answer_type=ORDER)
        page = browser.new_context(base_url=address).new_page()
        show(page, id, name)
        page.get_by_label("amount").fill("7")
    with (
        OnThread(lambda: serving(app_in(tmp_path), port=port)),
        httpx.Client(base_url=address, trust_env=False, verify=False, timeout=60) as http,
    ):
        page.get_by_label("code").fill("MAY")
        page.get_by_role("button", name="Answer").click()
        assert result(page, http, name)["value"] == {"amount": 7, "code": "MAY"}
        page.context.close()
