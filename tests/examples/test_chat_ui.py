"""The chats in the terminal of examples/chat_ui, by both protocols, over a real web service."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from examples.chat_service.assistant import app
from examples.chat_ui.service import service
from signoff.server.process.uvicorn_server import Serving, bind, url_of
from signoff.stores.sqlite.store import SqliteStore
from tests.agents.ui.chat_clients import PACKAGES
from tests.node_programs import node_command
from tests.support import PATIENCE_SECONDS, in_asyncio, running


async def talked(program: str, url: str, *lines: str) -> str:
    """Run a chat on these lines, and return all that it wrote."""
    command = node_command(PACKAGES, PACKAGES / program, url, "t-1", "ana")
    pipe = asyncio.subprocess.PIPE
    chat = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    async with asyncio.timeout(PATIENCE_SECONDS):
        written, _ = await chat.communicate("".join(f"{line}\n" for line in lines).encode())
    return written.decode()


@pytest.mark.parametrize("program", ["ag_ui.mjs", "vercel_ai.mjs"])
@in_asyncio
async def test_a_chat_in_the_terminal_asks_again_after_its_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(app, "store", SqliteStore(tmp_path / "signoff.db"))
    listener = bind("127.0.0.1", 0)
    async with running(app):
        serving = Serving(service, listener)
        await serving.listening.wait()
        url = url_of("127.0.0.1", listener.getsockname()[1])
        try:
            first = await talked(program, url, "please refund o-1")
            assert '{"order_id":"o-1","cents":4900}' in first
            second = await talked(program, url, "yes", "and o-2", "too much")
            assert "please refund o-1" in second
            assert "€49.00 of o-1 were refunded" in second
            assert "That cannot be refunded: too much" in second
        finally:
            await serving.stop()
            listener.close()
