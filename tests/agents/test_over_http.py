"""Conversations through a server: another process talks, and has no store."""

from __future__ import annotations

from pathlib import Path

import pytest

from signoff import AsyncClient, RunCancelled
from signoff.agents import Approve, Conversation, Edit, Finished, Paused
from tests.agents.chats import Chats, returns_of
from tests.server.conftest import serving
from tests.support import in_asyncio


@in_asyncio
async def test_a_conversation_goes_through_a_server(tmp_path: Path) -> None:
    chats = Chats(tmp_path)
    async with serving(chats.app) as server, AsyncClient(server.url) as client:
        chat = Conversation(client, "support", session_id="c")
        assert isinstance(await chat.run("hello"), Finished)
        turn = await chat.run("rm a b", context={"tenant": "t1"})
        assert isinstance(turn, Paused)
        a, b = turn.pending
        await chat.respond(a.id, Approve())
        turn = await chat.respond(b.id, Edit({"path": "z"}))
        assert isinstance(turn, Finished)
        assert len(returns_of(turn.messages)) == 2
        assert sorted(chats.removed)[1] == "z"
        turn = await chat.run("rm c")
        await chat.abort("enough")
        with pytest.raises(RunCancelled, match="enough"):
            await chat.wait(turn.run_id)
        there = [(event.id, event.entry.kind) async for event in chat.events()]
        here = [(event.id, event.entry.kind) async for event in chats.conversation("c").events()]
        assert there == here
