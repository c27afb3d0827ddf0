"""Questions whose rows cannot be read, in Studio: they are shown as such, and those beside them as always."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from signoff.people.questions.question import Question
from signoff.server import Server
from tests.attacks.unreadable import UNREADABLE
from tests.server.conftest import app_in, serving
from tests.support import OnThread

pytestmark = pytest.mark.usefixtures("open_trail")

OPEN = """
INSERT INTO promises (namespace, id, kind, state, created_at, data, assignees)
VALUES ('default', ?, 'question', 'pending', ?, ?, '[]')
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server at which each of them is open, between two good questions."""
    folder = tmp_path_factory.mktemp("unreadable")
    app = app_in(folder)
    good = Question.make("Is all well?").to_json()
    with OnThread(lambda: serving(app)) as server:
        with closing(sqlite3.connect(folder / "signoff.db")) as db, db:
            now = app.store.clock.now()
            rows = [("first good", good), *UNREADABLE.items(), ("last good", good)]
            db.executemany(OPEN, [(name, now, data) for name, data in rows])
        yield server


def test_the_inbox_shows_them_beside_the_others(page: Page) -> None:
    page.goto("/inbox?view=all")
    questions = page.get_by_role("list", name="Open questions").get_by_role("listitem")
    expect(questions).to_have_count(len(UNREADABLE) + 2)
    expect(page.get_by_role("link", name="Is all well?")).to_have_count(2)


@pytest.mark.parametrize("name", UNREADABLE)
def test_the_page_of_one_is_shown_and_those_of_others_are_reached_from_there(page: Page, name: str) -> None:
    page.goto(f"/inbox/{quote(name)}?view=all")
    expect(page.get_by_role("main").first).to_be_visible()
    expect(page.get_by_role("list", name="Open questions")).to_be_visible()
    expect(page.locator("a[href^='javascript:']")).to_have_count(0)
    page.get_by_role("link", name="Is all well?").first.click()
    expect(page.get_by_role("heading", name="Is all well?")).to_be_visible()
