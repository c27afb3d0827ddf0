"""Questions in Studio, and their results."""

from __future__ import annotations

from typing import Any

import httpx
from playwright.sync_api import Page, expect

from tests.server.conftest import asked, ended, path_of, start
from tests.studio.patience import UNDO_MILLISECONDS, install_clock

ORDER = {
    "type": "object",
    "properties": {
        "amount": {"type": "integer", "minimum": 1},
        "code": {"type": "string", "pattern": "^[A-Z]{3}$"},
    },
    "required": ["amount"],
}


def put(http: httpx.Client, name: str, **asks: Any) -> str:
    """Have something asked whose text is its run's id, and return the question's id."""
    start(http, "put", name, name, kwargs={"input_type": "approval"} | asks)
    return asked(http, name)


def show(page: Page, id: str, text: str) -> None:
    """Open a question, with a clock that runs normally until the test makes it jump."""
    install_clock(page)
    page.goto(f"/inbox/{path_of(id)}")
    expect(page.get_by_role("heading", name=text)).to_be_focused()


def result(page: Page, http: httpx.Client, name: str) -> dict[str, Any]:
    """What the run got, once the five seconds are over."""
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    page.clock.fast_forward(UNDO_MILLISECONDS)
    return ended(http, name)["result"]


def question(http: httpx.Client, id: str) -> dict[str, Any]:
    return http.get(f"/v1/questions/{path_of(id)}").json()
