"""Live output of a model reaches listeners in other processes, despite kills and lost connections."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from signoff import AsyncClient, LiveText, RunState, Signoff
from signoff.agents import Conversation, Finished, TurnEvent
from signoff.server import Server
from signoff.wire.sse import Event, read_events
from tests.agents.speaking_program import speaking_app
from tests.support import PATIENCE_SECONDS, in_asyncio, reaches, running

ROOT = Path(__file__).parents[2]
UNMEASURED = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
SO_FAR = "Once upon "


async def spoken(events: AsyncGenerator[Any], words: str) -> list[TurnEvent | LiveText]:
    """Read on until these words are said."""
    read: list[TurnEvent | LiveText] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for event in events:
            read.append(event)
            if text_of(read) == words:
                return read
    raise AssertionError(f"{words!r} was never said: {read}")


def text_of(events: Sequence[TurnEvent | LiveText], kind: str = "text") -> str:
    return "".join(each.text for each in events if isinstance(each, LiveText) and each.kind == kind)


@asynccontextmanager
async def worker(folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker in a process of its own, killed at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.agents.speaking_program", str(folder), cwd=ROOT, env=UNMEASURED
    )
    try:
        yield process
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def served(app: Signoff) -> AsyncIterator[str]:
    """A server in this process, without a worker."""
    try:
        async with Server(app.store, port=0) as server:
            yield server.url
    finally:
        await app.store.close()


@asynccontextmanager
async def following(url: str, run_id: str, last: int, **query: str) -> AsyncIterator[AsyncIterator[Event]]:
    """Follow a run as a browser does."""
    address, headers = f"{url}/v1/runs/{run_id}/events", {"last-event-id": str(last)}
    async with (
        httpx.AsyncClient(trust_env=False, verify=False, timeout=PATIENCE_SECONDS) as client,
        client.stream("GET", address, params=query, headers=headers) as response,
    ):
        yield read_events(response.aiter_bytes())


async def said(events: AsyncIterator[Event], words: str) -> list[Event]:
    """Read server-sent events until these words are said."""
    read: list[Event] = []
    async for event in events:
        read.append(event)
        pieces = [json.loads(each.data) for each in read if each.name == "live"]
        if "".join(each["text"] for each in pieces if each["kind"] == "text") == words:
            return read
    raise AssertionError(f"{words!r} was never said: {read}")


def left_in(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "signoff.db")) as connection:
        return connection.execute("SELECT count(*) FROM live").fetchone()[0]


@in_asyncio
async def test_a_models_text_and_thinking_are_live_and_its_response_is_journaled(
    tmp_path: Path,
) -> None:
    app = speaking_app(tmp_path)
    async with running(app):
        chat = app.conversation("teller", session_id="c")
        talking = asyncio.create_task(chat.run("Tell", id="r"))
        await reaches(app, "r", RunState.RUNNING)
        events = chat.events(live=True)
        before = await spoken(events, SO_FAR)
        assert text_of(before, "thinking") == "Let me see. "
        assert {each.name for each in before if isinstance(each, LiveText)} == {"teller:model_stream"}
        (tmp_path / "go").touch()
        turn = await talking
        assert isinstance(turn, Finished)
        assert turn.output == "Once upon a time"
        after = [event async for event in events]
        durable = [each for each in before + after if isinstance(each, TurnEvent)]
        assert durable == [event async for event in chat.events()]
        [response] = [each.entry for each in durable if each.entry.name == "teller:model_stream"]
        assert "Once upon a time" in (response.value or "")
        assert left_in(tmp_path) == 0


@pytest.mark.long
@in_asyncio
async def test_after_a_kill_during_live_output_the_next_worker_starts_over(tmp_path: Path) -> None:
    app = speaking_app(tmp_path)
    async with served(app) as url, AsyncClient(url) as client:
        turn = await client.start("teller", {"prompt": "Tell"}, id="r", session_id="c")
        chat = Conversation(client, "teller", session_id="c")
        async with aclosing(chat.events(live=True)) as events:
            async with worker(tmp_path):
                first = await spoken(events, SO_FAR)
            async with worker(tmp_path):
                second = await spoken(events, SO_FAR)
                (tmp_path / "go").touch()
                rest = [event async for event in events]
        epochs = [
            {each.epoch for each in read if isinstance(each, LiveText)} for read in (first, second, rest)
        ]
        assert epochs[0] == {1}
        assert epochs[1] == {2}
        assert epochs[2] <= {2}
        begun = next(each for each in second if isinstance(each, LiveText))
        assert begun.position == 0
        assert (await turn.result())["output"] == "Once upon a time"
        journal = await turn.journal()
        assert [each.entry.seq for each in first + second + rest if isinstance(each, TurnEvent)] == [
            entry.seq for entry in journal
        ]
        assert left_in(tmp_path) == 0


@in_asyncio
async def test_a_reconnecting_reader_gets_missed_entries_then_all_live_text(
    tmp_path: Path,
) -> None:
    app = speaking_app(tmp_path)
    async with served(app) as url, AsyncClient(url) as client, worker(tmp_path):
        await client.start("teller", {"prompt": "Tell"}, id="r", session_id="c")
        async with following(url, "r", -1, live="true") as events:
            seen = await said(events, SO_FAR)
        last = max(int(each.id) for each in seen if each.id is not None)
        assert [each.id for each in seen if each.name == "live"] == [None] * len(
            [each for each in seen if each.name == "live"]
        )
        assert [each.id for each in seen if each.name != "live"] == [str(seq) for seq in range(last + 1)]
        async with following(url, "r", last - 1, live="true") as events:
            again = await said(events, SO_FAR)
            assert [each.id for each in again if each.name != "live"] == [str(last)]
            assert again[0].id == str(last)
            (tmp_path / "go").touch()
            rest = [event async for event in events]
        assert rest[-1].name == "end"
        async with following(url, "r", -1) as events:
            assert {event.name for event in [each async for each in events]} == {"message", "end"}
