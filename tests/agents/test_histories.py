"""The history of a session is complete and valid, whatever the ends of its turns."""

from __future__ import annotations

import asyncio
import json
import tempfile
import uuid
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from signoff import RetryPolicy
from signoff.agents import Approve, Budget, Conversation, Deny, Finished, Paused
from signoff.agents.conversations.interrupted_turns import Ending, closed
from signoff.errors import InvalidValue
from signoff.records import NewRun
from tests.agents.chats import Chats, texts_of
from tests.agents.histories import check, is_accepted
from tests.halves import sample
from tests.support import in_asyncio

ONCE = RetryPolicy(max_attempts=1)


# Endings


async def quietly(waiting: Awaitable[object]) -> None:
    await asyncio.gather(waiting, return_exceptions=True)


async def finishes(chats: Chats, chat: Conversation) -> None:
    assert isinstance(await chat.run("cat a b"), Finished)


async def is_answered(chats: Chats, chat: Conversation) -> None:
    turn = await chat.run("rm a b")
    assert isinstance(turn, Paused)
    await chat.respond(turn.pending[0].id, Approve())
    await chat.respond(turn.pending[1].id, Deny())


async def is_aborted_while_it_waits(chats: Chats, chat: Conversation) -> None:
    assert isinstance(await chat.run("cat a rm:b rm:c"), Paused)
    await chat.abort("because")


async def is_aborted_half_answered(chats: Chats, chat: Conversation) -> None:
    turn = await chat.run("rm a b")
    assert isinstance(turn, Paused)
    await chat.respond(turn.pending[0].id, Approve())
    await chat.steer("never read")
    await chat.abort()


async def is_aborted_in_a_request(chats: Chats, chat: Conversation) -> None:
    chats.model.gate.clear()
    chats.model.asked.clear()
    waiting = asyncio.create_task(chat.run("hello"))
    await chats.model.asked.wait()
    await chat.abort()
    chats.model.gate.set()
    await quietly(waiting)


async def is_aborted_in_a_tool(chats: Chats, chat: Conversation) -> None:
    chats.slow.clear()
    waiting = asyncio.create_task(chat.run("cat a slow"))
    await chats.slow.wait()
    await chat.abort()
    await quietly(waiting)


async def fails_in_a_request(chats: Chats, chat: Conversation) -> None:
    with pytest.raises(ValueError, match="broken"):
        await chat.run("break")


async def fails_after_its_tools(chats: Chats, chat: Conversation) -> None:
    with pytest.raises(ValueError, match="cannot read"):
        await chat.run("cat a bomb")


async def fails_in_a_tool_while_another_waits(chats: Chats, chat: Conversation) -> None:
    with pytest.raises(FileNotFoundError):
        await chat.run("cat missing rm:b")


async def is_over_budget(chats: Chats, chat: Conversation) -> None:
    await quietly(chat.run("cat a b c d e"))


async def is_cancelled_before_it_begins(chats: Chats, chat: Conversation) -> None:
    first = await chat.run("rm a")
    assert isinstance(first, Paused)
    second = await chat.run("hello")
    await chats.client.cancel(second.run_id)
    await chat.respond(first.pending[0].id, Approve())


async def is_past_its_deadline(chats: Chats, chat: Conversation) -> None:
    id = str(uuid.uuid4())
    await quietly(chat.run("rm a", id=id, timeout_seconds=0.3))
    await chats.client.backend.wait(id)


ENDINGS: list[Callable[[Chats, Conversation], Awaitable[None]]] = [
    finishes,
    is_answered,
    is_aborted_while_it_waits,
    is_aborted_half_answered,
    is_aborted_in_a_request,
    is_aborted_in_a_tool,
    fails_in_a_request,
    fails_after_its_tools,
    fails_in_a_tool_while_another_waits,
    is_over_budget,
    is_cancelled_before_it_begins,
    is_past_its_deadline,
]


async def go_through(
    folder: Path, endings: Sequence[Callable[[Chats, Conversation], Awaitable[None]]]
) -> None:
    async with Chats(folder, durable={"retry": ONCE}, budget=Budget(tool_calls=4)).running() as chats:
        chat = chats.conversation("c")
        for ending in endings:
            before = texts_of(await chat.messages())
            async with asyncio.timeout(60):
                await ending(chats, chat)
            history = await chat.messages()
            check(history)
            await is_accepted(history)
            assert texts_of(history)[: len(before)] == before, "what was said stays said"
            assert len(texts_of(history)) >= len(before) + 2, "each turn is in the history"
        assert isinstance(await chat.run("hello"), Finished)
        assert chats.model.seen[-1] == [*texts_of(history), "hello"]


@in_asyncio
@pytest.mark.parametrize("ending", sample(ENDINGS, every=4))
async def test_a_history_is_valid_after_each_ending(
    tmp_path: Path, ending: Callable[[Chats, Conversation], Awaitable[None]]
) -> None:
    await go_through(tmp_path, [ending])


