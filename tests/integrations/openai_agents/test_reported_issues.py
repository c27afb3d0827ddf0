"""What users have reported about approvals of the OpenAI Agents SDK (the numbers are its issues) holds in a run."""

from __future__ import annotations

from typing import Any

import pytest
from agents import Agent, RunContextWrapper, ToolGuardrailFunctionOutput, function_tool, tool_input_guardrail

from signoff import Context, Signoff
from signoff.integrations.openai_agents import run_agent
from signoff.testing import MemoryStore, environment
from tests.integrations.openai_agents.desk import REFUND, Desk, questions
from tests.integrations.openai_agents.scripts import Script
from tests.support import in_asyncio

HOT = pytest.mark.parametrize("hot_runs", [0, 100], ids=["replayed", "in memory"])


def paying(paid: list[str]) -> Any:
    @function_tool(needs_approval=True)
    def pay(to: str) -> str:
        paid.append(to)
        return f"paid {to}"

    return pay


def chain(paid: list[str], *names: str) -> Agent[None]:
    """Agents that are tools of each other; the last one pays."""
    agent = Agent[None](names[-1], tools=[paying(paid)], model=Script([("pay", {"to": "bob"}, "p1")], "done"))
    for number, name in enumerate(reversed(names[:-1])):
        tool = agent.as_tool("ask", "Asks the next agent.")
        agent = Agent(name, tools=[tool], model=Script([("ask", {"input": "pay bob"}, f"a{number}")], "done"))
    return agent


@pytest.mark.parametrize(
    "names",
    [("outer", "inner"), ("same", "same"), ("one", "two", "three", "four")],
    ids=["two", "two of one name, 5141", "four levels, 4414"],
)
@HOT
@in_asyncio
async def test_nested_approvals_are_applied_once_2487(names: tuple[str, ...], hot_runs: int) -> None:
    paid: list[str] = []
    agent, app = chain(paid, *names), Signoff(MemoryStore())

    @app.workflow
    async def work(ctx: Context) -> str:
        return (await run_agent(agent, "Pay bob")).final_output

    async with environment(app, hot_runs=hot_runs) as env:
        run = await env.start(work, id="r")
        (question,) = await questions(env)
        await env.client.answer(question.id, {"approved": True})
        assert await run.result() == "done"
        assert await questions(env) == []
    assert paid == ["bob"]


@in_asyncio
async def test_two_agents_of_one_name_are_approved_each_for_itself_5141() -> None:
    paid: list[str] = []
    clerks = [
        Agent[None]("clerk", tools=[paying(paid)], model=Script([("pay", {"to": to}, "p1")], "done"))
        for to in ("bob", "eve")
    ]
    agent = Agent[None](
        "boss",
        tools=[clerk.as_tool(f"ask_{n}", "A clerk.") for n, clerk in enumerate(clerks)],
        model=Script([("ask_0", {"input": "a"}, "a0"), ("ask_1", {"input": "b"}, "a1")], "done"),
    )
    app = Signoff(MemoryStore())

    @app.workflow
    async def work(ctx: Context) -> str:
        return (await run_agent(agent, "Pay")).final_output

    async with environment(app, hot_runs=0) as env:
        run = await env.start(work, id="r")
        bob, eve = await questions(env)
        await env.client.answer(eve.id, {"approved": False})
        await env.client.answer(bob.id, {"approved": True})
        assert await run.result() == "done"
    assert paid == ["bob"]


@HOT
@in_asyncio
async def test_an_approval_counts_in_a_run_with_a_context_4244(hot_runs: int) -> None:
    desk = Desk(context={"user": "ana"})
    async with environment(desk.app, hot_runs=hot_runs) as env:
        run = await env.start(desk.work, "Pay", id="r")
        (question,) = await questions(env)
        await env.client.answer(question.id, {"approved": True})
        await run.result()
    assert desk.paid == [("o-1", 7000)]


@in_asyncio
async def test_a_policy_is_not_asked_again_after_its_question_3259() -> None:
    asked: list[str] = []

    async def policy(context: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
        asked.append(call_id)
        return len(asked) == 1

    paid: list[str] = []

    @function_tool(needs_approval=policy)
    def pay(to: str) -> str:
        paid.append(to)
        return "paid"

    desk = Desk([("pay", {"to": "bob"}, "c1")], "done", tools=[pay])
    async with environment(desk.app) as env:
        run = await env.start(desk.work, "Pay", id="r")
        (question,) = await questions(env)
        await env.client.answer(question.id, {"approved": False})
        await run.result()
    assert (asked, paid) == (["c1"], [])


@HOT
@in_asyncio
async def test_a_guardrail_of_a_tool_stops_an_approved_call_4896(hot_runs: int) -> None:
    paid: list[str] = []

    @tool_input_guardrail
    def closed(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content("The desk is closed.")

    pay = paying(paid)
    pay.tool_input_guardrails = [closed]
    desk = Desk([("pay", {"to": "bob"}, "c1")], "done", tools=[pay])
    async with environment(desk.app, hot_runs=hot_runs) as env:
        run = await env.start(desk.work, "Pay", id="r")
        (question,) = await questions(env)
        await env.client.answer(question.id, {"approved": True})
        assert (await run.result())[1] == {"c1": "The desk is closed."}
    assert paid == []


@HOT
@in_asyncio
async def test_an_approved_call_whose_output_ends_the_run_does_so(hot_runs: int) -> None:
    desk = Desk()
    desk.agent.tool_use_behavior = "stop_on_first_tool"
    async with environment(desk.app, hot_runs=hot_runs) as env:
        run = await env.start(desk.work, "Pay", id="r")
        (question,) = await questions(env)
        await env.client.answer(question.id, {"approved": True})
        assert (await run.result())[0] == "refunded 7000 cents of o-1"
    assert len(desk.script.sent) == 1


@in_asyncio
async def test_calls_without_approval_run_once_beside_one_that_waits() -> None:
    desk = Desk([("look", {"order": "o-1"}, "l1"), ("refund", REFUND, "c1")], "done")
    async with environment(desk.app, hot_runs=0) as env:
        run = await env.start(desk.work, "Pay", id="r")
        (question,) = await questions(env)
        assert desk.looked == ["o-1"]
        await env.client.answer(question.id, {"approved": True})
        await run.result()
    assert desk.looked == ["o-1"]
    assert desk.paid == [("o-1", 7000)]


@in_asyncio
async def test_usage_counts_each_request_once_across_approvals() -> None:
    desk, app = Desk(), Signoff(MemoryStore())

    @app.workflow
    async def work(ctx: Context) -> list[int]:
        result = await run_agent(desk.agent, "Pay")
        return [result.context_wrapper.usage.requests, len(result.raw_responses)]

    async with environment(app, hot_runs=0) as env:
        env.people.answer("*", approved=True)
        assert (await env.run(work))[1] == 2
