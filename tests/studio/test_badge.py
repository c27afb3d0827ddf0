"""Studio's signs of an unattended inbox: in the tab, and by notifications."""

from __future__ import annotations

import re

import httpx
from playwright.sync_api import Page, expect

from tests.server.conftest import asked, path_of, start

NOTICES = """
window.notices = [];
window.Notification = class {
    static permission = location.protocol === "http:" ? (localStorage.getItem("granted") ?? "default") : "default";
    static async requestPermission() {
        localStorage.setItem("granted", "granted");
        return (Notification.permission = "granted");
    }
    constructor(title, options) { window.notices.push({ title, ...options, at: this }); }
    close() {}
};
"""
"""Chromium without a screen shows none: what would be shown is listed."""


def put(http: httpx.Client, name: str, **more: object) -> str:
    start(http, "put", name, name, kwargs={"input_type": "approval", **more})
    return asked(http, name)


def answer(http: httpx.Client, id: str) -> None:
    said = {"value": True, "user_id": "me"}
    http.post(f"/v1/questions/{path_of(id)}/answer", json=said).raise_for_status()


def test_the_tab_says_how_many_wait_for_me_whatever_others_are_asked(
    page: Page, http: httpx.Client, name: str
) -> None:
    page.goto("/inbox")
    expect(page).to_have_title("Signoff")
    id = put(http, name)
    put(http, f"{name}-bobs", assignees=["user:bob"])
    expect(page).to_have_title("(1) Signoff")
    icon = page.locator("link[rel=icon]")
    expect(icon).to_have_attribute("href", re.compile("icon-waiting"))
    assert page.request.get(icon.get_attribute("href") or "").ok
    page.get_by_role("button", name="All").click()
    expect(page.get_by_label("2 open")).to_be_visible()
    expect(page).to_have_title("(1) Signoff")
    page.get_by_role("link", name="Runs").click()
    expect(page).to_have_title("(1) Runs - Signoff")
    page.get_by_role("link", name="Inbox").click()
    answer(http, id)
    expect(page).to_have_title("Signoff")
    expect(icon).not_to_have_attribute("href", re.compile("icon-waiting"))


def test_a_new_question_is_announced_once_in_all_tabs_and_opens_on_click(
    page: Page, http: httpx.Client, name: str
) -> None:
    page.context.add_init_script(NOTICES)
    other = page.context.new_page()
    for each in (page, other):
        each.goto("/inbox")
        expect(each.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
    before = put(http, f"{name}-before")
    expect(page.get_by_role("link", name=f"{name}-before")).to_be_visible()
    page.get_by_role("switch", name="Notify me").click()
    expect(page.get_by_role("switch", name="Notify me: on")).to_be_checked()
    other.reload()
    expect(other.get_by_role("switch", name="Notify me: on")).to_be_checked()
    expect(other.get_by_role("link", name=f"{name}-before")).to_be_visible()
    http.post(f"/v1/questions/{path_of(before)}/claim", json={"user_id": "me"}).raise_for_status()
    put(http, f"{name}-bobs", assignees=["user:bob"])
    ids = [put(http, f"{name}-{n}") for n in (1, 2)]
    for each in (page, other):
        expect(each.get_by_role("link", name=f"{name}-2")).to_be_visible()
    # locks are granted in order: the holder comes after all tabs that have announced it
    for each in (page, other):
        each.evaluate("navigator.locks.request('signoff.notified', () => true)")
    told = [notice for each in (page, other) for notice in each.evaluate("notices.map(({ title }) => title)")]
    assert sorted(told) == [f"{name}-1", f"{name}-2"]
    teller = page if page.evaluate(f"notices.some(({{ title }}) => title === '{name}-1')") else other
    teller.evaluate(f"notices.find(({{ title }}) => title === '{name}-1').at.onclick()")
    expect(teller.get_by_role("heading", name=f"{name}-1")).to_be_focused()
    for id in (before, *ids):
        answer(http, id)


def test_no_notification_is_shown_before_it_is_enabled(page: Page, http: httpx.Client, name: str) -> None:
    page.context.add_init_script(NOTICES)
    page.goto("/inbox")
    expect(page.get_by_role("switch", name="Notify me: off")).not_to_be_checked()
    id = put(http, name)
    expect(page.get_by_role("link", name=name)).to_be_visible()
    assert page.evaluate("notices.length") == 0
    answer(http, id)


def test_on_a_phone_notifications_are_switched_on_in_the_menu(page: Page) -> None:
    page.add_init_script(NOTICES)
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto("/inbox")
    switch = page.get_by_role("switch", name="Notify me")
    expect(switch).to_be_hidden()
    page.get_by_role("button", name="More").click()
    expect(switch).to_have_attribute("aria-checked", "false")
    switch.click()
    expect(switch).to_have_attribute("aria-checked", "true")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
