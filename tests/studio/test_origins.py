"""Studio shows origins: of an answer, in the question's history, and in the audit trail."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.server.conftest import asked, ended, path_of, start
from tests.studio.pictures import take_picture

AT = "from 127.0.0.1"


def answered_by_link(http: httpx.Client, name: str) -> str:
    """A question that was claimed on a laptop, talked about, and answered with a link."""
    start(http, "sign", name, ["user:ana"])
    question = asked(http, name)
    path = f"/v1/questions/{path_of(question)}"
    http.post(f"{path}/claim", json={"user_id": "ana"}).raise_for_status()
    http.post(f"{path}/comments", json={"user_id": "bob", "text": "why?"}).raise_for_status()
    link = http.post(f"{path}/links", json={"user_id": "ana"}).json()
    page = http.get(link["path"]).text
    digest = page.partition('name="digest" value="')[2].partition('"')[0]
    http.post(link["path"], data={"digest": digest, "decision": "0"}).raise_for_status()
    return question


def test_a_questions_page_says_from_where_it_was_answered_and_claimed(
    page: Page, http: httpx.Client, name: str
) -> None:
    question = answered_by_link(http, name)
    page.goto(f"/inbox/{question}")
    expect(page.get_by_role("heading", name=f"Approved by ana, with a link, {AT}")).to_be_visible()
    story = page.get_by_role("region", name="Comments").get_by_role("listitem")
    expect(story.filter(has_text="claimed it")).to_contain_text(f"ana claimed it, not signed in, {AT}")
    expect(story.filter(has_text="why?")).not_to_contain_text("127.0.0.1")


def test_a_runs_timeline_says_from_where_it_was_answered(page: Page, http: httpx.Client, name: str) -> None:
    answered_by_link(http, name)
    ended(http, name)
    page.goto(f"/runs/{name}")
    items = page.get_by_role("list", name="Timeline").get_by_role("listitem")
    expect(items.filter(has_text="The question")).to_contain_text(f"by ana, with a link, {AT}")


def test_who_opens_a_question_that_they_may_answer_has_seen_it(
    page: Page, http: httpx.Client, name: str
) -> None:
    for run, assignees in ((name, ["user:me"]), (f"{name}-2", ["user:bob"])):
        start(http, "sign", run, assignees)
    mine, others = asked(http, name), asked(http, f"{name}-2")
    with page.expect_response("**/view") as viewed:
        page.goto(f"/inbox/{mine}")
    assert viewed.value.status == 200
    page.goto(f"/inbox/{others}?view=all")
    expect(page.get_by_text("This question is assigned to others")).to_be_visible()
    [trail, not_seen] = [
        http.get(f"/v1/questions/{path_of(id)}/history").json()["items"] for id in (mine, others)
    ]
    [event] = [each for each in trail if each["kind"] == "viewed"]
    shown = http.get(f"/v1/questions/{path_of(mine)}").json()
    assert (event["by"], event["details"]["digest"]) == ("me", shown["data"]["digest"])
    assert event["origin"] == {"way": "open", "address": "127.0.0.1"}
    assert [each["kind"] for each in not_seen] == ["asked"]


@pytest.mark.usefixtures("open_trail")
def test_the_audit_page_says_from_where_each_thing_came_and_by_what(
    page: Page, http: httpx.Client, name: str
) -> None:
    question = answered_by_link(http, name)
    page.goto(f"/audit?question={question}")
    rows = page.get_by_role("row")
    expect(rows.filter(has_text="claimed")).to_contain_text(f"not signed in, {AT}")
    answer = rows.filter(has_text="resolved")
    expect(answer).to_contain_text(f"with a link, {AT}")
    answer.get_by_text("Details").click()
    [made] = http.get(f"/v1/questions/{path_of(question)}/links").json()["items"]
    expect(answer).to_contain_text(made["id"])
    expect(rows.filter(has_text="asked")).not_to_contain_text("from")
    for look in ("light", "dark"):
        page.emulate_media(color_scheme=look)
        take_picture(page, f"audit-from-where-{look}")


@pytest.mark.usefixtures("open_trail")
def test_on_a_phone_the_audit_page_has_it_on_each_card(page: Page, http: httpx.Client, name: str) -> None:
    question = answered_by_link(http, name)
    page.set_viewport_size({"width": 375, "height": 740})
    for place, words in (
        (f"/audit?question={question}", "with a link"),
        (f"/inbox/{question}", "claimed it"),
    ):
        page.goto(place)
        expect(page.get_by_text(words).first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        take_picture(page, f"from-where-{words}-phone", full_page=True)
