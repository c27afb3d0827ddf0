"""Each page of Studio, light and dark, wide and on a phone: common rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect

from signoff.server import Server
from tests.halves import sample
from tests.studio.axe import OF_COLOURS, serious
from tests.studio.looks import LOOKS
from tests.studio.patience import patient
from tests.studio.pictures import take_picture
from tests.studio.places import PLACES, furnished, routed, served_pages

WINDOWS = sample(["light", "dark phone"])
"""The looks that pages come in; there they are looked at by day and by night."""
ADMIN = {"X-Forwarded-User": "ana", "X-Forwarded-Roles": "admin"}
SUMS_SHIFTS = """
window.shifted = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifted += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""
ANSWERS_BACKWARDS = """
window.asked = window.answered = 0;
const ask = window.fetch;
window.fetch = async (...what) => {
  await new Promise((done) => setTimeout(done, Math.max(0, 800 - 100 * window.asked++)));
  try {
    return await ask(...what);
  } finally {
    window.answered++;
  }
};
"""
ALL_SHOWN = """
() => window.asked > 2 && window.asked === window.answered
  && new Promise((shown) => requestAnimationFrame(() => requestAnimationFrame(() => shown(true))))
"""
OVERHANGS = """
Math.max(...[document.documentElement, document.querySelector("main")].map(
  (each) => each.scrollWidth - each.clientWidth
))
"""
GOOD_SHIFT = 0.02
"""Of the page's height and width together; what is up to 0.1 is called good, and what moves text is more than this."""


@dataclass(frozen=True)
class Visit:
    """What was found on a page in one window."""

    violations: list[str]
    shifted: float
    too_wide: int
    title: str
    landmarks: int
    trouble: list[str]


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with furnished(tmp_path_factory.mktemp("rooms")) as server:
        yield server


@dataclass(frozen=True)
class Window:
    """A window that goes from page to page, which costs half as much as a new one for each."""

    page: Page
    schemes: Sequence[Literal["light", "dark"]]
    size: str
    trouble: list[str]


