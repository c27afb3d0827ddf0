"""Conversations: turns that finish or wait for people, answered from any process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ExternalToolset

from signoff import Action, AlreadySettled, NotFound, RunCancelled, WrongAnswer
from signoff.agents import Approve, Conversation, Deny, Edit, Finished, Paused, ask, pause
from signoff.agents.conversations import waiters
from signoff.agents.conversations.outcomes import Pending
from signoff.client.promises import AsyncPromises
from signoff.client.unserved_runs import WorkBackend, unserved
from signoff.errors import Detached, NotSerializable
from signoff.people.questions.question import Question
from signoff.records import Promise, PromiseKind, PromiseState, Run, RunState
from signoff.stores.contract.store import Change
from tests.agents.chats import Chats, returns_of, texts_of
from tests.agents.histories import is_whole
from tests.support import in_asyncio, opened, reaches


@in_asyncio
async def test_a_turn_without_questions_is_finished_at_once(tmp_path: Path) -> None:
    async with Chats(tmp_path).running() as chats:
        turn = await chats.conversation("c").run("hello")
    assert isinstance(turn, Finished)
    assert turn.output == "heard hello"
    assert turn.usage["requests"] == 1
    assert texts_of(turn.messages) == ["hello", "heard hello"]


@in_asyncio
async def test_a_second_turn_sees_what_the_first_has_said(tmp_path: Path) -> None:
    async with Chats(tmp_path).running() as chats:
        chat = chats.conversation("c")
        await chat.run("one")
        await chat.run("two")
        turn = await chats.conversation("c").run("three")
    assert isinstance(turn, Finished)
    assert texts_of(turn.messages) == ["three", "heard three"], "a turn returns what it has added"
    assert chats.model.seen[-1] == ["one", "heard one", "two", "heard two", "three"]


@in_asyncio
async def test_a_turn_waits_for_an_approval_and_goes_on_with_its_answer(tmp_path: Path) -> None:
    async with Chats(tmp_path).running() as chats:
        chat = chats.conversation("c")
        turn = await chat.run("rm a")
        assert isinstance(turn, Paused)
        assert (turn.reason, turn.payload["tool"], turn.payload["arguments"]) == (
            "approval_required",
            "rm",
            {"path": "a"},
        )
        assert chats.removed == []
        turn = await chat.respond(turn.pending[0].id, Approve(), user_id="ana")
    assert isinstance(turn, Finished)
    assert chats.removed == ["a"]
    assert turn.output == "did: removed a"


@in_asyncio
async def test_a_denial_is_read_by_the_model_and_an_edit_is_what_runs(tmp_path: Path) -> None:
    async with Chats(tmp_path).running() as chats:
        chat = chats.conversation("c")
        turn = await chat.run("rm a b")
        assert isinstance(turn, Paused)
        a, b = sorted(turn.pending, key=lambda each: str(each.arguments))
        turn = await chat.respond(a.id, Edit({"path": "a2"}))
        assert isinstance(turn, Paused)
        assert [each.id for each in turn.pending] == [b.id]
        turn = await chat.respond(b.id, Deny("keep b"))
    assert isinstance(turn, Finished)
    assert chats.removed == ["a2"]
    assert [part.outcome for part in returns_of(turn.messages)] == ["success", "denied"]
    assert "keep b" in str(returns_of(turn.messages)[1].content)


@in_asyncio
async def test_another_process_answers_and_another_one_goes_on(tmp_path: Path) -> None:
    first = Chats(tmp_path)
    async with first.running():
        turn = await first.conversation("c").run("rm a")
    assert isinstance(turn, Paused)
    second = Chats(tmp_path)
    async with second.running():
        turn = await second.conversation("c").respond(turn.pending[0].id, Approve())
    assert isinstance(turn, Finished)
    assert (first.removed, second.removed) == ([], ["a"])
    assert len(first.model.seen) == len(second.model.seen) == 1, "no request is made again"


@in_asyncio
async def test_of_two_answers_to_one_approval_one_wins_in_the_history(
    tmp_path: Path,
) -> None:
    async with Chats(tmp_path).running() as chats, opened(Chats(tmp_path).app) as other:
        for number in range(8):
            chat = chats.conversation(f"c{number}")
            turn = await chat.run("rm a")
            assert isinstance(turn, Paused)
            there = Conversation(other, "support", session_id=f"c{number}")
            id = turn.pending[0].id
            chats.removed.clear()
            outcomes = await asyncio.gather(
                chat.respond(id, Approve(), user_id="ana"),
                there.respond(id, Deny("not that one"), user_id="bob"),
                return_exceptions=True,
            )
            losers = [each for each in outcomes if isinstance(each, AlreadySettled)]
            winners = [each for each in outcomes if isinstance(each, Finished)]
            assert (len(losers), len(winners)) == (1, 1)
            (returned,) = returns_of(winners[0].messages)
            if losers[0] is outcomes[1]:
                assert (chats.removed, returned.outcome) == (["a"], "success")
            else:
                assert (chats.removed, returned.outcome) == ([], "denied")
                assert returned.content == "not that one"


@in_asyncio
async def test_a_question_of_another_session_is_not_found(tmp_path: Path) -> None:
    async with Chats(tmp_path).running() as chats:
        turn = await chats.conversation("c").run("rm a")
        assert isinstance(turn, Paused)
        with pytest.raises(NotFound):
            await chats.conversation("d").respond(turn.pending[0].id, Approve())
        assert len(await chats.conversation("c").pending()) == 1


@in_asyncio
async def test_a_context_that_is_no_json_is_refused_when_the_turn_starts(tmp_path: Path) -> None:
    async with Chats(tmp_path).running() as chats:
        with pytest.raises(NotSerializable, match="context"):
            await chats.conversation("c").run("hello", context={"client": object()})
        with pytest.raises(NotFound):
            await chats.conversation("c").wait()


@in_asyncio
async def test_tools_get_a_factorys_context_and_an_answer_may_change_it(
    tmp_path: Path,
) -> None:
    chats = Chats(tmp_path, durable={"deps": lambda context: {**context, "live": True}})
    async with chats.running():
        chat = chats.conversation("c")
        turn = await chat.run("rm a", context={"tenant": "t1"})
        assert isinstance(turn, Paused)
        turn = await chat.resume(turn.resume_token, user_input="approved", context={"tenant": "t2"})
    assert isinstance(turn, Finished)
    assert chats.deps == [{"tenant": "t2", "live": True}]


# Why a turn waits


class Result(BaseModel):
    """What a form may ask for, as the question for a call's result does."""

    result: str


