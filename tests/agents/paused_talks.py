"""Conversations that pause, in a store and through a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from signoff import AsyncClient
from signoff.agents import Conversation, Paused
from signoff.records import AuditEvent
from signoff.records.paging import AuditFilter
from signoff.stores.contract.store import Store
from signoff.stores.remote.store import RemoteStore
from tests.agents.chats import Chats
from tests.halves import sample
from tests.server.conftest import serving

WAYS = pytest.mark.parametrize("way", sample(["store", "server"]))


class Talk:
    """Conversations with the agent of a process: by its store, or by a server's address alone."""

    def __init__(self, chats: Chats, client: AsyncClient) -> None:
        self.chats = chats
        self.client = client

    def conversation(self, session_id: str, **options: Any) -> Conversation:
        return Conversation(self.client, "support", session_id=session_id, **options)

    async def trail(self, question_id: str) -> Sequence[AuditEvent]:
        """What is on record of a question: in the store, since the server's audit trail needs a key."""
        return (await self.chats.app.store.list_audit(AuditFilter(question_id=question_id))).items


@asynccontextmanager
async def talking(place: Path | Store, way: str, **options: Any) -> AsyncIterator[Talk]:
    chats = Chats(place, **options)
    if way == "store" or isinstance(place, RemoteStore):
        async with chats.running() as opened:
            yield Talk(chats, opened.client)
        return
    async with serving(chats.app) as server, AsyncClient(server.url) as client:
        yield Talk(chats, client)


async def paused(chat: Conversation, prompt: str) -> tuple[Paused, str]:
    turn = await chat.run(prompt)
    assert isinstance(turn, Paused)
    return turn, turn.resume_token
