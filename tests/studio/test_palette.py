"""The command palette of Studio: everything can be reached and done by keyboard."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.server.conftest import asked, ended, start
from tests.studio.patience import UNDO_MILLISECONDS, install_clock


@pytest.fixture
def asking(page: Page, http: httpx.Client, name: str) -> Page:
    """The inbox, in which a question is open."""
    start(http, "ask", name, f"Pay {name}?")
    asked(http, name)
    install_clock(page)
    page.goto(f"/inbox?view=all&q={name}")
    expect(page.get_by_role("link", name=f"Pay {name}?")).to_be_visible()
    return page


def choose(page: Page, words: str, found: str) -> None:
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Search commands")).to_be_focused()
    page.keyboard.type(words)
    expect(page.get_by_role("dialog").get_by_role("option", selected=True)).to_contain_text(found)
    page.keyboard.press("Enter")


def test_it_goes_to_a_question_approves_it_and_goes_to_its_run(
    asking: Page, http: httpx.Client, name: str
) -> None:
    choose(asking, f"question {name}", f"Pay {name}?")
    expect(asking.get_by_role("heading", name=f"Pay {name}?")).to_be_focused()
    choose(asking, "action approve", "Approve")
    expect(asking.get_by_text(f"Approved: Pay {name}?")).to_be_visible()
    asking.clock.fast_forward(UNDO_MILLISECONDS)
    assert ended(http, name)["result"]["approved"] is True
    choose(asking, f"run {name}", name)
    expect(asking.get_by_role("heading", name=name)).to_be_visible()


def test_it_goes_to_any_page(asking: Page) -> None:
    choose(asking, "page runs", "Runs")
    expect(asking.get_by_role("heading", name="Runs")).to_be_visible()


def test_on_a_phone_it_has_a_button_within_a_thumbs_reach(asking: Page, name: str) -> None:
    asking.set_viewport_size({"width": 360, "height": 740})
    find = asking.get_by_role("button", name="Find")
    place = find.bounding_box()
    assert place is not None
    assert place["y"] > 740 * 2 / 3
    assert place["height"] >= 40
    find.click()
    expect(asking.get_by_role("combobox", name="Search commands")).to_be_focused()
    asking.keyboard.type(f"question {name}")
    asking.get_by_role("option", name=f"Pay {name}?").click()
    expect(asking.get_by_role("heading", name=f"Pay {name}?")).to_be_visible()


def test_it_goes_to_a_run_that_was_never_loaded(page: Page, http: httpx.Client, name: str) -> None:
    start(http, "echo", name, 1)
    ended(http, name)
    page.goto("/inbox")
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
    choose(page, name, f"Open the run {name}")
    expect(page.get_by_role("heading", name=name)).to_be_visible()


def test_it_opens_while_one_types_and_leaves_what_was_typed(asking: Page, name: str) -> None:
    choose(asking, f"question {name}", name)
    asking.get_by_label("Note").fill("half a thought")
    asking.keyboard.press("Control+k")
    expect(asking.get_by_role("combobox", name="Search commands")).to_be_focused()
    asking.keyboard.press("ArrowDown")
    asking.keyboard.press("ArrowUp")
    asking.keyboard.press("Escape")
    expect(asking.get_by_role("dialog")).to_be_hidden()
    expect(asking.get_by_label("Note")).to_be_focused()
    expect(asking.get_by_label("Note")).to_have_value("half a thought")
