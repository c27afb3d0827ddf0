"""Studio in a real browser, in front of a real server and worker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from signoff.server import Server
from tests.chromium import ARGUMENTS, CHROMIUM
from tests.server.conftest import app_in, serving
from tests.support import OnThread


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if CHROMIUM is not None:
        return
    for item in filter(_is_here, items):
        item.add_marker(pytest.mark.skip(reason="there is no Chromium; .ci/packages installs it"))


def _is_here(item: pytest.Item) -> bool:
    return "/studio/" in item.path.as_posix()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for the tests of a file: lists have what they have put there, and no more."""
    with OnThread(lambda: serving(app_in(tmp_path_factory.mktemp("studio")))) as server:
        yield server


@pytest.fixture
def http(served: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.url, trust_env=False, verify=False, timeout=60) as client:
        yield client


@pytest.fixture
def name() -> str:
    """An id that no other test uses."""
    return f"run-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="module")  # no longer: its event loop runs on this thread
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def expected_message() -> str | None:
    """What the browser says of the faults of a test, which gives another value by ``parametrize``."""
    return None


@pytest.fixture
def page(browser: Browser, served: Server, expected_message: str | None) -> Iterator[Page]:
    """A new window at nobody's name, in which no script may fail and nothing comes from elsewhere."""
    context = browser.new_context(base_url=served.url)
    trouble: list[str] = []

    def told(message: ConsoleMessage) -> None:
        refused = (
            "the server responded with a status of 4" in message.text
        )  # said by the browser, not by the page
        if expected_message is not None and expected_message in message.text:
            return
        if message.type in ("error", "warning") and not refused:
            trouble.append(message.text)

    context.on("console", told)
    context.on("weberror", lambda error: trouble.append(str(error.error)))
    context.on(
        "request", lambda request: request.url.startswith(served.url) or trouble.append(f"asks {request.url}")
    )
    yield context.new_page()
    context.close()
    assert trouble == []
