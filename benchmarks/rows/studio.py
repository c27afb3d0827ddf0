"""Studio in Chromium: the time until its inbox is shown, and the smoothness of scrolling a long one."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from benchmarks.programs import new_app
from benchmarks.row import Figures, Line, Place, Row
from benchmarks.yardsticks import Yardstick
from signoff import Question, Signoff
from signoff.records import NewPromise, PromiseKind
from signoff.server import Server

CHROMIUM: Final = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
VISITS: Final = 5
AT_ONCE: Final = 1_000
SLOW_MILLISECONDS: Final = 50
LIST: Final = "ul[aria-label='Open questions']"

# Notes when the first question is in the page and drawn.
NOTE_VIEW = f"""
window.viewed = new Promise((resolve) => {{
    const watch = () => document.querySelector("{LIST} a") === null
        ? requestAnimationFrame(watch)
        : requestAnimationFrame(() => resolve(performance.now()));
    watch();
}});
"""

# From the top to the end in 300 frames; returns their milliseconds. Without a list, the same on the empty page.
SCROLL = f"""async () => {{
    const box = document.querySelector("{LIST}")?.parentElement ?? document.documentElement;
    const step = (box.scrollHeight - box.clientHeight) / 300;
    const frame = () => new Promise(requestAnimationFrame);
    box.scrollTop = 0;
    let before = await frame();
    const took = [];
    for (let place = 1; place <= 300; place++) {{
        box.scrollTop = place * step;
        const now = await frame();
        took.push(now - before);
        before = now;
    }}
    return took;
}}"""


async def studio(place: Place) -> Figures:
    """Milliseconds to the first view, the number of slow frames, and the longest frame."""
    app = new_app(place.new_store())
    figures: Figures = {"cold": [], "warm": [], "slow": [], "longest": [], "slow_empty": []}
    async with Server(app, port=0) as server, chromium() as browser:
        await _ask(app, place.sizes.shown)
        with place.measured():
            for _ in range(VISITS):
                context = await _new_context(browser, server)
                figures["cold"].append(await _view(context))
                figures["warm"].append(await _view(context))
                await context.close()
            context = await _new_context(browser, server)
            frames = await _scroll(await context.new_page(), place.sizes.shown)
            figures["slow"].append(_slow(frames))
            figures["longest"].append(max(frames))
            empty = await context.new_page()
            await empty.goto("/health")
            figures["slow_empty"].append(_slow(await empty.evaluate(SCROLL)))
    await app.store.close()
    return figures


def _slow(frames: list[float]) -> float:
    return float(sum(took > SLOW_MILLISECONDS for took in frames))


@asynccontextmanager
async def chromium() -> AsyncGenerator[Browser]:
    """A headless browser."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        await browser.close()


async def _ask(app: Signoff, count: int) -> None:
    for first in range(0, count, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, count))
        questions = (Question.make(f"Refund number {number}?").to_json() for number in numbers)
        await asyncio.gather(
            *(
                app.store.create_promise(NewPromise(f"q{number}", PromiseKind.QUESTION, data=data))
                for number, data in zip(numbers, questions, strict=True)
            )
        )


async def _new_context(browser: Browser, server: Server) -> BrowserContext:
    context = await browser.new_context(base_url=server.url)
    await context.add_init_script(NOTE_VIEW)
    return context


async def _view(context: BrowserContext) -> float:
    page = await context.new_page()
    await page.goto("/inbox")
    viewed = await page.evaluate("window.viewed")
    await page.close()
    return float(viewed)


async def _scroll(page: Page, count: int) -> list[float]:
    await page.goto("/inbox")
    await page.evaluate("window.viewed")
    box = page.locator(LIST).locator("..")
    counted = page.locator("h1 + .count")
    while await counted.inner_text() != f"{count:,}":
        await box.evaluate("(box) => box.scrollTo(0, box.scrollHeight)")
        await asyncio.sleep(0.05)
    return await page.evaluate(SCROLL)


def milliseconds_of_empty_page(folder: Path) -> float:
    """The time of a one-line page of the same server, from the request until it is painted."""

    async def painted() -> float:
        with tempfile.TemporaryDirectory(dir=folder) as name:
            app = new_app(f"sqlite:///{name}/empty.db")
            async with Server(app, port=0) as server, chromium() as browser:
                page = await browser.new_page(base_url=server.url)
                await page.goto("/health")
                paint = await page.evaluate(
                    """() => new Promise((resolve) => new PerformanceObserver((list) =>
                        resolve(list.getEntriesByName("first-contentful-paint")[0].startTime)
                    ).observe({ type: "paint", buffered: true }))"""
                )
            await app.store.close()
        return float(paint)

    return asyncio.run(painted())


EMPTY_PAGE = Yardstick("a page of one line", "ms", milliseconds_of_empty_page)

ROW = Row(
    "studio",
    studio,
    EMPTY_PAGE,
    (
        Line(
            "cold",
            "first view of an inbox of 10,000, nothing in the cache",
            "ms",
            target=1_000,
            less_is_better=True,
        ),
        Line("warm", "... with a warm cache", "ms", less_is_better=True),
        Line(
            "slow",
            f"frames of 300 over {SLOW_MILLISECONDS} ms while scrolling through all",
            "",
            target=0,
            less_is_better=True,
            has_ratio=False,
        ),
        Line("longest", "... the longest one", "ms", less_is_better=True, has_ratio=False),
        Line(
            "slow_empty",
            "... frames over that on a one-line page",
            "",
            less_is_better=True,
            has_ratio=False,
        ),
    ),
    lambda sizes: sizes.shown,
)

ROWS = () if CHROMIUM is None else (ROW,)
"""None without Chromium."""
