"""What hinders people on a page, as axe sees it."""

from __future__ import annotations

from typing import Final

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

SERIOUS: Final = """
() => axe.run({ resultTypes: ["violations"] }).then(({ violations }) => violations
  .filter(({ impact }) => impact === "serious" || impact === "critical")
  .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`)))
"""


def serious(page: Page) -> list[str]:
    """Return what axe finds serious or critical on a page: each rule with the element that breaks it.

    ``Axe.run`` loads axe each time and returns what is in order too, which takes as long as the look itself.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    return page.evaluate(SERIOUS)