def pausing(reason: Any, **said: Any) -> Callable[[str], Awaitable[str]]:
    async def tool(path: str) -> str:
        return str((await pause(reason, {"options": ["a", "b"]}, **said)).value)

    return tool


def raising(error: Callable[..., Exception], **metadata: Any) -> Callable[[str], Awaitable[str]]:
    async def tool(path: str) -> str:
        raise error(metadata=metadata or None)

    return tool


@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        (pausing("approval_required"), "approval_required"),
        (pausing("await_input"), "await_input"),
        (pausing("await_input", answer_type=Result), "await_input"),
        (pausing("external_event", then="model"), "external_event"),
        (pausing("constraints_conflict"), "constraints_conflict"),
        (raising(ApprovalRequired), "approval_required"),
        (raising(ApprovalRequired, reason="over the limit"), "approval_required"),
        (raising(ApprovalRequired, reason="await_input", payload={}), "approval_required"),
        (raising(CallDeferred), "external_event"),
        (raising(CallDeferred, reason="carrier"), "external_event"),
        (raising(CallDeferred, reason="await_input", payload={}), "external_event"),
    ],
)
@in_asyncio
async def test_only_the_pause_of_a_tool_says_why_a_turn_waits(tmp_path: Path, tool: Any, reason: str) -> None:
    chats = Chats(tmp_path)
    chats.agent.tool_plain(tool, name="odd")
    async with chats.running():
        turn = await chats.conversation("c").run("rm odd:1")
    assert isinstance(turn, Paused)
    assert (turn.reason, turn.payload["tool"]) == (reason, "odd")