@settings(max_examples=6, deadline=None)
@given(st.lists(st.sampled_from(ENDINGS), min_size=2, max_size=4))
def test_a_history_is_valid_after_any_sequence_of_endings(
    endings: list[Callable[[Chats, Conversation], Awaitable[None]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(go_through(Path(folder), endings))


# Whatever a turn has got to

CALLS = st.lists(st.sampled_from("abcdef"), min_size=0, max_size=4, unique=True)


@st.composite
def cut_off(draw: st.DrawFn) -> tuple[list[ModelMessage], set[str]]:
    """Messages of a turn that was cut off anywhere, as Pydantic AI captures them."""
    messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart("do it")])]
    begun: set[str] = set()
    for step in range(draw(st.integers(0, 3))):
        ids = [f"{step}{letter}" for letter in draw(CALLS)]
        messages.append(
            ModelResponse(parts=[TextPart("so"), *(ToolCallPart("rm", {"path": id}, id) for id in ids)])
        )
        if not ids:
            return messages, begun
        begun.update(draw(st.sets(st.sampled_from(ids))))
        is_last = step == 2 or draw(st.booleans())
        answered = draw(st.sets(st.sampled_from(ids))) if is_last else set(ids)
        if is_last and draw(st.booleans()):
            return messages, begun
        messages.append(
            ModelRequest(
                parts=[ToolReturnPart("rm", "done", id) for id in ids if id in answered],
                state="interrupted" if is_last else "complete",
            )
        )
        if is_last:
            return messages, begun
    return messages, begun


@given(cut_off(), st.sampled_from([Ending("aborted", ""), Ending("failed", "x" * 2000)]))
def test_a_turn_cut_off_anywhere_is_closed_and_loses_nothing(
    turn: tuple[list[ModelMessage], set[str]], ending: Ending
) -> None:
    messages, begun = turn
    left = closed(messages, begun, ending)
    check(left)
    said = [part for message in messages for part in message.parts]
    kept = [part for message in left for part in message.parts]
    assert [part for part in kept if part in said] == said
    assert list(closed(left, begun, ending)) == list(left), "it stays as it is"
    for part in kept:
        if isinstance(part, ToolReturnPart) and part not in said:
            assert part.outcome == ("interrupted" if part.tool_call_id in begun else "denied")


# Size, time


@in_asyncio
async def test_a_turn_that_said_more_than_a_result_may_have_is_kept_whole(tmp_path: Path) -> None:
    async with Chats(tmp_path).running() as chats:
        chat = chats.conversation("c")
        long = "x" * 450_000
        turn = await chat.run(long)
        assert isinstance(turn, Finished)
        assert texts_of(turn.messages) == [long, "heard " + long]
        await chat.run("hello")
        assert chats.model.seen[-1] == [long, "heard " + long, "hello"]


# What no prompt is

NO_PROMPTS = pytest.mark.parametrize("prompt", [5, None, {"a": 1}, ["x", 5], [{"kind": "nope"}]], ids=repr)


@NO_PROMPTS
@in_asyncio
async def test_what_is_no_prompt_is_refused_before_anything_is_stored(tmp_path: Path, prompt: Any) -> None:
    async with Chats(tmp_path).running() as chats:
        chat = chats.conversation("c")
        with pytest.raises(InvalidValue, match="^prompt: expected a text"):
            await chat.run(prompt)
        assert not (await chats.client.list()).items


@NO_PROMPTS
@in_asyncio
async def test_a_turn_started_with_an_invalid_prompt_fails_alone(tmp_path: Path, prompt: Any) -> None:
    async with Chats(tmp_path).running() as chats:
        chat = chats.conversation("c")
        await chat.run("hello")
        handle = await chats.client.start("support", {"prompt": prompt}, session_id="c")
        with pytest.raises(InvalidValue, match="^prompt: expected a text"):
            await handle.result(timeout=20)
        await goes_on(chats, chat)


@pytest.mark.parametrize("arguments", [[5], [], [{"prompt": "a"}, "b"], [{"fork": 5}]], ids=repr)
@in_asyncio
async def test_a_turn_started_with_an_invalid_request_fails_alone(
    tmp_path: Path, arguments: list[Any]
) -> None:
    async with Chats(tmp_path).running() as chats:
        chat = chats.conversation("c")
        await chat.run("hello")
        new = NewRun("r", "support", "default", json.dumps({"args": arguments, "kwargs": {}}), session_id="c")
        await chats.client.backend.create_run(new)
        with pytest.raises(InvalidValue):
            await chat.wait("r")
        await goes_on(chats, chat)


@in_asyncio
async def test_a_turn_whose_request_was_passed_by_name_is_in_the_history(tmp_path: Path) -> None:
    async with Chats(tmp_path).running() as chats:
        chat = chats.conversation("c")
        arguments = json.dumps({"args": [], "kwargs": {"request": {"prompt": "rm a"}}})
        await chats.client.backend.create_run(NewRun("r", "support", "default", arguments, session_id="c"))
        assert isinstance(await chat.wait("r"), Paused)
        second = await chat.run("hello")
        await chats.client.cancel(second.run_id)
        await chat.abort()
        assert texts_of(await chat.messages())[0] == "rm a"


async def goes_on(chats: Chats, chat: Conversation) -> None:
    history = await chat.messages()
    check(history)
    await is_accepted(history)
    assert texts_of(history)[:2] == ["hello", "heard hello"]
    async with asyncio.timeout(20):
        assert isinstance(await chat.run("again"), Finished)
        assert isinstance(await (await chat.fork("d")).run("there"), Finished)
    assert texts_of(await chat.messages()) == [*texts_of(history), "again", "heard again"]
