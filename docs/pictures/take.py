"""``make pictures``: takes the pictures of Studio that README.md shows, from the shop's samples, in Chromium.

They are the only generated files that are committed, since readers of README have not built anything yet. The shop's
clock and the browser's stand still, so the same Studio gives nearly the same pictures.
"""

from __future__ import annotations

import asyncio
import base64
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from playwright.async_api import Browser, Page, async_playwright

from examples.shop.samples import Sample, opened, samples, start_sample
from examples.shop.worker import app
from signoff import AsyncClient, AsyncHandle, Signoff
from signoff.records import EntryKind
from signoff.server import Server
from signoff.stores.sqlite.store import SqliteStore
from signoff.testing import VirtualClock

FOLDER = Path(__file__).parent
NAMES = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")
CHROMIUM = next((found for found in map(shutil.which, NAMES) if found), None)
NOW = datetime(2026, 3, 12, 10, 20, tzinfo=UTC)
MOST_BYTES = 150_000
MOST_SECONDS = 120

STARTED_MINUTES_AGO = {
    "refund-o-1038": 190,
    "stock-nordwind": 150,
    "release-4.2": 95,
    "supplier-alpenholz": 64,
    "campaign-spring": 47,
    "refund-o-1044": 31,
    "reply-tomas": 26,
    "complaint-mara": 22,
    "order-o-1043": 15,
    "stock-lumen": 9,
    "refund-o-1042": 4,
}

REPLY = """Dear Mara,

we are sorry that your desk lamp arrived damaged. We send you a new one today, with a longer cable. Keep the old one.

Your shop"""


async def main() -> None:
    """Take all pictures. Raises TimeoutError if it takes much too long."""
    async with asyncio.timeout(MOST_SECONDS):
        await take_all()


async def take_all() -> None:
    with tempfile.TemporaryDirectory(prefix="signoff-pictures-") as folder:
        async with shop(Path(folder)) as url, async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            await take_inbox(browser, url)
            await take_edit(browser, url)
            await take_run(browser, url)
            await take_phone(browser, url)
            await browser.close()


# What there is to see


@asynccontextmanager
async def shop(folder: Path) -> AsyncGenerator[str]:
    """Serve a shop as it is at ten past ten, and give its address."""
    clock = VirtualClock(NOW.timestamp())
    here = Signoff(SqliteStore(folder / "signoff.db", clock=clock), group=app.group)
    here.registry = app.registry
    try:
        async with Server(here, port=0) as server:
            here.registry.public_url = server.url
            async with here.worker(), AsyncClient(here) as client:
                for sample in samples():
                    clock.set(NOW.timestamp() - 60 * STARTED_MINUTES_AGO[sample.id])
                    await live_through(sample, await start_sample(client, sample), clock, client)
                clock.set(NOW.timestamp())
                yield server.url
    finally:
        await here.store.close()


async def live_through(sample: Sample, run: AsyncHandle, clock: VirtualClock, client: AsyncClient) -> None:
    """Have happen what comes of a sample by itself."""
    match sample.id:
        case "refund-o-1044":
            # Its deadline passes, and it is asked again.
            clock.advance(30)
            await opened(run, 2)
        case "order-o-1043":
            # It is paid, and its parcel asks.
            _, provider = await opened(run, 2)
            await opened(await client.get(provider.fact("id")), 1)
            clock.advance(40)
            *_, shipping = await opened(run, 3)
            await opened(await client.get(shipping.fact("id")), 1)
        case _ if sample.asks == 0:
            await see_end(run, clock)


async def see_end(run: AsyncHandle, clock: VirtualClock) -> None:
    """Wait until a run ends, and let pass what it waits for between the attempts of a step."""
    async with aclosing(run.events()) as events:
        async for entry in events:
            if entry.kind is EntryKind.ATTEMPT_FAILED:
                clock.set(entry.fact("next_at"))


# What is taken


async def take_inbox(browser: Browser, url: str) -> None:
    """A refund that is open, beside the others."""
    async with window(browser, url, width=1280, height=800) as page:
        await page.goto("/inbox")
        await open_question(page, "Refund €124.50 to Mara Lindqvist?")
        await take(page, "inbox")


async def take_edit(browser: Browser, url: str) -> None:
    """A proposal that is being edited."""
    async with window(browser, url, width=1280, height=800) as page:
        await page.goto("/inbox")
        await open_question(page, "Send this reply to Mara Lindqvist?")
        await page.get_by_role("button", name="Edit", exact=True).click()
        await page.get_by_role("textbox", name="Text").fill(REPLY)
        await page.get_by_role("button", name="Approve as edited").scroll_into_view_if_needed()
        await take(page, "edit")


async def take_run(browser: Browser, url: str) -> None:
    """A run with a step that was tried again."""
    async with window(browser, url, width=1280, height=800) as page:
        await page.goto("/runs/stock-lumen")
        await page.get_by_role("list", name="Timeline").get_by_text("store L-305").wait_for()
        await page.get_by_text("2 failed attempts").click()
        await take(page, "run")


async def take_phone(browser: Browser, url: str) -> None:
    """A question on a phone, in the dark."""
    async with window(browser, url, width=390, height=780, dark=True) as page:
        await page.goto("/inbox")
        await open_question(page, "o-1043 weighs 34.5 kg: which carrier?")
        await page.get_by_role("radio", name="Freight company").check()
        await take(page, "phone")


@asynccontextmanager
async def window(
    browser: Browser, url: str, *, width: int, height: int, dark: bool = False
) -> AsyncGenerator[Page]:
    """Open a page at a time, a place and a language that do not change."""
    context = await browser.new_context(
        base_url=url,
        viewport={"width": width, "height": height},
        device_scale_factor=2 if dark else 1.5,
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="Europe/Berlin",
    )
    await context.clock.set_fixed_time(NOW)
    yield await context.new_page()
    await context.close()


async def open_question(page: Page, text: str) -> None:
    """Choose a question, and wait until all of it is there."""
    await page.get_by_role("link", name=text).click()
    await page.get_by_role("article").get_by_role("heading", name=text).wait_for()


async def take(page: Page, name: str) -> None:
    """Write what is seen to a file. Playwright itself writes no WebP."""
    session = await page.context.new_cdp_session(page)
    taken = await session.send("Page.captureScreenshot", {"format": "webp", "quality": 85})
    picture = base64.b64decode(taken["data"])
    file = FOLDER / f"{name}.webp"
    file.write_bytes(picture)
    print(f"{file.relative_to(Path.cwd())}: {len(picture) / 1000:.0f} kB")
    if len(picture) > MOST_BYTES:
        sys.exit(f"{file} has more than {MOST_BYTES / 1000:.0f} kB")


if __name__ == "__main__":
    if CHROMIUM is None:
        sys.exit("there is no Chromium; .ci/packages installs it")
    asyncio.run(main())
