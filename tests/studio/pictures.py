"""Screenshots of pages, kept if ``SIGNOFF_PICTURES`` is set: a hundred take 20 s."""

import os
from pathlib import Path
from typing import Final

from playwright.sync_api import Page

KEPT_IN: Final = Path(__file__).parents[2] / ".artifacts" / "studio"

DRAWN: Final = """
() => new Promise((drawn) => new PerformanceObserver((list) => {
  if (list.getEntriesByName("first-contentful-paint").length) drawn(true);
}).observe({ type: "paint", buffered: true }))
"""


def take_picture(page: Page, name: str, *, full_page: bool = False) -> None:
    """Keep what is seen of a page if that is wanted, under the name with hyphens for what stands badly in a file's.

    A page may have been loaded before it is drawn, and until it is Chromium is "unable to capture screenshot".
    """
    page.evaluate(DRAWN)
    if "SIGNOFF_PICTURES" not in os.environ:
        return
    file = f"{name}.png".translate(str.maketrans(" ?=", "---"))
    page.screenshot(path=KEPT_IN / file, full_page=full_page)
