"""An inbox of ten thousand open questions in Studio: counted, scrolled and searched as a whole, up to date."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, Page, Response, Route, expect

from signoff.people.questions.question import Question
from signoff.server import Server
from tests.server.conftest import app_in, serving
from tests.support import PATIENCE_SECONDS, OnThread

pytestmark = pytest.mark.usefixtures("open_trail")  # the end of its chain says what streams have told

COUNT = 10_000

OPEN = """
INSERT INTO promises (namespace, id, kind, state, created_at, data, assignees)
VALUES ('default', ?, 'question', 'pending', ?, ?, '[]')
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of its own, at which so many questions are open."""
    folder = tmp_path_factory.mktemp("crowded")
    app = app_in(folder)
    with OnThread(lambda: serving(app)) as server:
        # By the store's clock: what happened to a question before it was asked happened to another one of its id.
        open_questions(folder / "signoff.db", app.store.clock.now())
        yield server


def open_questions(database: Path, now: float) -> None:
    with closing(sqlite3.connect(database)) as db:
        rows = ((f"q{n}", now, Question.make(f"Refund number {n}?").to_json()) for n in range(COUNT))
        db.executemany(OPEN, rows)
        db.commit()


@pytest.fixture
def inbox(page: Page) -> Page:
    page.goto("/inbox")
    expect(page.get_by_role("link", name="Refund number 0?")).to_be_visible()
    return page


def rows(inbox: Page) -> Locator:
    return inbox.get_by_role("list", name="Open questions").get_by_role("listitem")


def scroller(inbox: Page) -> Locator:
    return inbox.get_by_role("list", name="Open questions").locator("..")


def scroll_to(inbox: Page, share: float) -> None:
    scroller(inbox).evaluate("(list, share) => list.scrollTo(0, list.scrollHeight * share)", share)


def place_at_rest(seen: Locator) -> Any:
    """Where something is once it has not moved for a while: rows are measured after they were painted."""
    place, same = seen.bounding_box(), 0
    while same < 5:
        seen.evaluate("() => new Promise((painted) => requestAnimationFrame(() => setTimeout(painted, 20)))")
        now = seen.bounding_box()
        place, same = now, same + 1 if now == place else 0
    return place


def test_the_first_page_is_there_at_once_and_says_that_there_are_more(inbox: Page) -> None:
    expect(inbox.get_by_label("200+ open")).to_be_visible()
    painted, loaded = inbox.evaluate(
        """() => [
            performance.getEntriesByName('first-contentful-paint')[0].startTime,
            performance.getEntriesByType('resource').find((each) => each.name.includes('/questions?')).responseEnd,
        ]"""
    )
    print(f"painted after {painted:.0f} ms, the first of {COUNT:,} questions there after {loaded:.0f} ms")


def test_all_are_scrolled_through_with_few_rows_in_the_page(inbox: Page) -> None:
    counted = inbox.get_by_role("region", name="Inbox").locator(".count")
    while (count := counted.inner_text()) != f"{COUNT:,}":
        scroll_to(inbox, 1)
        expect(counted).not_to_have_text(count)
    scroll_to(inbox, 1)
    expect(inbox.get_by_role("link", name=f"Refund number {COUNT - 1}?")).to_be_visible()
    assert rows(inbox).count() < 60
    expect(rows(inbox).last).to_have_attribute("aria-setsize", str(COUNT))


def test_a_search_looks_through_all_of_them_on_the_server(inbox: Page) -> None:
    lists: list[Response] = []
    # The whole inbox may still be on its way: it is read anew where its stream may have missed something.
    inbox.on(
        "response",
        lambda response: "/questions?" in response.url and "text=" in response.url and lists.append(response),
    )
    inbox.get_by_role("searchbox", name="Search").fill("number 9876")
    expect(inbox.get_by_text("1 of 200+", exact=True)).to_be_visible()
    assert [question["id"] for page in lists for question in page.json()["items"]] == ["q9876"]
    expect(rows(inbox)).to_have_count(1)
    expect(inbox.get_by_role("link", name="Refund number 9876?")).to_be_visible()


def test_the_open_question_stays_in_place_when_others_above_are_answered(
    inbox: Page, http: httpx.Client
) -> None:
    scroll_to(inbox, 0.5)
    seen = inbox.get_by_role("link", name="Refund number 100?")
    expect(seen).to_be_visible()
    place = place_at_rest(seen)
    row = rows(inbox).filter(has=seen)
    before = int(row.get_attribute("aria-posinset") or "")
    answer(http, *range(20, 40))
    # Not by the count of what is open: scrolling may have loaded further pages by then.
    expect(row).to_have_attribute("aria-posinset", str(before - 20))
    assert place_at_rest(seen) == place


CHAIN = "/v1/audit/chain?limit=1"


def answer(http: httpx.Client, *numbers: int) -> None:
    """Answer questions that are open, from elsewhere, and wait until the trail has it: streams tell of it then."""
    before = http.get(CHAIN).json()["end"]
    answers = [{"question_id": f"q{number}", "value": True} for number in numbers]
    done = http.post("/v1/questions/answers", json={"answers": answers, "user_id": "bob"}).raise_for_status()
    assert not [each for each in done.json()["items"] if "problem" in each], done.text
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while http.get(CHAIN).json()["end"] < before + len(numbers):
        assert time.monotonic() < give_up_at, f"the answers to {numbers} are not sealed"
        time.sleep(0.02)


STREAMS = "**/v1/questions/events*"


class Streams:
    """Each of a page's streams, first to last, is handled by the next of these; those after the last one go on."""

    def __init__(self, page: Page, *handlers: Callable[[Route], None]) -> None:
        self._handlers = list(handlers)
        page.route(STREAMS, self._handle)

    def _handle(self, route: Route) -> None:
        handle = self._handlers.pop(0) if self._handlers else Route.continue_
        handle(route)


def reset(route: Route) -> None:
    """Cut a connection before the stream has begun."""
    route.abort("connectionreset")


def cut(route: Route) -> None:
    """Cut a stream that has begun before it says where."""
    route.fulfill(content_type="text/event-stream", body="retry: 1\n\n")


@pytest.mark.parametrize("expected_message", ["net::ERR_CONNECTION_RESET"])
@pytest.mark.parametrize("fault", [reset, cut])
def test_what_is_answered_before_a_stream_comes_back_is_gone(
    page: Page, http: httpx.Client, fault: Callable[[Route], None]
) -> None:
    number = {reset: 0, cut: 1}[fault]
    seen = page.get_by_role("link", name=f"Refund number {number}?")

    def begin_late(route: Route) -> None:
        expect(seen).to_be_visible()  # so the list was read
        answer(http, number)
        route.continue_()

    Streams(page, fault, begin_late)
    page.goto("/inbox")
    expect(page.get_by_role("link", name="Refund number 2?")).to_be_visible()
    expect(seen).to_be_hidden()


def test_what_is_answered_while_one_says_another_name_is_gone(page: Page, http: httpx.Client) -> None:
    seen = page.get_by_role("link", name="Refund number 2?")

    def begin_late(route: Route) -> None:
        answer(http, 2)
        route.continue_()

    Streams(page, Route.continue_, begin_late)
    page.goto("/inbox?view=all")
    expect(seen).to_be_visible()
    page.get_by_label("Your name").fill("ana")
    expect(seen).to_be_hidden()
