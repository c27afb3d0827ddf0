"""Links in messages lead to an existing page, by whatever name people reach the server."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import httpx
import pytest

from signoff.people.notifications.channels.channel import Channel
from signoff.people.notifications.channels.mail import MailSender, MailServer
from signoff.people.notifications.notices import url_of
from signoff.records import NewPromise, PromiseKind
from signoff.server.app import create_server_app
from signoff.testing import MemoryStore
from tests.support import in_asyncio


@pytest.mark.parametrize(
    ("options", "own", "expected"),
    [
        ({"public_url": "https://s.example.org"}, None, "https://s.example.org/inbox/q%2F1"),
        ({"public_url": "https://s.example.org/a/"}, None, "https://s.example.org/a/inbox/q%2F1"),
        (
            {"public_url": "https://s.example.org", "root_path": "/signoff"},
            None,
            "https://s.example.org/signoff/inbox/q%2F1",
        ),
        ({"root_path": "/signoff"}, "https://t.example.org/", "https://t.example.org/signoff/inbox/q%2F1"),
        (
            {"public_url": "https://s.example.org"},
            "https://t.example.org",
            "https://t.example.org/inbox/q%2F1",
        ),
        ({}, None, None),
    ],
)
@in_asyncio
async def test_a_link_leads_to_the_question_s_page(
    options: dict[str, str], own: str | None, expected: str | None
) -> None:
    store = MemoryStore()
    sender = MailSender(MailServer("127.0.0.1", 9, "none"), "signoff@example.org")
    channel = Channel("mail", sender, to=("a@example.org",), public_url=own)
    api = create_server_app(store, channels=[channel], allowed_hosts=["t.example.org"], **options)  # type: ignore[arg-type]
    async with api.router.lifespan_context(api):
        question = (await store.create_promise(NewPromise("q/1", PromiseKind.QUESTION, data="{}")))[0]
        url = url_of(api.state.services.channels["mail"].public_url, question)
        assert url == expected
        if url is not None:
            base = f"https://{urlsplit(url).netloc}"
            async with httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url=base) as http:
                page = await http.get(url)
            is_built = page.status_code == 200 and re.match("<!doctype html>", page.text, re.IGNORECASE)
            assert is_built or "installed without Studio" in page.text
