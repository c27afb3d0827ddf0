"""Patient pages: temporary content stays until a test has looked, also on a stalled machine."""

from __future__ import annotations

from playwright.sync_api import BrowserContext, Page

PATIENCE_MILLISECONDS = 60_000
UNDO_MILLISECONDS = 5_000 + PATIENCE_MILLISECONDS
"""How far a page that is patient must jump until a decision is sent."""
CHECK_MILLISECONDS = 2_000 + PATIENCE_MILLISECONDS
"""How far it must jump until it leaves the check of a value to the server."""

# "Copied" is said and a value checked for 2 s, a leading tab answers within 3 s, a decision can be taken back for 5 s.
WAITS_LONGER = f"""
const wait = window.setTimeout;
window.setTimeout = (then, delay, ...more) =>
  wait(then, [2000, 3000, 5000].includes(delay) ? delay + {PATIENCE_MILLISECONDS} : delay, ...more);
"""


def patient(where: Page | BrowserContext) -> None:
    """Have the pages that are opened from now on wait longer."""
    where.add_init_script(WAITS_LONGER)


def install_clock(page: Page) -> None:
    """Give a patient page a clock that runs normally until the test makes it jump."""
    page.clock.install()
    patient(page)
