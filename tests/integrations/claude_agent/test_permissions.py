"""Calls of the Claude Agent SDK are allowed as people decide, and in no other way. The CLI is played by a transport."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

from signoff import AlreadySettled, AsyncClient, NotAllowed, Signoff, WrongAnswer
from signoff.integrations.claude_agent import ask_people
from signoff.server.mcp.settings import McpSettings
from signoff.testing import MemoryStore
from tests.integrations.claude_agent.fake_cli import FakeCli
from tests.support import comes, in_asyncio

LS = {"command": "rm -r build", "description": "Remove the build"}
Person = Callable[[AsyncClient, list[Any]], Awaitable[None]]


async def nobody(client: AsyncClient, questions: list[Any]) -> None:
    raise AssertionError("a question was asked")


async def turn(
    person: Person, *wanted: tuple[str, Any, str], facts: Any = None, count: int = 1, **options: Any
) -> dict[str, Any]:
    """Play one turn of the agent, in which a person answers; returns what the CLI may do, by tool use id."""
    app = Signoff(MemoryStore())
    async with AsyncClient(app) as client, app.worker():
        return await played(client, person, *wanted, facts=facts, count=count, **options)


async def played(
    client: AsyncClient, person: Person, *wanted: Any, facts: Any = None, count: int = 1, **options: Any
) -> dict[str, Any]:
    cli = FakeCli(*wanted, **(facts or {}))
    asks = ask_people(client, "session-7", **options)

    async def watch() -> None:
        async def look() -> list[Any]:
            found = list((await client.questions()).items)
            return found if len(found) >= count else []

        await person(client, await comes(look))

    people = asyncio.create_task(watch())
    async with ClaudeSDKClient(ClaudeAgentOptions(can_use_tool=asks), transport=cli) as claude:
        await claude.query("Clean up")
        async for _ in claude.receive_response():
            pass
    if people.done():
        people.result()
    people.cancel()
    assert all(each["subtype"] == "success" for each in cli.replies.values())
    return {use: each["response"] for use, each in cli.replies.items()}


def says(*answers: Any, **more: Any) -> Person:
    async def person(client: AsyncClient, questions: list[Any]) -> None:
        for question, answer in zip(questions, answers, strict=True):
            await client.answer(question.id, answer, user_id="ana", **more)

    return person


@in_asyncio
async def test_an_approved_call_is_allowed_with_the_input_that_was_shown() -> None:
    seen: list[Any] = []

    async def person(client: AsyncClient, questions: list[Any]) -> None:
        seen.extend(questions)
        await client.answer(questions[0].id, True, user_id="ana")

    facts = {"title": "Claude wants to run rm -r build", "description": "Remove the build"}
    allowed = await turn(person, ("Bash", LS, "t1"), facts=facts, assignees=["user:ana"])
    assert allowed == {"t1": {"behavior": "allow", "updatedInput": LS}}
    (question,) = seen
    shown = json.loads(question.data)
    assert question.id == "session-7/t1"
    assert question.assignees == ("user:ana",)
    assert (shown["text"], shown["help"]) == ("Claude wants to run rm -r build", "Remove the build")
    assert shown["action"] == {"tool": "Bash", "arguments": LS}


@in_asyncio
async def test_claude_reads_the_reason_of_a_denial() -> None:
    denied = await turn(says(False, note="keep the build"), ("Bash", LS, "t1"))
    assert denied == {"t1": {"behavior": "deny", "message": "keep the build"}}


@in_asyncio
async def test_an_edit_replaces_the_input_within_the_tool_s_schema() -> None:
    edited = {**LS, "command": "ls build"}

    async def person(client: AsyncClient, questions: list[Any]) -> None:
        for wrong in ({}, {"command": 1}, {"command": ""}):
            with pytest.raises(WrongAnswer):
                await client.answer(questions[0].id, {"approved": True, "edited": wrong}, user_id="ana")
        await client.answer(questions[0].id, {"approved": True, "edited": edited}, user_id="ana")

    assert await turn(person, ("Bash", LS, "t1")) == {"t1": {"behavior": "allow", "updatedInput": edited}}


@in_asyncio
async def test_the_input_of_a_tool_without_a_schema_cannot_be_edited() -> None:
    async def person(client: AsyncClient, questions: list[Any]) -> None:
        with pytest.raises(WrongAnswer):
            await client.answer(questions[0].id, {"approved": True, "edited": {"to": "eve"}}, user_id="ana")
        await client.answer(questions[0].id, False, user_id="ana")

    assert (await turn(person, ("mcp__pay", {"to": "bob"}, "t1")))["t1"]["behavior"] == "deny"


@in_asyncio
async def test_several_calls_are_open_at_once_and_answered_one_by_one() -> None:
    calls = [("Bash", {"command": f"echo {n}"}, f"t{n}") for n in (1, 2, 3)]

    async def person(client: AsyncClient, questions: list[Any]) -> None:
        for question in reversed(questions):
            await client.answer(question.id, question.id.endswith("2"), user_id="ana")

    replies = await turn(person, *calls, count=3)
    assert {use: each["behavior"] for use, each in replies.items()} == {
        "t1": "deny",
        "t2": "allow",
        "t3": "deny",
    }


@in_asyncio
async def test_a_question_that_times_out_denies_the_call() -> None:
    async def person(client: AsyncClient, questions: list[Any]) -> None:
        pass

    (denied,) = (await turn(person, ("Bash", LS, "t1"), timeout_seconds=0.05)).values()
    assert denied == {"behavior": "deny", "message": "Not run: Bash was not approved (timed out)."}


@in_asyncio
async def test_a_withdrawn_question_denies_the_call() -> None:
    async def person(client: AsyncClient, questions: list[Any]) -> None:
        await client.inbox.cancel(questions[0].id, reason="the session was closed")

    (denied,) = (await turn(person, ("Bash", LS, "t1"))).values()
    assert denied == {"behavior": "deny", "message": "the session was closed"}


@in_asyncio
async def test_bananas_strangers_and_second_answers_change_nothing() -> None:
    async def person(client: AsyncClient, questions: list[Any]) -> None:
        (question,) = questions
        for banana in ("banana", None, {}, {"approved": None}):
            with pytest.raises(WrongAnswer):
                await client.answer(question.id, banana, user_id="ana")
        with pytest.raises(NotAllowed):
            await client.answer(question.id, True, user_id="eve")
        await client.answer(question.id, False, user_id="ana", note="no")
        with pytest.raises(AlreadySettled):
            await client.answer(question.id, True, user_id="ana")

    (denied,) = (await turn(person, ("Bash", LS, "t1"), assignees=["user:ana"])).values()
    assert denied == {"behavior": "deny", "message": "no"}


@pytest.mark.parametrize(("verdict", "behavior"), [("approve", "allow"), ("deny", "deny")])
@in_asyncio
async def test_a_policy_decides_without_a_question(verdict: Any, behavior: str) -> None:
    (reply,) = (await turn(nobody, ("Bash", LS, "t1"), decide=lambda action: verdict)).values()
    assert reply["behavior"] == behavior


@pytest.mark.parametrize(
    ("call", "options"),
    [
        (("Bash", {"command": ["a", "list"]}, "t1"), {}),
        (("Bash", {"command": "ls"}, ""), {}),
        (("", {"command": "ls"}, "t1"), {}),
        (("Read", "no object", "t1"), {}),
        (("AskUserQuestion", {"questions": "none"}, "t1"), {}),
        (("Bash", LS, "t1"), {"assignees": ["nobody in particular"]}),
    ],
    ids=["not the schema's", "no id", "no name", "no object", "no questions", "wrong terms"],
)
@in_asyncio
async def test_a_call_that_nobody_can_be_asked_about_is_denied(call: Any, options: Any) -> None:
    (reply,) = (await turn(nobody, call, **options)).values()
    assert reply["behavior"] == "deny"
    assert reply["message"].startswith("Not run: ")


@in_asyncio
async def test_a_lost_server_denies_the_call() -> None:
    class Lost:
        async def approve_call(self, *args: Any, **kwargs: Any) -> Any:
            raise ConnectionError("gone")

    (reply,) = (await played_alone(Lost(), ("Bash", LS, "t1"))).values()
    assert reply == {"behavior": "deny", "message": "Not run: nobody could be asked (ConnectionError)."}


async def played_alone(client: Any, *wanted: Any) -> dict[str, Any]:
    cli = FakeCli(*wanted)
    options = ClaudeAgentOptions(can_use_tool=ask_people(client, "session-7"))
    async with ClaudeSDKClient(options, transport=cli) as claude:
        await claude.query("Clean up")
        async for _ in claude.receive_response():
            pass
    return {use: each["response"] for use, each in cli.replies.items()}


@in_asyncio
async def test_a_restarted_session_gets_the_answer_to_the_same_call_alone() -> None:
    app = Signoff(MemoryStore())
    async with AsyncClient(app) as client:
        first = await played(client, says(True), ("Bash", LS, "t1"))
        again = await played(client, nobody, ("Bash", LS, "t1"))
        assert first == again
        (other,) = (await played_alone(client, ("Bash", {"command": "rm -r /"}, "t1"))).values()
        assert other == {"behavior": "deny", "message": "Not run: nobody could be asked (IdConflict)."}


QUESTIONS = {
    "questions": [
        {
            "question": "Which database?",
            "header": "Database",
            "options": [
                {"label": "SQLite", "description": "one host"},
                {"label": "Postgres", "description": "many"},
            ],
            "multiSelect": False,
        },
        {
            "question": "Which extras?",
            "header": "Extras",
            "options": [{"label": "mail", "description": ""}, {"label": "slack", "description": ""}],
            "multiSelect": True,
        },
    ]
}


@in_asyncio
async def test_questions_of_claude_are_a_form_whose_answers_it_gets() -> None:
    async def person(client: AsyncClient, questions: list[Any]) -> None:
        for wrong in ({"q1": "Oracle", "q2": ["mail"]}, {"q1": "SQLite"}, {"q1": "SQLite", "q2": []}):
            with pytest.raises(WrongAnswer):
                await client.answer(questions[0].id, wrong, user_id="ana")
        await client.answer(questions[0].id, {"q1": "SQLite", "q2": ["mail", "slack"]}, user_id="ana")

    (reply,) = (await turn(person, ("AskUserQuestion", QUESTIONS, "t1"))).values()
    answers = {"Which database?": "SQLite", "Which extras?": "mail, slack"}
    assert reply == {"behavior": "allow", "updatedInput": {**QUESTIONS, "answers": answers}}


@in_asyncio
async def test_claude_cannot_answer_its_own_question_through_mcp() -> None:
    async def person(client: AsyncClient, questions: list[Any]) -> None:
        data = json.loads(questions[0].data)
        assert data["metadata"] == {"tool": "AskUserQuestion", "ticket": 7}
        assert "a person answers it" in (McpSettings().refusal(data, "ana") or "")
        await client.question(questions[0].id).cancel(reason="enough")

    asked = ("AskUserQuestion", QUESTIONS, "t1")
    (reply,) = (await turn(person, asked, metadata={"ticket": 7}, timeout_seconds=20)).values()
    assert reply == {"behavior": "deny", "message": "enough"}


@in_asyncio
async def test_a_question_of_claude_without_an_answer_is_denied() -> None:
    async def person(client: AsyncClient, questions: list[Any]) -> None:
        pass

    (reply,) = (await turn(person, ("AskUserQuestion", QUESTIONS, "t1"), timeout_seconds=0.05)).values()
    assert reply == {"behavior": "deny", "message": "Nobody answered in time."}
