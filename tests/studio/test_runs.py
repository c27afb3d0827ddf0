"""Runs in Studio: what happened to them, as it happens."""

from __future__ import annotations

import re

import httpx
from playwright.sync_api import Page, expect

from tests.server.conftest import asked, ended, path_of, start


def test_a_runs_timeline_grows_while_one_looks(page: Page, http: httpx.Client, name: str) -> None:
    start(http, "ask", name, f"Pay {name}?")
    id = asked(http, name)
    page.goto(f"/runs/{name}")
    timeline = page.get_by_role("list", name="Timeline")
    expect(timeline.get_by_text("Waits for an answer")).to_be_visible()
    http.post(
        f"/v1/questions/{path_of(id)}/answer", json={"value": False, "user_id": "bob", "note": "no money"}
    ).raise_for_status()
    expect(timeline.get_by_text("by bob: no money")).to_be_visible()
    expect(page.get_by_role("heading", name="Result")).to_be_visible()
    expect(page.get_by_text('"by": "bob"')).to_be_visible()


def test_a_question_leads_to_its_run_and_back(page: Page, http: httpx.Client, name: str) -> None:
    start(http, "ask", name, f"Pay {name}?")
    id = asked(http, name)
    page.goto(f"/inbox/{path_of(id)}")
    page.get_by_role("article").get_by_role("link", name=name).click()
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    page.get_by_role("link", name="Waits for an answer").click()
    expect(page.get_by_role("heading", name=f"Pay {name}?")).to_be_focused()


def test_a_failure_is_shown_with_its_traceback(page: Page, http: httpx.Client, name: str) -> None:
    start(http, "explode", name)
    ended(http, name)
    page.goto(f"/runs/{name}")
    expect(page.get_by_role("heading", name="Error")).to_be_visible()
    page.get_by_text("Traceback", exact=True).last.click()
    expect(page.get_by_text("Traceback (most recent call last)").last).to_be_visible()


def test_a_run_is_cancelled_by_who_looks_at_it(page: Page, http: httpx.Client, name: str) -> None:
    start(http, "ask", name)
    asked(http, name)
    page.goto(f"/runs/{name}")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("by user:me")).to_be_visible()
    assert ended(http, name)["state"] == "cancelled"


def test_runs_are_found_by_state_and_workflow_and_the_choice_is_in_the_address(
    page: Page, http: httpx.Client, name: str
) -> None:
    start(http, "ask", name)
    asked(http, name)
    page.goto("/runs?workflow=ask")
    expect(page.get_by_role("link", name=name)).to_be_visible()
    page.get_by_label("State").select_option("succeeded")
    expect(page.get_by_role("link", name=name)).to_be_hidden()
    expect(page).to_have_url(re.compile(r"workflow=ask.*state=succeeded"))
    page.reload()
    expect(page.get_by_label("State")).to_have_value("succeeded")


def test_an_id_with_any_characters_has_an_address(page: Page, http: httpx.Client, name: str) -> None:
    id = f"{name}/ü?#% <b>"
    start(http, "echo", id, 1)
    ended(http, id)
    page.goto("/runs")
    page.get_by_role("link", name=id).click()
    expect(page.get_by_role("heading", name=id)).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name=id)).to_be_visible()