@pytest.fixture(scope="module", params=WINDOWS)
def window(request: pytest.FixtureRequest, browser: Browser, rooms: Server) -> Iterator[Window]:
    look = LOOKS[request.param]
    context = browser.new_context(base_url=rooms.url, extra_http_headers=ADMIN, **look)
    context.add_init_script(SUMS_SHIFTS)
    page, trouble = context.new_page(), list[str]()

    def told(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and "status of 404" not in message.text:
            trouble.append(message.text)

    page.on("console", told)
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on(
        "requestfailed", lambda failed: is_let_go(failed) or trouble.append(f"{failed.url}: {failed.failure}")
    )
    schemes: list[Literal["light", "dark"]] = ["light", "dark"]
    schemes.sort(key=lambda scheme: scheme != look["color_scheme"])
    yield Window(page, schemes, "phone" if "phone" in request.param else "wide", trouble)
    context.close()


FIRST_OF_ROUTES = {place.route: name for name, place in reversed(PLACES.items())}.values()


@pytest.fixture(
    scope="module",
    params=[
        name if name in FIRST_OF_ROUTES else pytest.param(name, marks=pytest.mark.long) for name in PLACES
    ],
)
def visit(request: pytest.FixtureRequest, window: Window) -> Visit:
    """Look at a page, by day and by night."""
    place, page = PLACES[request.param], window.page
    page.emulate_media(color_scheme=window.schemes[0])
    page.goto("about:blank")  # what the page before still asks for is let go
    window.trouble.clear()
    page.goto(place.address)
    expect(page.get_by_role("main").get_by_text(place.sees).filter(visible=True).first).to_be_visible()
    page.evaluate("document.fonts.ready")
    violations = list[str]()
    for scheme in window.schemes:
        page.emulate_media(color_scheme=scheme)
        take_picture(page, f"{request.param} {scheme} {window.size}")
        violations += serious(page, None if scheme == window.schemes[0] else OF_COLOURS)
    return Visit(
        violations=violations,
        shifted=page.evaluate("window.shifted"),
        too_wide=page.evaluate(OVERHANGS),
        title=page.title(),
        landmarks=page.get_by_role("main").count() + page.get_by_role("navigation").count(),
        trouble=list(window.trouble),
    )


def is_let_go(failed: Request) -> bool:
    """Whether the page itself has ended a stream, as it does once a run has ended."""
    is_stream = urlsplit(failed.url).path.endswith(("/events", "/timeline"))
    return is_stream and failed.failure == "net::ERR_ABORTED"


def test_axe_finds_nothing_serious(visit: Visit) -> None:
    assert visit.violations == []


def test_the_console_is_quiet_and_nothing_that_is_asked_for_fails(visit: Visit) -> None:
    assert visit.trouble == []


def test_nothing_moves_while_the_page_comes(visit: Visit) -> None:
    assert visit.shifted <= GOOD_SHIFT


@pytest.mark.parametrize("name", sample(["approval", "group", "run", "flow", "workers"]))
def test_nothing_moves_where_what_was_asked_for_first_comes_last(
    browser: Browser, rooms: Server, name: str
) -> None:
    place = PLACES[name]
    context = browser.new_context(base_url=rooms.url, extra_http_headers=ADMIN, **LOOKS["phone"])
    context.add_init_script(SUMS_SHIFTS + ANSWERS_BACKWARDS)
    page = context.new_page()
    page.goto(place.address)
    expect(page.get_by_role("main").get_by_text(place.sees).filter(visible=True).first).to_be_visible()
    page.wait_for_function(ALL_SHOWN)
    assert page.evaluate("window.shifted") <= GOOD_SHIFT
    context.close()


def test_nothing_is_wider_than_the_window(visit: Visit) -> None:
    assert visit.too_wide <= 0


def test_the_page_has_a_title_of_its_own_and_landmarks(visit: Visit) -> None:
    assert re.fullmatch(r".+ - Signoff|(\(\d+\+?\) )?Signoff", visit.title)
    assert visit.landmarks == 2


def test_each_page_of_the_router_is_known_to_the_server_and_tested_here() -> None:
    looked_at = {place.route for place in PLACES.values()} | {"/"}
    assert routed() == served_pages() == looked_at


@pytest.fixture
def page(browser: Browser, rooms: Server) -> Iterator[Page]:
    context = browser.new_context(base_url=rooms.url, extra_http_headers=ADMIN, reduced_motion="reduce")
    yield context.new_page()
    context.close()


def test_the_first_tab_stop_leads_to_the_content_and_focus_is_visible(page: Page) -> None:
    page.goto("/schedules")
    expect(page.get_by_role("link", name="Inbox")).to_be_visible()
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    expect(page).to_have_url(re.compile("/schedules$"))
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="New schedule")).to_be_focused()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


@pytest.mark.parametrize("scheme", sample(["dark", "light"]))
@pytest.mark.parametrize(
    ("address", "button"),
    [
        ("/schedules", "New schedule"),
        pytest.param("/schedules", "Delete", marks=pytest.mark.long),
        pytest.param("/workers", "Limit", marks=pytest.mark.long),
        pytest.param("/keys", "New key", marks=pytest.mark.long),
    ],
)
def test_axe_finds_nothing_serious_in_a_dialog(
    page: Page, scheme: Literal["light", "dark"], address: str, button: str
) -> None:
    page.emulate_media(color_scheme=scheme)
    page.goto(address)
    page.get_by_role("button", name=button).first.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    take_picture(page, f"dialog-{button}-{scheme}")
    assert serious(page) == []


def test_nothing_moves_for_those_who_want_no_motion(page: Page) -> None:
    patient(page)
    page.goto("/inbox/mail.1?view=all")
    page.get_by_role("button", name="Reject").click()
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    assert page.evaluate("document.getAnimations().length") == 0
    page.keyboard.press("u")
    expect(page.get_by_role("button", name="Undo")).to_be_hidden()


def test_on_a_phone_every_place_is_reached_by_the_menu(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto("/inbox")
    for name in ("Schedules", "API keys"):
        expect(page.get_by_role("link", name=name)).to_be_hidden()
        page.get_by_role("button", name="More").click()
        page.get_by_role("link", name=name).click()
        expect(page.get_by_role("heading", name=name)).to_be_visible()
