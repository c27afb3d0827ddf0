"""Starting runs in Studio: the workflow gets the form's input."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.server.conftest import ended


@pytest.fixture
def form(page: Page, http: httpx.Client) -> Page:
    """The form of ``ship``."""
    while not http.get("/v1/workflows", params={"name": "ship"}).json()["items"]:
        pass  # its worker has just begun
    page.goto("/start/ship")
    expect(page.get_by_role("heading", name="Start ship")).to_be_visible()
    expect(field(page, "To")).to_be_visible()
    return page


def started(page: Page, http: httpx.Client) -> dict[str, Any]:
    """Start, and return the run when it has ended."""
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page).to_have_url(re.compile("/runs/"))
    expect(page.get_by_role("heading", name="Result")).to_be_visible()
    return ended(http, page.url.rsplit("/", 1)[1])


def field(page: Page, label: str) -> Locator:
    return page.get_by_label(re.compile(rf"^{label}\*?$"))


def test_a_run_gets_what_was_typed(form: Page, http: httpx.Client) -> None:
    field(form, "To").fill("Ana")
    field(form, "Grams").fill("250")
    form.get_by_label("Fragile").check()
    field(form, "speed").select_option("fast")
    field(form, "on").fill("2026-02-28")
    form.get_by_role("group", name="tags").get_by_role("button", name="Add").click()
    field(form, "tags-1").fill("blue")
    field(form, "price").fill("12.50")
    field(form, "extra").fill('{"a": [1]}')
    run = started(form, http)
    assert run["result"] == {
        "parcel": {"to": "Ana", "grams": 250, "fragile": True, "until": None},
        "speed": "fast",
        "on": "2026-02-28",
        "tags": ["blue"],
        "price": "12.50",
        "extra": {"a": [1]},
    }
    assert run["started_by"] == "user:me"


def test_what_is_left_alone_is_the_codes_to_say(form: Page, http: httpx.Client) -> None:
    field(form, "To").fill("Ana")
    run = started(form, http)
    assert run["arguments"]["args"] == []
    assert run["arguments"]["kwargs"].keys() == {"parcel"}
    assert (run["result"]["speed"], run["result"]["tags"], run["result"]["on"]) == ("slow", [], None)


def test_what_does_not_fit_is_said_at_once_and_nothing_is_started_or_lost(
    form: Page, http: httpx.Client
) -> None:
    field(form, "Grams").fill("0")
    form.get_by_role("button", name="Start", exact=True).click()
    trouble = form.get_by_role("alert")
    expect(trouble).to_be_focused()
    expect(trouble).to_contain_text("parcel.grams")
    expect(trouble).to_contain_text("to")
    form.reload()
    expect(field(form, "Grams")).to_have_value("0")
    field(form, "Grams").fill("7")
    field(form, "To").fill("Bob")
    assert started(form, http)["result"]["parcel"]["grams"] == 7


def test_arguments_are_written_as_json_and_go_back_into_the_form(form: Page, http: httpx.Client) -> None:
    field(form, "To").fill("Ana")
    form.get_by_role("button", name="As JSON").click()
    text = form.get_by_label("Arguments")
    expect(text).to_have_value(re.compile('"to": "Ana"'))
    text.fill("{")
    form.get_by_role("button", name="Form").click()
    expect(form.get_by_role("alert")).to_contain_text("It is not JSON")
    text.fill('{"args": [{"to": "Eve", "until": null}, "fast"]}')
    form.get_by_role("button", name="Form").click()
    expect(field(form, "To")).to_have_value("Eve")
    expect(field(form, "speed")).to_have_value(re.compile("fast|1"))
    form.get_by_role("button", name="As JSON").click()
    text.fill('{"args": [{"to": "Eve", "until": "2026-03-01"}], "kwargs": {"extra": "x"}}')
    run = started(form, http)
    assert run["arguments"] == {
        "args": [{"to": "Eve", "until": "2026-03-01"}],
        "kwargs": {"extra": "x"},
    }
    assert run["result"]["extra"] == "x"


def test_arguments_go_by_position_where_they_must(page: Page, http: httpx.Client) -> None:
    page.goto("/start/collect")
    field(page, "first").fill("1")
    page.get_by_role("group", name="rest").get_by_role("button", name="Add").click()
    field(page, "rest-1").fill("3")
    run = started(page, http)
    assert run["arguments"] == {"args": [1, 2, 3], "kwargs": {}}
    assert run["result"] == [1, 2, 3, {}]


def test_what_may_be_of_several_kinds_is_said_of_one(page: Page, http: httpx.Client) -> None:
    page.goto("/start/weigh")
    page.get_by_label("Kind of amount").select_option(label="Text")
    field(page, "Text").fill("a few")
    page.get_by_label("Kind of sure").select_option(label="Yes or no")
    page.get_by_label("Yes or no", exact=True).check()
    field(page, "at").fill("09:30")
    limits = page.get_by_role("group", name="limits")
    limits.get_by_role("button", name="Add a field").click()
    limits.get_by_role("textbox").first.fill("high")
    limits.get_by_role("spinbutton").fill("9")
    result = started(page, http)["result"]
    assert result == {"amount": "a few", "sure": True, "at": "09:30:00", "limits": {"high": 9}}


def test_how_a_run_is_started_is_chosen(form: Page, http: httpx.Client, name: str) -> None:
    field(form, "To").fill("Ana")
    form.get_by_text("Options").click()
    form.get_by_label("Run id").fill(name)
    form.get_by_label("Session").fill(f"{name}-session")
    form.get_by_role("textbox", name="Group Whose").fill("nobody")
    form.get_by_label("Priority").fill("x")
    form.get_by_role("button", name="Start", exact=True).click()
    expect(form.get_by_role("alert")).to_contain_text("x is not a number")
    form.get_by_label("Priority").fill("7")
    form.get_by_label("Delay").fill("3600")
    form.get_by_role("button", name="Start", exact=True).click()
    expect(form).to_have_url(re.compile(f"/runs/{name}$"))
    run = http.get(f"/v1/runs/{name}").json()
    assert (run["group"], run["priority"], run["session_id"]) == ("nobody", 7, f"{name}-session")
    assert run["start_at"] - run["created_at"] == pytest.approx(3600, abs=5)


def test_a_refusal_is_shown_and_nothing_typed_is_lost(form: Page, http: httpx.Client, name: str) -> None:
    http.post("/v1/runs", json={"workflow": "echo", "id": name}).raise_for_status()
    field(form, "To").fill("Ana")
    form.get_by_text("Options").click()
    form.get_by_label("Run id").fill(name)
    form.get_by_role("button", name="Start", exact=True).click()
    expect(form.get_by_role("alert")).to_contain_text(name)
    expect(field(form, "To")).to_have_value("Ana")
    form.get_by_label("Run id").fill(f"{name}-2")
    assert started(form, http)["id"] == f"{name}-2"


def test_a_start_that_is_sent_again_after_a_cut_starts_once(
    form: Page, http: httpx.Client, name: str
) -> None:
    keys: list[str | None] = []

    def cut(route: Route) -> None:
        keys.append(route.request.header_value("idempotency-key"))
        if len(keys) == 1:
            route.fetch()
            problem = {"type": "about:blank", "title": "The reply was lost", "status": 408}
            route.fulfill(status=408, json=problem)
        else:
            route.continue_()

    form.route("**/v1/runs", cut)
    field(form, "To").fill(name)
    form.get_by_role("button", name="Start", exact=True).click()
    expect(form.get_by_role("alert")).to_contain_text("The reply was lost")
    run = started(form, http)
    assert keys[0] == keys[1]
    runs = http.get("/v1/runs", params={"workflow": "ship"}).json()["items"]
    assert [each["id"] for each in runs if name in str(each["arguments"])] == [run["id"]]


def test_runs_are_started_from_the_page_of_runs(form: Page, http: httpx.Client) -> None:
    form.goto("/runs")
    form.get_by_role("region", name="Runs").get_by_role("link", name="Start a run").click()
    expect(form.get_by_role("heading", name="Start a run")).to_be_visible()
    workflow = form.get_by_role("link", name="ship")
    expect(workflow).to_contain_text("Sends a parcel.")
    form.get_by_label("Find a workflow").fill("parcel")
    expect(form.get_by_role("link", name="echo")).to_be_hidden()
    workflow.click()
    expect(form.get_by_role("heading", name="Start ship")).to_be_visible()


def test_an_unannounced_workflow_is_started_as_json(page: Page, http: httpx.Client, name: str) -> None:
    page.goto(f"/start/{name}")
    expect(page.get_by_text("No worker has announced")).to_be_visible()
    page.get_by_label("Arguments").fill('{"args": [1]}')
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page).to_have_url(re.compile("/runs/"))
    run = http.get(f"/v1/runs/{page.url.rsplit('/', 1)[1]}").json()
    assert (run["workflow"], run["state"], run["arguments"]["args"]) == (name, "ready", [1])
