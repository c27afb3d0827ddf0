"""The tests' browser."""

import shutil

from playwright.sync_api import expect

# The shell is the same browser without windows of its own, which cost it a second of the processor for each page.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")

CHROMIUM = next((found for found in map(shutil.which, NAMES) if found), None)
"""Its path; None if it is not installed."""

ARGUMENTS = (
    "--no-sandbox",
    # A process for all pages of a context: a new one for each page that is opened takes as long as the page.
    "--renderer-process-limit=1",
    "--disable-site-isolation-trials",
)
"""How it is started."""

# What is waited for comes within moments, but for a machine that does much else.
expect.set_options(timeout=45_000)
