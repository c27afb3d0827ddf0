"""Many tabs of one browser: they share one stream of events, so that none waits for a connection."""

from __future__ import annotations

import re

import httpx
from playwright.sync_api import Page, expect

from tests.server.conftest import asked, start
from tests.studio.patience import patient

TABS = 7
"""More than a browser has connections to a server over HTTP/1.1."""


def opened(page: Page, address: str) -> list[Page]:
    """So many tabs, each of which shows the inbox; none takes one that is slow for frozen."""
    patient(page.context)
    tabs = [page, *(page.context.new_page() for _ in range(TABS - 1))]
    for tab in tabs:
        tab.goto(address)
        expect(tab.get_by_role("heading", name="Inbox")).to_be_visible()
    return tabs


def streams(page: Page) -> list[str]:
    """What is asked for of this context's streams from now on."""
    found: list[str] = []
    page.context.on(
        "request", lambda request: "/questions/events" in request.url and found.append(request.url)
    )
    return found


def see(tabs: list[Page], http: httpx.Client, name: str) -> None:
    """Have a question asked, and seen in every tab."""
    start(http, "ask", name, f"Pay {name}?")
    asked(http, name)
    for tab in tabs:
        expect(tab.get_by_role("link", name=f"Pay {name}?")).to_be_visible()


def test_seven_tabs_are_served_by_one_stream(page: Page, http: httpx.Client, name: str) -> None:
    asked_for = streams(page)
    tabs = opened(page, "/inbox?view=all")
    see(tabs, http, name)
    assert len(asked_for) == 1


def test_another_tab_goes_on_when_the_one_that_has_the_stream_is_closed(
    page: Page, http: httpx.Client, name: str
) -> None:
    tabs = opened(page, "/inbox?view=all")
    see(tabs, http, f"{name}-1")
    asked_for = streams(page)
    for count in (1, 2):
        tabs.pop(0).close()
        see(tabs, http, f"{name}-{count + 1}")
        assert len(asked_for) == count


def test_a_tab_has_its_own_stream_if_the_one_that_leads_is_frozen(
    page: Page, http: httpx.Client, name: str
) -> None:
    page.goto("/inbox?view=all")
    see([page], http, f"{name}-1")
    page.evaluate(
        "BroadcastChannel.prototype.postMessage = () => {}"  # as if it ran no more
    )
    other = page.context.new_page()
    other.goto("/inbox?view=all")
    see([other], http, f"{name}-2")


def test_where_a_browser_has_no_locks_each_tab_has_its_own_stream(
    page: Page, http: httpx.Client, name: str
) -> None:
    page.context.add_init_script("delete Navigator.prototype.locks")
    asked_for = streams(page)
    other = page.context.new_page()
    for tab in (page, other):
        tab.goto("/inbox?view=all")
    see([page, other], http, name)
    assert len(asked_for) == 2


TURNED_TO = """
isShown => {
  Object.defineProperty(document, "visibilityState", { get: () => isShown ? "visible" : "hidden", configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}
"""
"""The browser of these tests takes every tab for the one that is looked at."""


def test_seven_tabs_of_waiting_runs_leave_connections_to_each_other(
    page: Page, http: httpx.Client, name: str
) -> None:
    tabs = list[Page]()
    for number in range(TABS):
        start(http, "ask", f"{name}-{number}", "Pay?")
        asked(http, f"{name}-{number}")
        tab = page.context.new_page()
        tab.goto(f"/runs/{name}-{number}")
        expect(tab.get_by_role("link", name="Waits for an answer")).to_be_visible()
        tab.evaluate(TURNED_TO, False)
        tabs.append(tab)
    assert http.post(f"/v1/runs/{name}-0/cancel", json={}).status_code == 200
    tabs[0].evaluate(TURNED_TO, True)
    expect(tabs[0].get_by_role("main").get_by_text("cancelled").first).to_be_visible()


def test_hidden_tabs_without_locks_leave_connections_and_catch_up(
    page: Page, http: httpx.Client, name: str
) -> None:
    page.context.add_init_script("delete Navigator.prototype.locks")
    tabs = [page, *(page.context.new_page() for _ in range(TABS - 1))]
    for tab in tabs:
        tab.goto("/inbox?view=all")
        expect(tab.get_by_role("heading", name="Inbox")).to_be_visible()
        tab.evaluate(TURNED_TO, False)
    start(http, "ask", name, f"Pay {name}?")
    asked(http, name)
    tabs[0].evaluate(TURNED_TO, True)
    expect(tabs[0].get_by_role("link", name=f"Pay {name}?")).to_be_visible()


def test_the_title_of_a_hidden_tab_without_locks_counts_new_questions(
    page: Page, http: httpx.Client, name: str
) -> None:
    page.context.add_init_script("delete Navigator.prototype.locks")
    start(http, "ask", f"{name}-1", "Pay?")
    asked(http, f"{name}-1")
    page.clock.install()
    page.goto("/inbox")
    expect(page).to_have_title(re.compile(r"\(\d+\)"))
    before = page.title()
    page.evaluate(TURNED_TO, False)
    page.clock.run_for(2_000)
    start(http, "ask", f"{name}-2", "Pay?")
    asked(http, f"{name}-2")
    page.clock.run_for(21_000)
    expect(page).not_to_have_title(before)