@in_asyncio
async def test_a_policys_metadata_is_no_reason_and_an_external_tool_is_an_event(
    tmp_path: Path,
) -> None:
    scan = ToolDefinition(
        name="scan",
        parameters_json_schema={"type": "object", "properties": {"path": {"type": "string"}}},
        return_schema={"type": "string"},
    )
    chats = Chats(
        tmp_path,
        durable={"approvals": {"rm": ask(details={"reason": "over the limit"})}},
        toolsets=[ExternalToolset([scan], id="desk")],
    )
    async with chats.running():
        gated = await chats.conversation("c").run("rm a")
        outside = await chats.conversation("d").run("rm scan:a")
    assert isinstance(gated, Paused)
    assert isinstance(outside, Paused)
    assert (gated.reason, outside.reason) == ("approval_required", "external_event")
    assert gated.payload["metadata"]["reason"] == "over the limit"
    assert (outside.payload["tool"], outside.payload["arguments"]) == ("scan", {"path": "a"})


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("text", "await_input"), ("text", "external_event"), ("approval", "approval_required")],
)
def test_a_question_that_was_asked_before_pauses_were_marked_says_why(kind: Any, reason: str) -> None:
    shown = {"agent": "a", "tool_call_id": "1", "tool": "t", "arguments": {}, "reason": reason, "payload": {}}
    action = Action("t", {}) if kind == "approval" else None
    question = Question.make("?", input_type=kind, metadata=shown, action=action)
    asked = Promise(
        "default", "r.1", PromiseKind.QUESTION, PromiseState.PENDING, 0.0, data=question.to_json()
    )
    assert Pending.of(asked).reason == reason


# Leaving, aborting


@in_asyncio
async def test_detaching_and_cancelling_who_waits_leave_the_approval_open(tmp_path: Path) -> None:
    async with Chats(tmp_path).running() as chats:
        chat = chats.conversation("c")
        chats.model.gate.clear()
        waiting = asyncio.create_task(chat.run("rm a"))
        await chats.model.asked.wait()
        await chat.detach()
        with pytest.raises(Detached):
            await waiting
        waiting = asyncio.create_task(chat.wait())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        chats.model.gate.set()
        turn = await chat.wait()
        assert isinstance(turn, Paused)
        turn = await chat.respond(turn.pending[0].id, Approve())
        assert isinstance(turn, Finished)
        await is_whole(chat)
    assert chats.removed == ["a"]


@in_asyncio
async def test_aborting_denies_open_calls_asks_no_model_and_closes_the_turn(tmp_path: Path) -> None:
    async with Chats(tmp_path).running() as chats:
        chat = chats.conversation("c")
        turn = await chat.run("rm a b")
        assert isinstance(turn, Paused)
        asked = len(chats.model.seen)
        await chat.abort(reason="user closed tab")
        assert len(chats.model.seen) == asked
        with pytest.raises(RunCancelled, match="user closed tab"):
            await chat.wait()
        with pytest.raises(AlreadySettled):
            await chat.respond(turn.pending[0].id, Approve())
        history = await is_whole(chat)
        assert [part.outcome for part in returns_of(history)] == ["denied", "denied"]
        assert all("user closed tab" in str(part.content) for part in returns_of(history))
        turn = await chat.run("hello")
    assert isinstance(turn, Finished)
    assert chats.removed == []
    assert chats.model.seen[-1][0] == "rm a b"
    assert "user closed tab" in chats.model.seen[-1][1]


@in_asyncio
async def test_what_was_done_before_an_abort_stays_in_the_history(tmp_path: Path) -> None:
    async with Chats(tmp_path).running() as chats:
        chat = chats.conversation("c")
        turn = await chat.run("rm a b")
        assert isinstance(turn, Paused)
        id = next(each.id for each in turn.pending if each.arguments == {"path": "a"})
        await chat.respond(id, Approve())
        await chat.abort()
        history = await is_whole(chat)
    outcomes = {part.tool_call_id[-1]: part.outcome for part in returns_of(history)}
    assert outcomes == {"a": "success", "b": "denied"}


@in_asyncio
async def test_aborted_calls_that_had_begun_are_distinguished(tmp_path: Path) -> None:
    chats = Chats(tmp_path)
    chats.agent.tool_plain(pausing("approval_required"), name="odd")
    async with chats.running():
        chat = chats.conversation("c")
        turn = await chat.run("rm slow b odd:c")
        assert isinstance(turn, Paused)
        slow = next(each.id for each in turn.pending if each.arguments == {"path": "slow"})
        waiting = asyncio.create_task(chat.respond(slow, Approve()))
        await chats.slow.wait()
        await chat.abort("user closed tab")
        with pytest.raises(RunCancelled):
            await waiting
        returned = {part.tool_call_id[-1]: part for part in returns_of(await chat.messages())}
    begun, waited, left = (returned[place] for place in ("w", "b", "c"))
    assert [each.outcome for each in (begun, waited, left)] == ["interrupted", "denied", "interrupted"]
    assert "may or may not have had its effect" in str(begun.content)
    assert "was not made" in str(waited.content)
    assert "had begun" in str(left.content), "code before a pause has run"
    assert chats.removed == []


