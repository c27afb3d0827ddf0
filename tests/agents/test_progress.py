"""A long turn continues in a new generation: earlier messages are not replayed, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, ModelRetry, RunContext, ToolOutput, ToolReturn
from pydantic_ai.agent import EventStreamHandler, WrapperAgent
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.exceptions import UnexpectedModelBehavior, UsageLimitExceeded
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
)

from signoff import RunCancelled, Signoff
from signoff.agents import Approve, Budget, Durable, Finished, Paused, Reply, in_workflow
from signoff.agents.conversations import generations as progress
from signoff.agents.conversations import turn_workflow
from signoff.agents.conversations.generations import RESPONSES
from signoff.errors import InvalidValue
from signoff.records import Entry, EntryKind, RunState
from signoff.stores.sqlite.store import SqliteStore
from signoff.testing import MemoryStore, VirtualClock, crash_everywhere
from signoff.testing.environment import Environment
from tests.agents.chats import returns_of, texts_of
from tests.agents.histories import check, is_accepted
from tests.agents.scripts import Script, calls, says
from tests.agents.walks import CALLS, Walk, generations
from tests.support import doomed_worker, in_asyncio, new_app, opened, running


def told(messages: Sequence[ModelMessage]) -> list[str]:
    """What messages say, call and return."""
    return [
        f"{part.part_kind} {getattr(part, 'tool_name', '')} {getattr(part, 'content', '')}".strip()
        for message in messages
        for part in message.parts
    ]


@in_asyncio
async def test_a_long_turn_is_as_one_that_is_not_split(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    walk = Walk(app)
    async with running(app) as client:
        chat = app.conversation("walker", session_id="c")
        paused = await chat.run("go", context={"tenant": "t1"}, id="r")
        assert isinstance(paused, Paused)
        assert await generations(client, "r") == 1 + CALLS // RESPONSES
        turn = await chat.respond(paused.pending[0].id, Approve())
        assert isinstance(turn, Finished)
        history = await chat.messages()
    assert (turn.output, walk.walked, walk.sent) == ("walked", list(range(CALLS)), 1)
    assert walk.contexts == [({"tenant": "t1"}, number + 1, "r", "go") for number in range(CALLS + 1)]
    assert len(turn.messages) == 2 * (CALLS + 2)
    assert {message.run_id for message in turn.messages} == {"r"}
    assert list(turn.messages) == list(history)
    assert turn.usage["requests"] == CALLS + 2
    assert turn.usage["tool_calls"] == CALLS + 1
    assert turn.usage["input_tokens"] == 10 * (CALLS + 2)
    check(history)
    await is_accepted(history)
    for number, asked in enumerate(walk.asked):
        assert len(asked) == 2 * number + 1
        check([*asked, says("")])


@in_asyncio
async def test_a_turn_that_waits_a_day_behind_twenty_calls_repeats_none_of_them(tmp_path: Path) -> None:
    clock = VirtualClock()
    app = new_app(tmp_path, clock=clock)
    walk = Walk(app, steps=20)
    async with running(app, hot_runs=0) as client:
        chat = app.conversation("walker", session_id="c")
        paused = await chat.run("go", id="r")
        assert isinstance(paused, Paused)
        clock.advance(86_400)
        before = len(await client.backend.read_journal("r"))
        assert isinstance(await chat.resume(paused.resume_token, "approved"), Finished)
        journal = (await client.backend.read_journal("r"))[before:]
    assert (walk.walked, walk.sent, len(walk.asked)) == (list(range(20)), 1, 22)
    assert [entry.name for entry in journal if entry.kind is EntryKind.COMPLETED].count("walker:model") == 1


@in_asyncio
async def test_a_worker_that_takes_over_a_long_turn_reads_each_entry_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = new_app(tmp_path)
    Walk(app)
    async with running(app):
        assert isinstance(await app.conversation("walker", session_id="c").run("go", id="r"), Paused)
    read: list[int] = []
    read_journal = SqliteStore.read_journal

    async def noted(store: SqliteStore, run_id: str, **which: Any) -> Sequence[Entry]:
        entries = await read_journal(store, run_id, **which)
        read.extend(entry.seq for entry in entries)
        return entries

    monkeypatch.setattr(SqliteStore, "read_journal", noted)
    app = new_app(tmp_path)
    walk = Walk(app)
    async with running(app) as client:
        (question,) = (await client.questions()).items
        await client.answer(question.id, True)
        await (await client.get("r")).result()
    assert walk.sent == 1
    assert len(read) > 2 * RESPONSES
    assert len(read) == len(set(read))


@pytest.mark.long
@in_asyncio
async def test_a_crash_anywhere_in_a_long_turn_repeats_no_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    long = 3  # each further response is tried at ten more places, on the way to each of which all others are asked for
    monkeypatch.setattr(progress, "RESPONSES", long)
    app = Signoff(MemoryStore())
    walk = Walk(app, steps=long)
    walk.failing = {long - 2: 1}

    async def scenario(env: Environment) -> tuple[Any, ...]:
        walk.asked.clear()
        walk.contexts.clear()
        env.people.answer("walker wants to call send", approved=True)
        env.people.answer("Step 'walker.send' was interrupted*", {"action": "retry"})
        result = await env.run("walker", {"prompt": "go", "context": {"tenant": "t1"}}, id="r")
        messages = ModelMessagesTypeAdapter.validate_python(result["messages"])
        check(messages)
        journal = await env.client.backend.read_journal("r")
        done = [entry.name for entry in journal if entry.kind is EntryKind.COMPLETED]
        assert done.count("walker:model") == len(messages) // 2 == result["usage"]["requests"]
        assert len(walk.asked) <= done.count("walker:model") + 1  # what the crash has cut off is asked again
        assert await generations(env.client, "r") == 2
        return result["output"], result["usage"], told(messages), sorted(set(map(str, walk.contexts)))

    assert await crash_everywhere(app, scenario) > 40


@in_asyncio
async def test_calls_that_failed_are_counted_on(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    walk = Walk(app)
    walk.failing = {RESPONSES - 2: 4}
    async with running(app) as client:
        chat = app.conversation("walker", session_id="c")
        paused = await chat.run("go", id="r")
        assert await generations(client, "r") > 1
        assert isinstance(paused, Paused)
        turn = await chat.respond(paused.pending[0].id, Approve())
        assert isinstance(turn, Finished)
    assert walk.walked == list(range(CALLS))
    retries = [
        str(each.content).partition(" is too few")[0]
        for each in returns_of(turn.messages)
        if each.outcome != "success"
    ]
    assert retries == [f"try {tried} of {RESPONSES - 2}" for tried in range(4)]
    assert len(walk.asked) == CALLS + 2 + 4


@in_asyncio
async def test_outputs_that_were_not_taken_are_counted_on(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    looks = [calls(("look", {})) for _ in range(RESPONSES)]
    script = Script(says("no"), *looks, says("not yet"), says("yes"))
    agent = Agent(script.model, name="a", retries={"output": 1}, capabilities=[Durable()])

    @agent.tool_plain
    def look() -> str:  # pyright: ignore[reportUnusedFunction]
        return "seen"

    @agent.output_validator
    def check_output(output: str) -> str:  # pyright: ignore[reportUnusedFunction]
        if output.startswith("no"):
            raise ModelRetry("say yes")
        return output

    app.register(agent)
    async with running(app) as client:
        chat = app.conversation("a", session_id="c")
        with pytest.raises(UnexpectedModelBehavior, match="retries"):
            await chat.run("go", id="r")
        assert await generations(client, "r") == 2
        history = await chat.messages()
    check(history)
    assert len(script.asked) == RESPONSES + 2


@in_asyncio
async def test_a_tool_renamed_during_its_open_approval_asks_an_operator(tmp_path: Path) -> None:
    first, second = new_app(tmp_path), new_app(tmp_path)
    steps = 2 * RESPONSES
    Walk(first, steps=steps)
    async with running(first) as client:
        paused = await first.conversation("walker", session_id="c").run("go", id="r")
        assert isinstance(paused, Paused)
        newest = (await client.backend.read_journal("r"))[-8:]
        assert any(entry.kind is EntryKind.CONTINUED for entry in newest), (
            "its generation begins with that call"
        )
    walk = Walk(second, steps=steps, sender="post")
    async with running(second) as client:
        chat = second.conversation("walker", session_id="c")
        turn = await chat.respond(paused.pending[0].id, Approve())
        assert isinstance(turn, Paused)
        assert turn.pending[0].text == "walker called send, which no longer exists. What should run?"
        turn = await chat.respond(turn.pending[0].id, Reply("post"))
        assert isinstance(turn, Finished)
    assert (walk.walked, walk.sent) == ([], 1)
    check(turn.messages)


@pytest.mark.parametrize("kind", ["requests", "seconds"])
@in_asyncio
async def test_a_budget_is_of_the_whole_turn(tmp_path: Path, kind: str) -> None:
    clock = VirtualClock()
    most = RESPONSES + 2
    budget = Budget(requests=most) if kind == "requests" else Budget(seconds=most)
    app = new_app(tmp_path, clock=clock)
    walk = Walk(app, budget=budget)

    async def passing() -> None:
        clock.advance(1)

    walk.said_with = dict.fromkeys(range(1, 100), passing)
    async with running(app) as client:
        chat = app.conversation("walker", session_id="c")
        with pytest.raises(UsageLimitExceeded):
            await chat.run("go", id="r")
        assert await generations(client, "r") == 2
        history = await chat.messages()
    assert len(walk.asked) == most
    check(history)
    assert walk.walked == list(range(most))
    assert sum(line.startswith("tool-return step step") for line in told(history)) == most


@in_asyncio
async def test_a_long_turn_that_is_aborted_leaves_all_of_it_in_the_history(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    walk = Walk(app)
    async with running(app) as client:
        chat = app.conversation("walker", session_id="c")
        assert isinstance(await chat.run("go", id="r"), Paused)
        await chat.abort("enough")
        with pytest.raises(RunCancelled):
            await chat.wait("r")
        history = await chat.messages()
        assert await generations(client, "r") > 2
    check(history)
    await is_accepted(history)
    assert {message.run_id for message in history} == {"r"}
    assert told(history)[0] == "user-prompt  go"
    assert [each.content for each in returns_of(history)[:-1]] == [f"step {each}" for each in range(CALLS)]
    assert (returns_of(history)[-1].tool_name, returns_of(history)[-1].outcome) == ("send", "denied")
    assert walk.sent == 0


@in_asyncio
async def test_a_long_turn_that_no_longer_fits_its_code_keeps_its_messages(tmp_path: Path) -> None:
    first, second = new_app(tmp_path), new_app(tmp_path)
    Walk(first)
    async with running(first):
        paused = await first.conversation("walker", session_id="c").run("go", id="r")
        assert isinstance(paused, Paused)
    other = Agent("test", name="walker", capabilities=[Durable(name="other")])
    second.register(other)
    async with running(second) as client:
        await client.answer(paused.pending[0].id, True)
        while (await client.backend.get_run("r")).state is not RunState.FAILED:
            await asyncio.sleep(0.01)
        await client.cancel("r", reason="it was changed")
        history = await second.conversation("walker", session_id="c").messages()
    check(history)
    await is_accepted(history)
    behind = CALLS // RESPONSES * RESPONSES
    assert [each.content for each in returns_of(history)] == [f"step {each}" for each in range(behind)]


@in_asyncio
async def test_a_partly_kept_generation_still_shows_what_came_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = new_app(tmp_path), new_app(tmp_path)
    walk = Walk(first)
    walk.text = "x" * 100_000
    kept, half = list[str](), asyncio.Event()

    async def hangs_in_the_middle(part: str) -> str:
        kept.append(part)
        if (
            len(kept) == 6
        ):  # each generation has some 500,000 characters in three parts, and one with the next request
            half.set()
            await asyncio.Event().wait()
        return part

    with monkeypatch.context() as patch:
        patch.setattr(turn_workflow, "_same", hangs_in_the_middle)
        async with opened(first) as client, doomed_worker(first):
            await client.start("walker", {"prompt": "go"}, id="r", session_id="c")
            await half.wait()
    second.register(Agent("test", name="walker", capabilities=[Durable(name="other")]))
    async with running(second) as client:
        while (await client.backend.get_run("r")).state is not RunState.FAILED:
            await asyncio.sleep(0.01)
        await client.cancel("r", reason="it was changed")
        history = await second.conversation("walker", session_id="c").messages()
    check(history)
    assert [str(each.content).split()[-1] for each in returns_of(history)] == ["0", "1", "2", "3", "4"]


@in_asyncio
async def test_what_is_said_while_the_model_answers_is_read_once(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    walk = Walk(app)
    async with running(app) as client:
        chat = app.conversation("walker", session_id="c")

        async def steer() -> None:
            await chat.steer(f"wish {len(walk.asked)}")

        walk.said_with = dict.fromkeys((RESPONSES - 1, RESPONSES, RESPONSES + 1), steer)
        paused = await chat.run("go", id="r")
        assert isinstance(paused, Paused)
        turn = await chat.respond(paused.pending[0].id, Approve())
        assert isinstance(turn, Finished)
        assert await generations(client, "r") > 1
    said = [text for text in texts_of(turn.messages) if text.startswith("wish")]
    assert said == [f"wish {number}" for number in (RESPONSES - 1, RESPONSES, RESPONSES + 1)]


@in_asyncio
async def test_a_context_given_with_an_answer_holds_to_the_end(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    walk = Walk(app)
    walk.send_at = 1
    async with running(app) as client:
        chat = app.conversation("walker", session_id="c")
        paused = await chat.run("go", context={"tenant": "t1"}, id="r")
        assert isinstance(paused, Paused)
        turn = await chat.resume(paused.resume_token, "approved", context={"tenant": "t2"})
        assert isinstance(turn, Finished)
        assert await generations(client, "r") > 2
    assert [context["tenant"] for context, *_ in walk.contexts] == ["t1", *["t2"] * CALLS]


@in_asyncio
async def test_turns_behind_long_turns_have_all_that_was_said(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    walk = Walk(app)
    walk.text = "x" * 100_000
    async with running(app, hot_runs=0) as client:
        chat = app.conversation("walker", session_id="c")
        for id in ("go-1", "go-2"):
            paused = await chat.run(id, id=id)
            assert isinstance(paused, Paused)
            assert isinstance(await chat.respond(paused.pending[0].id, Approve()), Finished)
            journal = await client.backend.read_journal(id)
            parts = [entry for entry in journal if entry.name == "walker:behind"]
            assert len(parts) > await generations(client, id), (
                "more than one entry for a generation's messages"
            )
        history = await chat.messages()
    check(history)
    assert len(history) == 2 * 2 * (CALLS + 2)
    assert told(walk.asked[-1]) == told(history)[:-1]
    assert walk.walked == 2 * list(range(CALLS))


class Report(BaseModel):
    """What an agent returns."""

    number: int


@in_asyncio
async def test_pictures_failures_and_a_typed_output_are_the_same_split_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def turn_of(path: Path) -> tuple[list[str], list[str | None], object, int]:
        path.mkdir()
        app = new_app(path)
        looks = [calls(("look", {}), ("count", {"number": number})) for number in range(RESPONSES)]
        wrong, right = ("report", {"number": "many"}), ("report", {"number": 3})
        script = Script(*looks, calls(wrong), calls(("send", {}), right))
        agent = Agent(
            script.model,
            name="a",
            output_type=ToolOutput(Report, name="report"),
            end_strategy="exhaustive",
            capabilities=[Durable(approvals=["send"])],
        )

        @agent.system_prompt(dynamic=True)
        def begin(ctx: RunContext[Any]) -> str:  # pyright: ignore[reportUnusedFunction]
            return "begin"

        @agent.instructions
        def instruct(ctx: RunContext[Any]) -> str:  # pyright: ignore[reportUnusedFunction]
            return f"this is request {ctx.run_step}"

        @agent.tool_plain
        def look() -> ToolReturn:  # pyright: ignore[reportUnusedFunction]
            return ToolReturn(
                "seen", content=["a picture", BinaryContent(b"\x89PNG", media_type="image/png")]
            )

        @agent.tool_plain
        def count(number: int) -> int:  # pyright: ignore[reportUnusedFunction]
            if number % 2:
                raise ModelRetry("odd")
            return number

        @agent.tool_plain
        def send() -> str:  # pyright: ignore[reportUnusedFunction]
            return "sent"

        app.register(agent)
        async with running(app, hot_runs=0) as client:
            chat = app.conversation("a", session_id="c")
            paused = await chat.run("go", id="r")
            assert isinstance(paused, Paused)
            turn = await chat.respond(paused.pending[0].id, Approve())
            assert isinstance(turn, Finished)
            history = await chat.messages()
            instructions = [each.instructions for each in history if isinstance(each, ModelRequest)]
            await is_accepted(history)
            return told(history), instructions, turn.output, await generations(client, "r")

    *split, count = await turn_of(tmp_path / "split")
    monkeypatch.setattr(progress, "RESPONSES", 1_000)
    *whole, one = await turn_of(tmp_path / "whole")
    assert (count, one) == (2, 1)
    assert split == whole
    assert split[2] == {"number": 3}


# Where a turn is not split


class Handling(WrapperAgent[Any, Any]):
    """An agent whose runs have their events handled."""

    @property
    def event_stream_handler(self) -> EventStreamHandler[Any]:
        async def handle(ctx: RunContext[Any], events: AsyncIterable[object]) -> None:
            async for _ in events:
                pass

        return handle


@pytest.mark.parametrize("why", ["a tool in the workflow", "a handler of events", "an odd context"])
@in_asyncio
async def test_a_turn_of_which_more_is_known_than_its_messages_is_not_split(tmp_path: Path, why: str) -> None:
    app = new_app(tmp_path)
    walk = Walk(app, wrapped=Handling if why == "a handler of events" else None)
    if why == "a tool in the workflow":

        @walk.agent.tool_plain
        @in_workflow
        async def think() -> str:  # pyright: ignore[reportUnusedFunction]
            return ""

    if why == "an odd context":

        @walk.agent.instructions
        def keep(ctx: RunContext[Any]) -> str:  # pyright: ignore[reportUnusedFunction]
            ctx.deps["seen"] = object()
            return ""

    async with running(app, hot_runs=0) as client:
        chat = app.conversation("walker", session_id="c")
        paused = await chat.run("go", id="r")
        assert isinstance(paused, Paused)
        assert isinstance(await chat.respond(paused.pending[0].id, Approve()), Finished)
        assert await generations(client, "r") == 1
    assert (walk.walked, walk.sent) == (list(range(CALLS)), 1)


def cut(messages: list[ModelMessage]) -> list[ModelMessage]:
    """Leave the prompt and the last call of a long history."""
    return messages if len(messages) < 2 * RESPONSES + 4 else [messages[0], *messages[-2:]]


def rewritten(messages: list[ModelMessage]) -> list[ModelMessage]:
    return [replace(message, metadata={"seen": True}) for message in messages]


@pytest.mark.parametrize("processor", [cut, rewritten])
@in_asyncio
async def test_a_long_turns_history_is_the_same_split_or_whole_with_processors(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    processor: Callable[[list[ModelMessage]], list[ModelMessage]],
) -> None:
    async def turn_of(path: Path) -> tuple[list[str], int]:
        path.mkdir()
        app = new_app(path)
        walk = Walk(app, more=[ProcessHistory(processor)])
        async with running(app, hot_runs=0) as client:
            chat = app.conversation("walker", session_id="c")
            paused = await chat.run("go", id="r")
            assert isinstance(paused, Paused)
            assert isinstance(await chat.respond(paused.pending[0].id, Approve()), Finished)
            history = await chat.messages()
            count = await generations(client, "r")
        assert (walk.walked, walk.sent) == (list(range(CALLS)), 1)
        check(history)
        await is_accepted(history)
        return told(history), count

    split, count = await turn_of(tmp_path / "split")
    monkeypatch.setattr(progress, "RESPONSES", 1_000)
    assert (split, 1) == await turn_of(tmp_path / "whole")
    assert count == 2, "messages that are not those it was given cannot be kept apart"


@in_asyncio
async def test_progress_that_no_generation_has_made_is_refused(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    Walk(app)
    forged = {
        "begun": {"previous": None, "on_message": "queue"},
        "parts": 1,
        "request": [0, 1],
        "seconds": 0,
        "usage": {},
        "run_step": 3,
        "output_retries": 0,
        "retries": {},
        "failed": [],
        "succeeded": [],
        "refused": [],
    }
    async with running(app) as client:
        for wrong in (forged, {**forged, "parts": 0}, {**forged, "request": [1, 0]}):
            handle = await client.start("walker", {"progress": wrong, "context": {}, "prompt": "go"})
            with pytest.raises(InvalidValue, match="progress: callers cannot set it"):
                await handle.result()


@in_asyncio
async def test_starting_a_turn_does_not_ask_for_progress(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    Walk(app)
    async with running(app) as client:
        while not (announced := (await client.workflows.list()).items):
            await asyncio.sleep(0.01)
    taken = json.loads(announced[0].parameters or "")["$defs"]["TurnRequest"]["properties"]
    assert sorted(taken) == ["context", "fork", "prompt"]
