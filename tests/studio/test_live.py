"""An agent's live output is shown on its run's page."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

import signoff
from signoff import Context
from signoff.server import Server
from tests.server.conftest import app_in, ended, serving, start
from tests.support import PATIENCE_SECONDS, OnThread

GO_ON = {name: threading.Event() for name in ("more", "fail", "end")}


async def tell(ctx: Context) -> Any:
    """What an agent's request to its model is."""
    return await ctx.step("teller:model_stream", speak)


def speak() -> Any:
    here = signoff.current_step()
    here.live("Let me see. ", kind="thinking")
    here.live(f"Once <b>upon</b>\u202e {here.attempt}")
    GO_ON["more"].wait(PATIENCE_SECONDS)
    here.live(" a time")
    if here.attempt == 1:
        GO_ON["fail"].wait(PATIENCE_SECONDS)
        raise ConnectionError("the model is away")
    GO_ON["end"].wait(PATIENCE_SECONDS)
    return {"parts": [{"part_kind": "text", "content": "Once upon a time"}]}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    app = app_in(tmp_path_factory.mktemp("live"))
    app.workflow(tell)
    with OnThread(lambda: serving(app)) as server:
        yield server


def test_an_agents_live_text_grows_and_is_replaced_by_its_response(
    page: Page, http: httpx.Client, name: str
) -> None:
    start(http, "tell", name)
    page.goto(f"/runs/{name}")
    talk = page.get_by_role("list", name="Conversation")
    speaking = talk.locator("[aria-busy=true]")
    expect(speaking).to_contain_text("Once <b>upon</b>")
    expect(speaking).to_contain_text(r"upon</b>\u202e 1")
    speaking.get_by_text("teller thinks").click()
    expect(speaking).to_contain_text("Let me see.")
    GO_ON["more"].set()
    expect(speaking).to_contain_text("1 a time")
    page.reload()
    expect(speaking).to_contain_text("1 a time")
    GO_ON["fail"].set()
    expect(speaking).to_contain_text("2 a time")
    expect(speaking).not_to_contain_text("1 a time")
    expect(talk.get_by_role("listitem")).to_have_count(1)
    GO_ON["end"].set()
    ended(http, name)
    expect(talk.get_by_text("Once upon a time")).to_be_visible()
    expect(speaking).to_have_count(0)
    expect(talk.get_by_role("listitem")).to_have_count(1)