@in_asyncio
async def test_what_is_answered_is_what_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Chats(tmp_path).running() as chats:
        chat = chats.conversation("c")
        turn = await chat.run("rm a")
        assert isinstance(turn, Paused)
        get = AsyncPromises.get

        async def another(self: AsyncPromises, id: str) -> Promise:
            found = await get(self, id)
            question = Question.make("Remove nothing?", action=Action("rm", {"path": "nothing"}))
            return replace(found, data=question.to_json())

        with monkeypatch.context() as patched:
            patched.setattr(AsyncPromises, "get", another)
            with pytest.raises(WrongAnswer):
                await chat.respond(turn.pending[0].id, Approve())
        assert len(await chat.pending()) == 1
    assert chats.removed == []


@in_asyncio
async def test_nothing_to_abort_is_no_error(tmp_path: Path) -> None:
    async with Chats(tmp_path).running() as chats:
        await chats.conversation("c").abort()


@in_asyncio
async def test_a_conversation_listens_on_the_store_only_during_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Chats(tmp_path).running() as chats:
        listening: set[object] = set()
        listen = chats.app.store.listen

        def counted(tell: Callable[[Change], None]) -> Callable[[], None]:
            stop, one = listen(tell), object()
            listening.add(one)

            def end() -> None:
                listening.discard(one)
                stop()

            return end

        monkeypatch.setattr(chats.app.store, "listen", counted)
        await chats.conversation("first").run("hello")
        before = set(listening)  # the worker's
        for number in range(3):
            chat = chats.conversation(f"c{number}")
            assert isinstance(await chat.run("rm a"), Paused)
            await chat.abort()
            assert [event async for event in chat.events()]
        assert listening == before


async def warned(caplog: pytest.LogCaptureFixture) -> str:
    """What was warned of, once there is something."""
    while not caplog.messages:
        await asyncio.sleep(0.01)
    return "\n".join(caplog.messages)


@in_asyncio
async def test_who_waits_for_a_turn_that_no_worker_runs_is_warned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(waiters, "UNTAKEN", 0.05)
    chats = Chats(tmp_path)
    turn = asyncio.create_task(chats.conversation("c").run("hello", id="r"))
    told = await warned(caplog)
    assert "turn r of session c: no worker of group 'default' runs at all; 'support' waits" in told
    async with chats.running() as chats:
        assert isinstance(await turn, Finished)
        caplog.clear()
        chat = chats.app.conversation("suport", session_id="c")
        slip = asyncio.create_task(chat.run("hello", id="slip"))
        assert "no worker of group 'default' runs 'suport'" in await warned(caplog)
        assert "There are: support" in caplog.text
        await chat.detach()
        with pytest.raises(Detached):
            await slip


@in_asyncio
async def test_who_closes_a_turn_that_no_worker_runs_is_warned_and_need_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(waiters, "UNTAKEN", 0.05)
    chats = Chats(tmp_path)
    async with chats.running():
        assert isinstance(await chats.conversation("c").run("rm a", id="r"), Paused)
    chat = chats.conversation("c")
    closing = asyncio.create_task(chat.abort("the tab was closed"))
    assert "turn r of session c: no worker of group 'default' runs at all" in await warned(caplog)
    await chat.detach()
    with pytest.raises(Detached):
        await closing
    async with chats.running() as chats:
        assert (await reaches(chats.app, "r", RunState.CANCELLED)).state.is_final


@in_asyncio
async def test_waiting_for_a_running_or_queued_turn_logs_no_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(waiters, "UNTAKEN", 0.01)
    asked: list[str] = []

    async def no_warning(backend: WorkBackend, run: Run) -> str | None:
        asked.append(run.id)
        told = await unserved(backend, run)
        if len(asked) == 2:
            chats.model.gate.set()
        return told

    monkeypatch.setattr(waiters, "unserved", no_warning)
    async with Chats(tmp_path).running() as chats:
        chats.model.gate.clear()
        chat = chats.conversation("c")
        first = asyncio.create_task(chat.run("one", id="one"))
        await chats.model.asked.wait()
        second = asyncio.create_task(chat.run("two", id="two"))
        assert isinstance(await first, Finished)
        assert isinstance(await second, Finished)
    assert sorted(asked) == ["one", "two"]
    assert not caplog.messages
