"""The forms that answer questions: edited proposals, and each input type by keyboard alone."""

from __future__ import annotations

import httpx
from playwright.sync_api import Locator, Page, expect

from tests.studio.decisions import ORDER, put, result, show


def tab_to(page: Page, wanted: Locator) -> None:
    """Go by Tab to what must be focused, as users without a mouse do."""
    expect(wanted).to_be_visible()
    for _ in range(60):
        if wanted.evaluate("each => each === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError("Tab does not lead there")


# Proposals


def test_changes_of_a_proposal_are_shown_while_typing_and_reach_the_run(
    page: Page, http: httpx.Client, name: str
) -> None:
    id = put(http, name, proposal={"to": "ana", "lines": [{"amount": 7}, {"amount": 9}]})
    show(page, id, name)
    page.keyboard.press("e")
    changes = page.get_by_role("region", name="Changes")
    expect(changes).to_contain_text("Nothing changed yet")
    page.get_by_role("region", name="Proposal").get_by_role("textbox", name="to").fill("eve")
    expect(changes.locator("del")).to_have_text("ana")
    expect(changes.locator("ins")).to_have_text("eve")
    page.get_by_role("button", name="Approve as edited").click()
    got = result(page, http, name)
    assert got["proposal"] == {"to": "eve", "lines": [{"amount": 7}, {"amount": 9}]}
    assert got["edits"] == [{"op": "replace", "path": "/to", "value": "eve", "old": "ana"}]


def test_a_proposal_of_which_nothing_is_known_is_edited_as_json(
    page: Page, http: httpx.Client, name: str
) -> None:
    id = put(http, name, proposal={"to": None, "tags": []})
    show(page, id, name)
    page.keyboard.press("e")
    field = page.get_by_role("textbox", name="JSON")
    field.fill('{"to": "eve", "tags": [')
    expect(page.get_by_text("Not valid JSON")).to_be_visible()
    page.get_by_role("button", name="Approve").click()
    expect(field).to_be_focused()
    expect(page.get_by_role("button", name="Undo")).to_be_hidden()
    field.fill('{"to": "eve", "tags": ["a"]}')
    expect(page.get_by_text("Not valid JSON")).to_be_hidden()
    page.get_by_role("button", name="Approve as edited").click()
    assert result(page, http, name)["proposal"] == {"to": "eve", "tags": ["a"]}


def test_lines_of_a_proposal_stay_lines(page: Page, http: httpx.Client, name: str) -> None:
    mail = {"type": "object", "properties": {"to": {"type": "string"}, "text": {"type": "string"}}}
    id = put(http, name, proposal={"to": "ana", "text": "Dear Ana,\nhello"}, proposal_type=mail)
    show(page, id, name)
    page.keyboard.press("e")
    page.get_by_role("textbox", name="to").fill("eve")
    page.get_by_role("textbox", name="text").press("End")
    page.keyboard.type("\nBye")
    page.get_by_role("button", name="Approve as edited").click()
    text = result(page, http, name)["proposal"]["text"]
    assert sorted(text.split("\n")) == ["Bye", "Dear Ana,", "hello"]


def test_numbers_are_shown_as_they_are_and_none_is_rounded_by_an_edit(
    page: Page, http: httpx.Client, name: str
) -> None:
    id = put(http, name, proposal={"id": 12345678901234567890}, metadata={"rate": 1.0})
    show(page, id, name)
    expect(page.get_by_role("region", name="Proposal")).to_contain_text("12345678901234567890")
    expect(page.get_by_text("1.0", exact=True)).to_be_visible()
    page.keyboard.press("e")
    expect(page.get_by_role("button", name="Keep the proposal")).to_be_hidden()
    page.keyboard.press("a")
    assert result(page, http, name)["proposal"] == {"id": 12345678901234567890}


def test_an_edit_that_the_schema_forbids_is_reported_at_once(
    page: Page, http: httpx.Client, name: str
) -> None:
    id = put(http, name, proposal={"amount": 5, "code": "MAY"}, proposal_type=ORDER)
    show(page, id, name)
    page.keyboard.press("e")
    page.get_by_label("amount").fill("3")
    page.get_by_label("code").fill("may")
    page.get_by_role("button", name="Approve as edited").click()
    expect(page.get_by_role("alert")).to_contain_text("code")
    expect(page.get_by_role("button", name="Undo")).to_be_hidden()
    page.get_by_label("code").fill("MAY")
    page.get_by_role("button", name="Approve as edited").click()
    assert result(page, http, name)["proposal"] == {"amount": 3, "code": "MAY"}


def test_an_edit_is_given_up_and_the_proposal_is_approved_as_it_is(
    page: Page, http: httpx.Client, name: str
) -> None:
    id = put(http, name, proposal={"to": "ana"})
    show(page, id, name)
    page.keyboard.press("e")
    page.get_by_role("region", name="Proposal").get_by_role("textbox", name="to").fill("eve")
    page.get_by_role("button", name="Keep the proposal").click()
    page.keyboard.press("a")
    got = result(page, http, name)
    assert (got["proposal"], got["edits"]) == ({"to": "ana"}, [])


# Each input type by keyboard alone


def test_a_text_is_answered_by_keyboard(page: Page, http: httpx.Client, name: str) -> None:
    id = put(http, name, input_type="text")
    show(page, id, name)
    tab_to(page, page.get_by_role("textbox", name="Answer"))
    page.keyboard.type("in May")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert result(page, http, name)["value"] == "in May"


def test_one_option_is_chosen_by_keyboard_and_none_is_not_sent(
    page: Page, http: httpx.Client, name: str
) -> None:
    id = put(http, name, input_type="select", options=["red", "blue"])
    show(page, id, name)
    tab_to(page, page.get_by_role("button", name="Answer"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("radio", name="red")).to_be_focused()
    page.keyboard.press("ArrowDown")
    tab_to(page, page.get_by_role("button", name="Answer"))
    page.keyboard.press("Enter")
    assert result(page, http, name)["value"] == "blue"


def test_an_option_of_ones_own_is_written_by_keyboard(page: Page, http: httpx.Client, name: str) -> None:
    id = put(http, name, input_type="select", options=["red", "blue"], other="Another colour")
    show(page, id, name)
    tab_to(page, page.get_by_role("textbox", name="Another colour"))
    page.keyboard.type("green")
    expect(page.get_by_role("radio", name="Another colour")).to_be_checked()
    tab_to(page, page.get_by_role("button", name="Answer"))
    page.keyboard.press("Enter")
    got = result(page, http, name)
    assert (got["value"], got["others"]) == ("green", ["green"])


def test_several_options_are_chosen_by_keyboard(page: Page, http: httpx.Client, name: str) -> None:
    id = put(http, name, input_type="multiselect", options=["red", "blue", "pink"], other="More")
    show(page, id, name)
    for option in ("red", "pink", "blue", "pink"):
        box = page.get_by_role("checkbox", name=option)
        box.focus()
        page.keyboard.press("Space")
    tab_to(page, page.get_by_role("textbox", name="More"))
    page.keyboard.type("green")
    tab_to(page, page.get_by_role("button", name="Answer"))
    page.keyboard.press("Enter")
    got = result(page, http, name)
    assert (sorted(got["value"]), got["others"]) == (["blue", "green", "red"], ["green"])


def test_a_form_is_filled_by_keyboard_and_reports_errors_at_once(
    page: Page, http: httpx.Client, name: str
) -> None:
    id = put(http, name, input_type="form", answer_type=ORDER)
    show(page, id, name)
    tab_to(page, page.get_by_label("amount"))
    page.keyboard.type("5")
    page.keyboard.press("Tab")
    page.keyboard.type("may")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("code")
    expect(page.get_by_role("button", name="Undo")).to_be_hidden()
    page.keyboard.press("Control+a")
    page.keyboard.type("MAY")
    page.keyboard.press("Enter")
    assert result(page, http, name)["value"] == {"amount": 5, "code": "MAY"}


def test_what_may_be_skipped_is_skipped_by_a_key(page: Page, http: httpx.Client, name: str) -> None:
    id = put(http, name, skippable=True)
    show(page, id, name)
    page.keyboard.press("s")
    expect(page.get_by_text(f"Skipped: {name}")).to_be_visible()
    assert result(page, http, name)["skipped"] is True


def test_what_may_not_be_skipped_is_not(page: Page, http: httpx.Client, name: str) -> None:
    show(page, put(http, name), name)
    page.keyboard.press("s")
    expect(page.get_by_role("button", name="Skip")).to_be_hidden()
    expect(page.get_by_role("button", name="Undo")).to_be_hidden()
