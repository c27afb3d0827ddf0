""" "All like this" in Studio: it shows what will be approved, and binds exactly that."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.server.conftest import asked, ended, start
from tests.studio.decisions import result, show

SWITCH = "Approve all like this for a while"


def mail(page: Page, http: httpx.Client, name: str, **more: Any) -> None:
    start(http, "mail", name, f"{name}@example.org", **more)
    show(page, asked(http, name), "Send it?")
    page.get_by_label(SWITCH).check()


def said(page: Page) -> Locator:
    return page.get_by_role("group", name="All like this").get_by_role("status")


def rules_of(http: httpx.Client, name: str) -> list[dict[str, Any]]:
    rules = http.get("/v1/rules", params={"tool": "send_mail"}).json()["items"]
    return [rule for rule in rules if rule["question_id"].startswith(name)]


def test_what_is_said_before_is_what_is_approved_afterwards(
    page: Page, http: httpx.Client, name: str
) -> None:
    mail(page, http, name)
    expect(said(page)).to_contain_text(
        "For 15 minutes, every send_mail that this run asks about is approved in your name (me) without asking you"
    )
    expect(said(page)).to_contain_text("Hello")
    page.get_by_label("text", exact=True).uncheck()
    expect(said(page)).to_contain_text("Whatever text may be")
    page.get_by_role("combobox", name="Questions").select_option("of all runs")
    page.get_by_role("combobox", name="For").select_option("1 hour")
    page.get_by_label("Maximum uses").fill("2")
    expect(said(page)).to_contain_text("For 1 hour, up to 2 times each send_mail that any run asks about")
    page.get_by_role("button", name="Approve all like this").click()
    expect(page.get_by_text("Approved, and all like it for 1 hour: Send it?")).to_be_visible()
    assert result(page, http, name)["approved"] is True
    (rule,) = rules_of(http, name)
    assert (rule["by"], rule["arguments"], rule["max_uses"]) == ("me", {"/to": f"{name}@example.org"}, 2)
    assert rule["expires_at"] - rule["created_at"] == pytest.approx(3600, abs=5)
    start(http, "mail", f"{name}-2", f"{name}@example.org", "another text")
    assert ended(http, f"{name}-2")["result"] == {"approved": True, "by": "me", "rule": rule["id"]}
    start(http, "mail", f"{name}-3", "eve@example.org")
    asked(http, f"{name}-3")
    page.goto("/rules")
    row = page.get_by_role("row").filter(has=page.locator(f"a[href*='{name}']"))
    expect(row).to_contain_text("1 of 2 times")
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row).to_be_hidden()
    start(http, "mail", f"{name}-4", f"{name}@example.org")
    asked(http, f"{name}-4")


def test_only_what_is_of_a_session_may_go_on_until_it_is_revoked(
    page: Page, http: httpx.Client, name: str
) -> None:
    mail(page, http, name, session_id=f"talk-{name}")
    length = page.get_by_role("combobox", name="For")
    expect(length.get_by_role("option", name="until it is revoked")).to_have_count(0)
    page.get_by_role("combobox", name="Questions").select_option("of this session, including later runs")
    length.select_option("until it is revoked")
    page.get_by_label("to", exact=True).uncheck()
    page.get_by_label("text", exact=True).uncheck()
    expect(said(page)).to_contain_text(
        "Until it is revoked, every send_mail that runs of this session ask about, including later ones, is approved"
    )
    expect(said(page)).to_contain_text("whatever its arguments are")
    page.get_by_role("button", name="Approve all like this").click()
    assert result(page, http, name)["approved"] is True
    (rule,) = rules_of(http, name)
    assert (rule["session_id"], rule["arguments"]) == (f"talk-{name}", {})
    assert "expires_at" not in rule


def test_a_run_without_a_session_offers_none(page: Page, http: httpx.Client, name: str) -> None:
    mail(page, http, name)
    places = page.get_by_role("combobox", name="Questions").get_by_role("option")
    expect(places).to_have_text(["of this run", "of all runs"])


def test_what_was_chosen_is_there_again_when_the_decision_is_taken_back(
    page: Page, http: httpx.Client, name: str
) -> None:
    mail(page, http, name)
    question = page.url
    page.get_by_label("text", exact=True).uncheck()
    page.get_by_role("button", name="Approve all like this").click()
    page.get_by_role("button", name="Undo").click()
    page.goto(question)
    expect(page.get_by_label(SWITCH)).to_be_checked()
    expect(page.get_by_label("text", exact=True)).not_to_be_checked()
    assert rules_of(http, name) == []


def test_no_number_of_times_is_sent_that_is_none(page: Page, http: httpx.Client, name: str) -> None:
    mail(page, http, name)
    page.get_by_label("Maximum uses").fill("0")
    page.get_by_role("button", name="Approve all like this").click()
    expect(page.get_by_role("button", name="Undo")).to_be_hidden()
    expect(page.get_by_label("Maximum uses")).to_be_focused()


@pytest.mark.parametrize(
    "asks",
    [
        {"input_type": "approval"},
        {"action": ["pay", {"cents": 7}], "assignees": ["user:me", "user:bob"], "quorum": 2},
    ],
    ids=["without an action", "of several people"],
)
def test_nothing_hidden_or_shared_is_approved_along(
    page: Page, http: httpx.Client, name: str, asks: dict[str, Any]
) -> None:
    start(http, "put", name, name, kwargs=asks)
    show(page, asked(http, name), name)
    expect(page.get_by_role("button", name="Approve")).to_be_visible()
    expect(page.get_by_label(SWITCH)).to_be_hidden()


def test_an_edited_proposal_is_approved_alone(page: Page, http: httpx.Client, name: str) -> None:
    pay = {"cents": 700}
    start(http, "put", name, name, kwargs={"action": ["pay", pay], "proposal": pay})
    show(page, asked(http, name), name)
    page.get_by_label(SWITCH).check()
    page.get_by_role("button", name="Edit").click()
    page.get_by_role("spinbutton", name="cents").fill("500")
    expect(page.get_by_text("Others like it are approved with what is proposed")).to_be_visible()
    page.get_by_role("button", name="Approve as edited").click()
    assert result(page, http, name)["proposal"] == {"cents": 500}
    assert http.get("/v1/rules", params={"tool": "pay"}).json()["items"] == []
