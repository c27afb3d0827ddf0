"""Conversations whose processes stop, are killed, or return much later."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic_ai import RunContext

from signoff.agents import Approve, Finished, Paused, Reply
from tests.agents.chats import Chats, returns_of
from tests.agents.histories import is_whole
from tests.halves import sample
from tests.support import doomed_worker, in_asyncio, opened

ROOT = Path(__file__).parents[2]
UNMEASURED = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}


@in_asyncio
@pytest.mark.parametrize("number", sample([signal.SIGKILL, signal.SIGTERM]))
async def test_a_process_that_is_stopped_or_killed_leaves_its_approval_open(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.agents.waiting_program",
        str(tmp_path),
        "cat slow rm:b",
        cwd=ROOT,
        env=UNMEASURED,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readline(), 60) == b"asked\n"
    process.send_signal(number)
    await process.wait()

    chats = Chats(tmp_path)
    chats.hangs = False
    async with opened(chats.app):
        (left,) = await chats.conversation("c").pending()
    async with chats.running():
        chat = chats.conversation("c")
        turn = await chat.wait()
        assert isinstance(turn, Paused)
        assert [each.id for each in turn.pending] == [left.id]
        turn = await chat.respond(left.id, Approve())
        assert isinstance(turn, Finished)
        await is_whole(chat)
    assert chats.removed == ["b"]
    assert len(chats.model.seen) == 1, "the request that was answered is not made again"
    assert sorted(str(part.content) for part in returns_of(turn.messages)) == ["removed b", "text of slow"]


@pytest.mark.long
@in_asyncio
async def test_of_two_processes_answering_one_approval_one_wins_in_the_history(
    tmp_path: Path,
) -> None:
    sessions = [f"c{number}" for number in range(8)]
    async with Chats(tmp_path).running() as chats, contextlib.AsyncExitStack() as stack:
        for session in sessions:
            assert isinstance(await chats.conversation(session).run(f"rm {session}"), Paused)
        racers = [await stack.enter_async_context(answering(tmp_path, how)) for how in ("approve", "deny")]
        for each in racers:
            assert each.stdout is not None
            assert await asyncio.wait_for(each.stdout.readline(), 60) == b"ready\n"
        said = await asyncio.gather(*(each.communicate(b"go\n") for each in racers))
        approved, denied = (json.loads(out) for out, _ in said)
        assert sorted(approved + denied) == sessions
        for session in sessions:
            (returned,) = returns_of(await is_whole(chats.conversation(session)))
            told = (returned.outcome, returned.content)
            assert told == (
                ("success", f"removed {session}") if session in approved else ("denied", "not that one")
            )
    assert sorted(chats.removed) == sorted(approved)


@asynccontextmanager
async def answering(folder: Path, how: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that answers the open questions, once it gets a line."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.agents.answering_program", str(folder), how),
        cwd=ROOT,
        env=UNMEASURED,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@in_asyncio
async def test_a_tool_that_may_have_happened_is_asked_about_in_the_conversation(tmp_path: Path) -> None:
    first = Chats(tmp_path)
    async with opened(first.app), doomed_worker(first.app):
        chat = first.conversation("c")
        turn = await chat.run("rm slow")
        assert isinstance(turn, Paused)
        waiting = asyncio.create_task(chat.respond(turn.pending[0].id, Approve()))
        await first.slow.wait()
        await chat.detach()
        await asyncio.gather(waiting, return_exceptions=True)
    second = Chats(tmp_path)
    async with second.running():
        chat = second.conversation("c")
        turn = await chat.wait()
        assert isinstance(turn, Paused)
        assert "may or may not have happened" in turn.pending[0].text
        turn = await chat.respond(turn.pending[0].id, Reply({"action": "done", "result": "removed it"}))
        assert isinstance(turn, Finished)
        assert returns_of(turn.messages)[0].content == "removed it"
        await is_whole(chat)
    assert second.removed == []


@in_asyncio
async def test_a_turn_after_twenty_calls_continues_without_repeating_any(
    tmp_path: Path,
) -> None:
    first = Chats(tmp_path)
    files = [f"f{number}" for number in range(20)]
    async with first.running():
        chat = first.conversation("c")
        await chat.run("earlier")
        turn = await chat.run(" ".join(["cat", *files, "rm:z"]))
        assert isinstance(turn, Paused)
    second = Chats(tmp_path)
    async with second.running():
        turn = await second.conversation("c").respond(turn.pending[0].id, Approve())
    assert isinstance(turn, Finished)
    assert (len(second.model.seen), second.removed, second.read) == (1, ["z"], [])
    assert sorted(first.read) == sorted(files)


@pytest.mark.long
@in_asyncio
async def test_an_evicted_paused_turn_leaves_nothing_in_memory(tmp_path: Path) -> None:
    chats = Chats(tmp_path)
    before = _contexts()
    async with opened(chats.app), doomed_worker(chats.app) as worker:
        for number in range(20):
            turn = await chats.conversation(f"c{number}").run("rm a b cat:c")
            assert isinstance(turn, Paused)
        while worker.held:  # it hears of its own commit later than we do
            await asyncio.sleep(0.001)
        assert _contexts() > before
        worker.evict()
        assert _contexts() <= before


def _contexts() -> int:
    """Count what only an agent that runs, or waits, has."""
    gc.collect()
    return sum(type(each) is RunContext for each in gc.get_objects())
