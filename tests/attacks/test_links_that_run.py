"""Addresses that would run as scripts are refused on creation, and no page links to them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from signoff.errors import InvalidValue, RegistrationError
from signoff.people.notifications.notices import attachment_text as said_in_messages
from signoff.people.questions.attachments import is_web
from signoff.people.questions.question import Question
from signoff.records import NewPromise, PromiseKind
from signoff.server.pages.answer_link import attachment_parts as shown_on_page
from signoff.stores.remote.store import RemoteStore
from tests import worker_keys
from tests.server.keyed import keyed
from tests.support import OnThread

RUNNING = [
    "javascript:alert(1)",
    "JavaScript:alert(1)",
    " javascript:alert(1)",
    "java\tscript:alert(1)",
    "javascript://example.com/%0aalert(1)",
    "data:text/html,<script>alert(1)</script>",
    "vbscript:msgbox(1)",
    "blob:https://example.com/1",
    "file:///etc/passwd",
    "//example.com",
    "https://",
    "https://ana:secret@example.com/",
    "",
]


@pytest.mark.parametrize("url", RUNNING)
def test_a_workflow_is_refused_them_and_nothing_that_is_shown_leads_there(url: str) -> None:
    attachment = {"name": "Invoice", "url": url}
    with pytest.raises(RegistrationError, match="attachments"):
        Question.make("Pay?", attachments=[attachment])  # type: ignore[list-item]
    assert shown_on_page(attachment)["url"] is None  # type: ignore[arg-type]
    assert said_in_messages(attachment) == "Invoice (not a web address)"


@pytest.mark.parametrize("url", [*RUNNING, None, 1, ["https://example.com"]])
def test_a_worker_is_refused_them_too(url: object) -> None:
    assert not is_web(url)


def test_a_worker_is_refused_them_at_the_store_door(tmp_path: Path) -> None:
    async def ask(server_url: str) -> None:
        store = RemoteStore(server_url, key=worker_keys.SECRET)
        await store.open()
        try:
            for number, url in enumerate([*RUNNING, None, 1]):
                attachments = [{"name": "good", "url": "https://example.com/"}, {"name": "x", "url": url}]
                data = json.dumps({"text": "Pay?", "attachments": attachments})
                new = NewPromise(f"q{number}", kind=PromiseKind.QUESTION, data=data)
                with pytest.raises(
                    InvalidValue, match=r"attachments\.1\.url: it is not an http or https address"
                ):
                    await store.create_promise(new)
        finally:
            await store.close()

    with OnThread(lambda: keyed(tmp_path, worker_keys=worker_keys.KEYS)) as here:
        asyncio.run(ask(here.server.url))


@pytest.mark.parametrize("url", ["https://example.com/a.pdf", "http://10.0.0.1:8080/x?y=javascript:1"])
def test_addresses_of_the_web_are_shown(url: str) -> None:
    assert shown_on_page({"name": "Invoice", "url": url})["url"] == url
    assert said_in_messages({"name": "Invoice", "url": url}) == f"Invoice {url}"
