"""No question stops a browser: its page is shown, and it can be answered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from signoff import Context
from signoff.server import Server
from tests.server.conftest import app_in, asked, ended, serving, start
from tests.studio.patience import CHECK_MILLISECONDS, UNDO_MILLISECONDS, install_clock
from tests.support import OnThread

MANY = 20_000
MOST_ELEMENTS = 2_500
SLOW_PATTERN = "^(a+)+$"
SLOW_TEXT = "a" * 40 + "!"  # a browser tries 2**40 ways to match it


def branching(levels: int) -> dict[str, Any]:
    """A schema of two to the power of ``levels`` alternatives."""
    tables: dict[str, Any] = {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2, "title": f"Level {n}"} for n in range(levels)
    }
    tables[f"d{levels}"] = {"type": "integer"}
    return {"$defs": tables, **of(v={"$ref": "#/$defs/d0"})}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def form(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"input_type": "form", "answer_type": schema, **more}


TEXT: dict[str, Any] = {"type": "string"}
ROWS = [{"number": n, "text": "t"} for n in range(MANY)]

QUESTIONS: dict[str, dict[str, Any]] = {
    "many facts": {"metadata": {f"fact {n}": n for n in range(MANY)}},
    "many rows": {"metadata": {"rows": ROWS}},
    "one of many": {"input_type": "select", "options": [f"o{n}" for n in range(MANY)]},
    "some of many": {"input_type": "multiselect", "options": [f"o{n}" for n in range(MANY)]},
    "slow pattern": form(of(a={**TEXT, "pattern": SLOW_PATTERN})),
    "slow alternatives": form(
        of(a={"anyOf": [{**TEXT, "pattern": SLOW_PATTERN}, {**TEXT, "pattern": "^(b+)+$"}]})
    ),
    "slow names": form({"type": "object", "patternProperties": {SLOW_PATTERN: TEXT}}),
    "many alternatives": form(branching(14)),
    "many values": form(of(a={"type": "array", "items": TEXT}), default={"a": ["x"] * MANY}),
    "many fields": form(of(**{f"f{n}": TEXT for n in range(5_000)})),
    "many items needed": form(of(a={"type": "array", "minItems": 100_000, "items": TEXT})),
    "items in items needed": form(
        of(a={"type": "array", "minItems": 99, "items": {"type": "array", "minItems": 99, "items": TEXT}})
    ),
    "a proposal of many rows": {"proposal": {"rows": ROWS}},
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    app = app_in(tmp_path_factory.mktemp("hostile"))

    @app.workflow
    async def hostile(ctx: Context, kind: str) -> Any:  # pyright: ignore[reportUnusedFunction]
        answer = await ctx.wait_for_user(kind, **QUESTIONS[kind])
        return answer.value if answer.proposal is None else answer.proposal

    with OnThread(lambda: serving(app)) as server:
        yield server


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    """A name in ``QUESTIONS``, which tests choose by ``parametrize``."""
    return request.param


@pytest.fixture
def opened(page: Page, http: httpx.Client, name: str, kind: str) -> Page:
    """The page of a question of the test's kind. Its run has the test's name."""
    install_clock(page)
    start(http, "hostile", name, kind)
    page.goto(f"/inbox/{asked(http, name)}?view=all")
    expect(page.get_by_label("Note")).to_be_visible()
    return page


def elements(page: Page) -> int:
    return page.evaluate("document.querySelectorAll('*').length")


def given(page: Page, http: httpx.Client, name: str, button: str) -> Any:
    """Decide, and return what the run got."""
    page.get_by_role("button", name=button, exact=True).click()
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    page.clock.fast_forward(UNDO_MILLISECONDS)
    return ended(http, name)["result"]


def json_of(page: Page) -> Locator:
    return page.get_by_role("textbox", name="JSON")


@pytest.mark.parametrize("kind", QUESTIONS)
def test_its_page_has_no_more_than_a_browser_shows_at_once(opened: Page) -> None:
    assert elements(opened) < MOST_ELEMENTS


@pytest.mark.parametrize("kind", ["slow pattern", "slow alternatives"])
def test_a_pattern_too_slow_for_the_browser_is_checked_by_the_server(
    opened: Page, http: httpx.Client, name: str, kind: str
) -> None:
    field = opened.locator(".schema-form input[type=text]").first
    field.fill(SLOW_TEXT)
    opened.get_by_role("button", name="Answer").click()
    opened.clock.fast_forward(CHECK_MILLISECONDS)
    expect(opened.get_by_role("button", name="Undo")).to_be_visible()
    opened.clock.fast_forward(UNDO_MILLISECONDS)
    expect(opened.get_by_text("Refused")).to_be_visible()  # the server refuses it
    opened.get_by_role("link", name="Look").click()
    field.fill("aaa")
    assert given(opened, http, name, "Answer") == {"a": "aaa"}


@pytest.mark.parametrize("kind", ["slow names", "many alternatives", "many values", "many fields"])
def test_what_is_too_much_for_a_form_is_answered_as_json(
    opened: Page, http: httpx.Client, name: str, kind: str
) -> None:
    value = {"slow names": {"aaa": "x"}, "many alternatives": {"v": 7}}.get(kind, {})
    if value:
        json_of(opened).fill(str(value).replace("'", '"'))
    expected = QUESTIONS[kind].get("default") or value
    assert given(opened, http, name, "Answer") == expected


@pytest.mark.parametrize("kind", ["one of many", "some of many"])
def test_of_many_options_those_with_the_words_typed_are_shown(
    opened: Page, http: httpx.Client, name: str, kind: str
) -> None:
    opened.get_by_label("Find options").fill("O19999")
    expect(opened.get_by_text("1 of 20000 match")).to_be_visible()
    opened.get_by_label("o19999").check()
    opened.get_by_label("Find options").fill("no such words")
    expect(opened.get_by_label("o19999")).to_be_checked()  # what is chosen remains in sight
    result = given(opened, http, name, "Answer")
    assert result == ("o19999" if kind == "one of many" else ["o19999"])


@pytest.mark.parametrize("kind", ["a proposal of many rows"])
def test_a_proposal_of_many_rows_is_edited_as_json(opened: Page, http: httpx.Client, name: str) -> None:
    opened.get_by_role("button", name="Edit").click()
    json_of(opened).fill('{"rows": []}')
    expect(opened.get_by_text("more changes")).to_be_visible()
    assert elements(opened) < MOST_ELEMENTS
    edited = {"rows": [{"number": 7, "text": "t"}, *ROWS[1:]]}
    json_of(opened).fill(json.dumps(edited))
    assert given(opened, http, name, "Approve as edited") == edited
