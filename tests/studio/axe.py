"""Accessibility problems of a page, as axe reports them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

SERIOUS: Final = """
(runOnly) => axe.run({ resultTypes: ["violations"], ...(runOnly && { runOnly }) }).then(({ violations }) => violations
  .filter(({ impact }) => impact === "serious" || impact === "critical")
  .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`)))
"""


OF_COLOURS: Final = ["color-contrast", "link-in-text-block"]
"""The rules that a page may break in another colour scheme alone."""


def serious(page: Page, rules: Sequence[str] | None = None) -> list[str]:
    """Return what axe finds serious or critical on a page: each rule with the element that breaks it.

    Args:
        page: The page.
        rules: What to look for; all of axe's rules if None.

    ``Axe.run`` loads axe each time and returns what is in order too, which takes as long as the look itself.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    return page.evaluate(SERIOUS, rules and list(rules))
