"""The graph of a flow's execution in Studio: its progress, live."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from signoff.flows import graph_walk
from signoff.server import Server
from tests.server.conftest import app_in, ended, events, path_of, serving, start
from tests.studio import flows
from tests.studio.axe import serious
from tests.support import OnThread

SMALL = {"cents": 900, "items": ["pen", "cup"]}
LARGE = {"cents": 9000, "items": ["pen"]}
FRAGILE = {"cents": 900, "items": ["pen", "glass", "cup"]}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    app = app_in(tmp_path_factory.mktemp("graphs"))
    flows.register(app)
    with OnThread(lambda: serving(app)) as server:
        yield server


def node(page: Page, label: str) -> Locator:
    """A node of the drawing; of several with a name the first."""
    return page.locator(".react-flow__node").filter(has=page.get_by_text(label, exact=True)).first


def chunks(page: Page, run_id: str, flow: str) -> Locator:
    """The same as a list, opened."""
    page.goto(f"/runs/{run_id}")
    page.get_by_text("As a list").click()
    return page.get_by_role("list", name=f"Chunks of {flow}")


def interrupted(http: httpx.Client, run_id: str) -> str:
    """Wait until an execution has asked a question, and return its id."""
    for event, entry in events(http, run_id):
        if event == "message" and (entry["kind"], entry.get("call")) == ("opened", "question"):
            return f"{run_id}.{entry['n']}"
    raise AssertionError(f"{run_id} ended without asking")


def answer(http: httpx.Client, id: str, value: Any) -> None:
    http.post(f"/v1/questions/{path_of(id)}/answer", json={"value": value}).raise_for_status()


def test_the_taken_branch_is_distinguished(page: Page, http: httpx.Client, name: str) -> None:
    start(http, "order", name, SMALL)
    ended(http, name)
    listed = chunks(page, name, "order")
    expect(listed.get_by_text("else: taken")).to_be_visible()
    expect(listed.get_by_text("book: done")).to_be_visible()
    expect(listed.get_by_text("approve: not begun")).to_be_visible()
    expect(listed.get_by_text("is_large: taken")).to_have_count(0)
    expect(node(page, "book")).to_contain_text("done")
    expect(node(page, "approve")).to_contain_text("not begun")


def test_a_waiting_chunk_links_to_its_question_and_updates_live(
    page: Page, http: httpx.Client, name: str
) -> None:
    start(http, "order", name, LARGE)
    id = interrupted(http, name)
    page.goto(f"/runs/{name}")
    node(page, "approve").get_by_role("link", name="waits for a person").click()
    expect(page.get_by_role("heading", name="Ship for 9000 cents?")).to_be_visible()
    page.go_back()
    expect(node(page, "approve")).to_contain_text("waits for a person")
    answer(http, id, True)
    expect(node(page, "approve")).to_contain_text("done")
    expect(node(page, "archive")).to_contain_text("done")
    expect(page.get_by_role("button", name="Where it is")).to_have_count(0)


def test_items_are_counted_as_they_are_done(page: Page, http: httpx.Client, name: str) -> None:
    start(http, "order", name, FRAGILE)
    id = interrupted(http, name)
    listed = chunks(page, name, "order")
    expect(listed.get_by_text("for each: 3 items, 2 done")).to_be_visible()
    expect(listed.get_by_text("pack: waits for a person, done 2 times")).to_be_visible()
    answer(http, id, True)
    expect(listed.get_by_text("for each: 3 items, 3 done")).to_be_visible()
    expect(node(page, "for each")).to_contain_text("3 items, 3 done")


def test_several_chunks_that_wait_lead_to_all_their_questions(
    page: Page, http: httpx.Client, name: str
) -> None:
    start(http, "order", name, {"cents": 9, "items": ["glass", "glass"]})
    page.goto(f"/runs/{name}")
    node(page, "pack").get_by_role("link", name="2 wait for people").click()
    expect(page.get_by_role("link", name="Is the glass wrapped?")).to_have_count(2)


def test_what_failed_is_shown_and_what_it_took_with_it(page: Page, http: httpx.Client, name: str) -> None:
    start(http, "order", name, {"cents": 9, "items": ["glass", "nothing"]})
    interrupted(http, name)
    flows.HELD[name].set()
    assert ended(http, name)["state"] == "failed"
    listed = chunks(page, name, "order")
    # what the other item asks stays open: an operator may retry the execution
    expect(listed).to_contain_text("pack: waits for a person, failed")
    expect(listed.get_by_text("notify: not begun")).to_be_visible()
    expect(node(page, "pack")).to_contain_text("failed")


def test_a_chunk_that_runs_is_seen_running(page: Page, http: httpx.Client, name: str) -> None:
    start(http, "gate", name, 0)
    try:
        page.goto(f"/runs/{name}")
        expect(node(page, "hold")).to_contain_text("running")
        expect(node(page, "after")).to_contain_text("not begun")
    finally:
        flows.HELD[name].set()
    expect(node(page, "hold")).to_contain_text("done")
    expect(node(page, "after")).to_contain_text("done")


def test_a_chunk_that_is_tried_again_is_seen_running_with_what_failed(
    page: Page, http: httpx.Client, name: str
) -> None:
    start(http, "gate", name, 2)
    try:
        page.goto(f"/runs/{name}")
        expect(node(page, "hold")).to_contain_text("2 failed attempts, running")
    finally:
        flows.HELD[name].set()
    expect(node(page, "hold")).to_contain_text("2 failed attempts, done")


def test_of_a_flow_that_is_there_twice_each_place_has_its_own_state(
    page: Page, http: httpx.Client, name: str
) -> None:
    start(http, "twice", name)
    id = interrupted(http, name)
    listed = chunks(page, name, "twice")
    expect(listed.get_by_text("weigh: done")).to_have_count(1)
    expect(listed.get_by_text("weigh: not begun")).to_have_count(1)
    expect(node(page, "flow shipping#2")).to_be_attached()
    answer(http, id, True)
    expect(listed.get_by_text("weigh: done")).to_have_count(2)


def test_a_branch_without_chunks_is_known_by_what_came_behind_it(
    page: Page, http: httpx.Client, name: str
) -> None:
    start(http, "choices", name, [1, 2, 3])
    ended(http, name)
    listed = chunks(page, name, "choices")
    expect(listed.get_by_text("is_odd: taken 2 times")).to_be_visible()
    expect(listed.get_by_text("else: taken", exact=True)).to_be_visible()
    expect(listed.get_by_text("for each: 3 items, 3 done")).to_be_visible()
    expect(listed.get_by_text("right: done")).to_be_visible()


def test_an_event_leads_to_the_line_that_it_began(page: Page, http: httpx.Client, name: str) -> None:
    start(http, "order", name, SMALL)
    ended(http, name)
    listed = chunks(page, name, "order")
    expect(listed.get_by_text("event shipped: came")).to_be_visible()
    expect(page.locator(".react-flow__edge.event.taken")).to_have_count(1)


def test_a_chunk_that_runs_again_with_its_answer_is_done_once(
    page: Page, http: httpx.Client, name: str
) -> None:
    start(http, "again", name, ["pen", "cup"])
    first = interrupted(http, name)
    listed = chunks(page, name, "again")
    expect(listed.get_by_text("decide: waits for a person", exact=True)).to_be_visible()
    expect(listed.get_by_text("for each: 2 items, 0 done")).to_be_visible()
    answer(http, first, True)
    expect(listed.get_by_text("decide: waits for a person, done", exact=True)).to_be_visible()
    expect(listed.get_by_text("for each: 2 items, 1 done")).to_be_visible()


def test_what_is_collected_waits_for_all_and_an_answer_can_be_an_event(
    page: Page, http: httpx.Client, name: str
) -> None:
    start(http, "joins", name)
    id = interrupted(http, name)
    listed = chunks(page, name, "joins")
    expect(listed.get_by_text("after other: came")).to_be_visible()
    expect(listed.get_by_text("event sure: not begun")).to_be_visible()
    expect(listed.get_by_text("end: not begun")).to_be_visible()
    answer(http, id, True)
    expect(listed.get_by_text("event sure: came")).to_be_visible()
    expect(listed.get_by_text("end: done")).to_be_visible()
    expect(node(page, "collect both")).to_be_attached()
    expect(page.locator(".react-flow__edge.event.taken")).to_have_count(2)


def test_a_journal_that_was_begun_anew_loses_nothing_of_the_graph(
    page: Page, http: httpx.Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_walk, "COMPACT_AFTER", 2)
    start(http, "ticking", name)
    listed = chunks(page, name, "ticking")
    expect(listed.get_by_text("event tick: not begun")).to_be_visible()
    for times in ("", " 2 times", " 3 times"):
        tick = {"name": graph_walk.SIGNAL, "value": {"emit": "tick"}}
        http.post(f"/v1/runs/{name}/signals", json=tick).raise_for_status()
        expect(listed.get_by_text(f"count: done{times}", exact=True)).to_be_visible()
    expect(listed.get_by_text("event tick: came 3 times")).to_be_visible()
    expect(page.get_by_text("continued as new").first).to_be_visible()


def test_the_graph_is_moved_by_keys(page: Page, http: httpx.Client, name: str) -> None:
    start(http, "order", name, SMALL)
    ended(http, name)
    page.goto(f"/runs/{name}")
    graph = page.get_by_role("application", name=re.compile("^Graph of order"))
    expect(graph).to_have_attribute("aria-busy", "false")
    expect(node(page, "start")).to_be_in_viewport()
    graph.focus()
    viewport = page.locator(".react-flow__viewport")
    before = transform(viewport)
    graph.press("ArrowDown")
    expect(viewport).to_have_css("transform", moved(before, 0, -60))
    graph.press("ArrowLeft")
    expect(viewport).to_have_css("transform", moved(before, 60, -60))
    page.get_by_role("button", name="Zoom In").focus()
    page.keyboard.press("Enter")
    expect(viewport).not_to_have_css("transform", moved(before, 60, -60))
    graph.press("0")
    expect(node(page, "notify")).to_be_in_viewport()


def transform(viewport: Locator) -> list[float]:
    """The matrix that a drawing is shown with, once it is shown."""
    expect(viewport).not_to_have_css("transform", "none")
    found = re.findall(r"[-\d.e]+", viewport.evaluate("each => getComputedStyle(each).transform"))
    return [float(each) for each in found]


def moved(before: list[float], x: float, y: float) -> re.Pattern[str]:
    """A matrix whose origin is elsewhere, to the pixel."""
    return re.compile(rf", {int(before[4] + x)}[.\d]*, {int(before[5] + y)}[.\d]*\)$")


def test_a_run_that_is_no_execution_of_a_flow_has_no_graph(page: Page, http: httpx.Client, name: str) -> None:
    start(http, "count", name, 3)
    ended(http, name)
    page.goto(f"/runs/{name}")
    expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
    expect(page.get_by_role("heading", name=re.compile("^Graph"))).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_axe_finds_nothing_serious_in_a_graph_and_its_list(
    page: Page, http: httpx.Client, name: str, scheme: Literal["light", "dark"], width: int
) -> None:
    start(http, "order", name, FRAGILE)
    interrupted(http, name)
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    listed = chunks(page, name, "order")
    expect(listed.get_by_text("pack: waits for a person")).to_be_visible()
    expect(node(page, "pack")).to_be_in_viewport()
    assert serious(page) == []
