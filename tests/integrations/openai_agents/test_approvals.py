"""Calls of the OpenAI Agents SDK that need approval run once, as approved, or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import Agent, RunContextWrapper, function_tool
from agents.exceptions import MaxTurnsExceeded, ModelBehaviorError, UserError

from signoff import AlreadySettled, NotAllowed, RunCancelled, WrongAnswer
from signoff.testing import environment
from tests.integrations.openai_agents.desk import REFUND, Desk, asked, questions
from tests.integrations.openai_agents.scripts import Script, outputs
from tests.support import in_asyncio

HOT = pytest.mark.parametrize("hot_runs", [0, 100], ids=["replayed", "in memory"])


@HOT
@in_asyncio
async def test_an_approved_call_runs_once_with_the_arguments_shown(hot_runs: int) -> None:
    desk = Desk(assignees=["group:finance"])
    async with environment(desk.app, hot_runs=hot_runs) as env:
        run = await env.start(desk.work, "Pay o-1 back", id="r")
        (question,) = await questions(env)
        shown = asked(question)
        assert shown["text"] == "support wants to call refund"
        assert shown["action"] == {"tool": "refund", "arguments": REFUND}
        assert shown["metadata"] == {"agent": "support", "call_id": "c1"}
        assert question.assignees == ("group:finance",)
        assert desk.paid == []
        await env.client.answer(question.id, {"approved": True}, user_id="ana", groups=["finance"])
        assert await run.result() == ["done", {"c1": "refunded 7000 cents of o-1"}]
    assert desk.paid == [("o-1", 7000)]
    assert len(desk.script.sent) == 2


@HOT
@in_asyncio
async def test_the_model_reads_the_reason_of_a_denial(hot_runs: int) -> None:
    desk = Desk()
    async with environment(desk.app, hot_runs=hot_runs) as env:
        run = await env.start(desk.work, "Pay", id="r")
        (question,) = await questions(env)
        await env.client.answer(question.id, {"approved": False}, note="The order was used.")
        assert await run.result() == ["done", {"c1": "The order was used."}]
    assert desk.paid == []


@HOT
@in_asyncio
async def test_an_edited_call_runs_as_edited_and_the_model_is_told(hot_runs: int) -> None:
    desk = Desk()
    async with environment(desk.app, hot_runs=hot_runs) as env:
        run = await env.start(desk.work, "Pay", id="r")
        (question,) = await questions(env)
        edited = {**REFUND, "cents": 5000}
        await env.client.answer(question.id, {"approved": True, "edited": edited})
        told = (await run.result())[1]["c1"]
    assert desk.paid == [("o-1", 5000)]
    assert told == (
        'The approver changed the arguments to {"order": "o-1", "cents": 5000}.\nrefunded 5000 cents of o-1'
    )


@in_asyncio
async def test_an_edit_that_the_tool_does_not_take_is_refused_and_the_question_stays() -> None:
    desk = Desk()
    async with environment(desk.app) as env:
        run = await env.start(desk.work, "Pay", id="r")
        (question,) = await questions(env)
        for wrong in ({**REFUND, "cents": "lots"}, {"order": "o-1"}, {**REFUND, "to": "me"}):
            with pytest.raises(WrongAnswer):
                await env.client.answer(question.id, {"approved": True, "edited": wrong})
        await env.client.answer(question.id, {"approved": True})
        await run.result()
    assert desk.paid == [("o-1", 7000)]


@pytest.mark.parametrize(
    "banana", ["banana", None, {}, {"approved": None}, {"approved": "yes"}, {"ok": True}, []]
)
@in_asyncio
async def test_an_answer_without_a_decision_is_refused_and_runs_nothing(banana: Any) -> None:
    desk = Desk()
    async with environment(desk.app) as env:
        await env.start(desk.work, "Pay", id="r")
        (question,) = await questions(env)
        with pytest.raises(WrongAnswer):
            await env.client.answer(question.id, banana)
        assert [each.id for each in await questions(env)] == [question.id]
    assert desk.paid == []


@in_asyncio
async def test_of_two_answers_the_first_one_counts_and_the_call_runs_once() -> None:
    desk = Desk()
    async with environment(desk.app, hot_runs=0) as env:
        run = await env.start(desk.work, "Pay", id="r")
        (question,) = await questions(env)
        given = await asyncio.gather(
            *(env.client.answer(question.id, {"approved": True}, user_id=who) for who in ("ana", "ben")),
            return_exceptions=True,
        )
        assert [type(each) for each in given if isinstance(each, Exception)] == [AlreadySettled]
        await run.result()
        with pytest.raises(AlreadySettled):
            await env.client.answer(question.id, {"approved": False}, user_id="cem")
    assert desk.paid == [("o-1", 7000)]


@in_asyncio
async def test_a_stranger_approves_nothing() -> None:
    desk = Desk(assignees=["user:ana", "user:ben"], requester="user:ana", exclude_requester=True)
    async with environment(desk.app) as env:
        run = await env.start(desk.work, "Pay", id="r")
        (question,) = await questions(env)
        for who in ("eve", "ana"):
            with pytest.raises(NotAllowed):
                await env.client.answer(question.id, {"approved": True}, user_id=who)
        await env.client.answer(question.id, {"approved": True}, user_id="ben")
        await run.result()
    assert desk.paid == [("o-1", 7000)]


@in_asyncio
async def test_an_approval_of_other_arguments_than_shown_is_refused() -> None:
    desk = Desk()
    async with environment(desk.app) as env:
        await env.start(desk.work, "Pay", id="r")
        (question,) = await questions(env)
        with pytest.raises(WrongAnswer):
            await env.client.answer(question.id, {"approved": True}, digest="0" * 64)
        assert len(await questions(env)) == 1
    assert desk.paid == []


@HOT
@in_asyncio
async def test_several_calls_are_open_at_once_and_each_gets_its_own_answer(hot_runs: int) -> None:
    calls = [("refund", {"order": f"o-{n}", "cents": n}, f"c{n}") for n in (1, 2, 3)]
    desk = Desk([*calls, ("look", {"order": "o-9"}, "c9")], "done")
    async with environment(desk.app, hot_runs=hot_runs) as env:
        run = await env.start(desk.work, "Pay", id="r")
        first, second, third = await questions(env)
        await env.client.answer(third.id, {"approved": True})
        await env.client.answer(first.id, {"approved": False}, note="no")
        assert [each.id for each in await questions(env)] == [second.id]
        assert desk.paid == []
        await env.client.answer(second.id, {"approved": True})
        result = await run.result()
    assert sorted(desk.paid) == [("o-2", 2), ("o-3", 3)]
    assert desk.looked == ["o-9"]
    assert result[1] == {
        "c1": "no",
        "c2": "refunded 2 cents of o-2",
        "c3": "refunded 3 cents of o-3",
        "c9": "o-9 is here",
    }


@in_asyncio
async def test_a_question_that_times_out_denies_the_call() -> None:
    desk = Desk(timeout_seconds=3600)
    async with environment(desk.app) as env:
        result = await env.run(desk.work, "Pay")
    assert result == ["done", {"c1": "Not run: nobody approved refund in time."}]
    assert desk.paid == []


@in_asyncio
async def test_a_withdrawn_question_denies_the_call() -> None:
    desk = Desk()
    async with environment(desk.app) as env:
        run = await env.start(desk.work, "Pay", id="r")
        (question,) = await questions(env)
        await env.client.inbox.cancel(question.id)
        assert (await run.result())[1] == {"c1": "Not run: the question about refund was withdrawn."}
    assert desk.paid == []


@in_asyncio
async def test_a_cancelled_run_runs_no_call_and_closes_its_questions() -> None:
    desk = Desk()
    async with environment(desk.app) as env:
        run = await env.start(desk.work, "Pay", id="r")
        (question,) = await questions(env)
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()
        assert await questions(env) == []
        with pytest.raises(AlreadySettled):
            await env.client.answer(question.id, {"approved": True})
    assert desk.paid == []


@pytest.mark.parametrize(
    "arguments",
    [
        "not json",
        "[1]",
        '{"order": "o-1", "cents": NaN}',
        '{"order": "o-1", "cents": 1, "cents": 7000}',
        '{"order": "o-1", "cents": "many"}',
        '{"order": "o-1"}',
        '{"order": "o-1", "cents": 1e999}',
        "",
    ],
)
@in_asyncio
async def test_arguments_that_cannot_be_shown_are_denied_without_a_question(arguments: str) -> None:
    desk = Desk([("refund", arguments, "c1")], "done")
    async with environment(desk.app) as env:
        told = (await env.run(desk.work, "Pay"))[1]["c1"]
    assert told.startswith("Not run: the arguments of refund are not"), told
    assert desk.paid == []


@in_asyncio
async def test_a_policy_of_the_tool_decides_which_calls_are_asked() -> None:
    async def is_large(context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
        return arguments["cents"] > 1000

    paid: list[int] = []

    @function_tool(needs_approval=is_large)
    def pay(cents: int) -> str:
        paid.append(cents)
        return "paid"

    desk = Desk([("pay", {"cents": 10}, "c1"), ("pay", {"cents": 5000}, "c2")], "done", tools=[pay])
    async with environment(desk.app, hot_runs=0) as env:
        run = await env.start(desk.work, "Pay", id="r")
        (question,) = await questions(env)
        assert asked(question)["action"]["arguments"] == {"cents": 5000}
        assert paid == [10]
        await env.client.answer(question.id, {"approved": True})
        await run.result()
    assert paid == [10, 5000]


@in_asyncio
async def test_a_policy_that_fails_ends_the_run_and_runs_nothing() -> None:
    async def broken(context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
        raise RuntimeError("no policy today")

    paid: list[int] = []

    @function_tool(needs_approval=broken)
    def pay(cents: int) -> str:
        paid.append(cents)
        return "paid"

    desk = Desk([("pay", {"cents": 10}, "c1")], "done", tools=[pay])
    async with environment(desk.app) as env:
        with pytest.raises(UserError, match="no policy today"):
            await env.run(desk.work, "Pay")
    assert paid == []


@in_asyncio
async def test_arguments_that_the_tool_would_convert_are_asked_whatever_its_policy_says() -> None:
    async def never(context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
        return False

    paid: list[int] = []

    @function_tool(needs_approval=never, strict_mode=False)
    def pay(cents: int = 7000) -> str:
        paid.append(cents)
        return "paid"

    desk = Desk([("pay", {}, "c1")], "done", tools=[pay])
    async with environment(desk.app) as env:
        run = await env.start(desk.work, "Pay", id="r")
        (question,) = await questions(env)
        assert paid == []
        await env.client.answer(question.id, {"approved": False})
        await run.result()
    assert paid == []


@in_asyncio
async def test_a_call_id_that_a_model_uses_again_runs_nothing_unasked() -> None:
    class Again(Script):
        def _turn(self, items: Any) -> Any:
            if not outputs(items):
                return [("refund", REFUND, "c1")]
            return [("refund", {"order": "o-2", "cents": 1_000_000}, "c1")]

    desk = Desk()
    desk.agent.model = Again()
    async with environment(desk.app) as env:
        run = await env.start(desk.work, "Pay", id="r")
        (question,) = await questions(env)
        await env.client.answer(question.id, {"approved": True})
        with pytest.raises(ModelBehaviorError, match="reused"):
            await run.result()
        assert await questions(env) == []
    assert desk.paid == [("o-1", 7000)]


@in_asyncio
async def test_the_same_call_with_a_new_id_is_asked_again() -> None:
    desk = Desk([("refund", REFUND, "c1")], [("refund", REFUND, "c2")], "done")
    async with environment(desk.app, hot_runs=0) as env:
        run = await env.start(desk.work, "Pay", id="r")
        (question,) = await questions(env)
        await env.client.answer(question.id, {"approved": True})
        (again,) = await questions(env)
        assert asked(again)["metadata"]["call_id"] == "c2"
        await env.client.answer(again.id, {"approved": False}, note="once is enough")
        await run.result()
    assert desk.paid == [("o-1", 7000)]


@in_asyncio
async def test_the_limit_of_turns_counts_across_approvals() -> None:
    desk = Desk(*([("refund", REFUND, f"c{n}")] for n in range(5)), max_turns=2)
    async with environment(desk.app, hot_runs=0) as env:
        env.people.answer("support wants to call refund", approved=True)
        with pytest.raises(MaxTurnsExceeded):
            await env.run(desk.work, "Pay")
    assert len(desk.paid) == 2


@in_asyncio
async def test_an_agent_is_used_unchanged_outside_of_run_agent() -> None:
    desk = Desk()
    async with environment(desk.app) as env:
        env.people.answer("support wants to call refund", approved=True)
        await env.run(desk.work, "Pay")
    assert desk.agent.model is desk.script
    assert desk.agent.tools[0] is desk.refund
    assert isinstance(desk.agent, Agent)
