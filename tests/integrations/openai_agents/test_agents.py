"""Handoffs, agents as tools, guardrails, streams and errors of models in a durable agent of the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import openai
import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrail,
    ModelSettings,
    RunConfig,
    Runner,
    ToolOutputImage,
    ToolOutputText,
    WebSearchTool,
    function_tool,
)
from agents.exceptions import InputGuardrailTripwireTriggered, ModelBehaviorError, UserError
from agents.mcp import MCPServerStdio
from agents.tool import LocalShellTool

from signoff import AsyncClient, Context, RunFailed, Signoff
from signoff.errors import OutsideWorkflow, RegistrationError
from signoff.integrations.openai_agents import run_agent
from signoff.testing import MemoryStore, environment
from tests.integrations.openai_agents.desk import ONE_REFUND, Desk, asked, questions
from tests.integrations.openai_agents.nested import Office
from tests.integrations.openai_agents.scripts import Script
from tests.support import in_asyncio

HOT = pytest.mark.parametrize("hot_runs", [0, 100], ids=["replayed", "in memory"])


async def steps(env: Any) -> list[str]:
    return [
        each.name for each in await env.client.backend.read_journal("r") if each.name and ":" in each.name
    ]


@HOT
@in_asyncio
async def test_calls_of_an_agent_that_is_a_tool_after_a_handoff_are_asked_one_by_one(hot_runs: int) -> None:
    office = Office()
    async with environment(office.app, hot_runs=hot_runs) as env:
        run = await env.start(office.work, "Pay", id="r")
        first, second = await questions(env)
        assert [asked(each)["text"] for each in (first, second)] == ["cashier wants to call refund"] * 2
        await env.client.answer(second.id, {"approved": False}, note="not this one")
        assert [each.id for each in await questions(env)] == [first.id]
        await env.client.answer(first.id, {"approved": True, "edited": {"order": "o-7"}})
        output, last, told = await run.result()
        assert await steps(env) == [
            "triage:model",
            "desk:model",
            "cashier:model",
            "cashier:model",
            "desk:model",
        ]
    assert (output, last) == ("done", "desk")
    assert told["k1"] == "both are handled"
    assert office.paid == ["o-7"]
    sent = office.cashier.model.sent[-1]
    assert [each["output"] for each in sent if each.get("type") == "function_call_output"] == [
        'The approver changed the arguments to {"order": "o-7"}.\nrefunded o-7',
        "not this one",
    ]


@HOT
@in_asyncio
async def test_an_agent_as_a_tool_can_need_approval_itself(hot_runs: int) -> None:
    office = Office(asks_before=True)
    async with environment(office.app, hot_runs=hot_runs) as env:
        run = await env.start(office.work, "Pay", id="r")
        (question,) = await questions(env)
        assert asked(question)["text"] == "desk wants to call cashier"
        await env.client.answer(question.id, {"approved": False}, note="do it yourself")
        assert (await run.result())[2]["k1"] == "do it yourself"
    assert office.paid == []


@in_asyncio
async def test_an_approved_agent_as_a_tool_still_asks_about_its_own_calls() -> None:
    office = Office(asks_before=True)
    async with environment(office.app, hot_runs=0) as env:
        run = await env.start(office.work, "Pay", id="r")
        (question,) = await questions(env)
        await env.client.answer(question.id, {"approved": True})
        inner = await questions(env)
        assert [asked(each)["text"] for each in inner] == ["cashier wants to call refund"] * 2
        assert office.paid == []
        for each in inner:
            await env.client.answer(each.id, {"approved": True})
        await run.result()
    assert sorted(office.paid) == ["o-1", "o-2"]


@in_asyncio
async def test_an_agent_of_a_guardrail_is_durable_too() -> None:
    judge = Agent("judge", model=Script("fine"))

    async def check(context: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        verdict = (await Runner.run(judge, given)).final_output
        return GuardrailFunctionOutput(output_info=verdict, tripwire_triggered=verdict != "fine")

    desk = Desk()
    desk.agent.input_guardrails = [InputGuardrail(check)]
    async with environment(desk.app, hot_runs=0) as env:
        env.people.answer("*", approved=True)
        await env.run(desk.work, "Pay", id="r")
        assert sorted(await steps(env)) == ["judge:model", "support:model", "support:model"]
    assert len(judge.model.sent) == 1
    assert desk.paid == [("o-1", 7000)]


@in_asyncio
async def test_a_guardrail_that_trips_ends_the_run_and_runs_nothing() -> None:
    async def check(context: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)

    desk = Desk()
    desk.agent.input_guardrails = [InputGuardrail(check, run_in_parallel=False)]
    async with environment(desk.app) as env:
        with pytest.raises(InputGuardrailTripwireTriggered):
            await env.run(desk.work, "Pay")
    assert desk.paid == []


@in_asyncio
async def test_a_streamed_agent_publishes_its_text_and_asks_as_any_other() -> None:
    desk = Desk([("refund", {"order": "o-1", "cents": 1}, "c1")], "all is done", stream=True)
    async with environment(desk.app, hot_runs=0) as env:
        env.people.answer("support wants to call refund", approved=True)
        assert (await env.run(desk.work, "Pay"))[0] == "all is done"
    assert desk.paid == [("o-1", 1)]
    assert len(desk.script.sent) == 2


def failure(status: int) -> openai.APIStatusError:
    response = httpx.Response(status, request=httpx.Request("POST", "https://api.test"))
    return openai.APIStatusError("no", response=response, body=None)


@in_asyncio
async def test_a_temporary_error_of_the_model_is_retried_and_nothing_runs_twice() -> None:
    class Busy(Script):
        async def get_response(self, *args: Any, **kwargs: Any) -> Any:
            response = await super().get_response(*args, **kwargs)
            if len(self.sent) % 2:
                raise failure(503)
            return response

    desk = Desk()
    desk.agent.model = model = Busy(*ONE_REFUND)
    async with environment(desk.app, hot_runs=0) as env:
        env.people.answer("support wants to call refund", approved=True)
        assert (await env.run(desk.work, "Pay"))[0] == "done"
    assert len(model.sent) == 4
    assert desk.paid == [("o-1", 7000)]


@pytest.mark.parametrize("error", [failure(400), ModelBehaviorError("odd")], ids=["400", "odd"])
@in_asyncio
async def test_a_permanent_error_of_the_model_ends_the_run_at_once(error: Exception) -> None:
    desk = Desk(error)
    async with environment(desk.app) as env:
        with pytest.raises((type(error), RunFailed)):
            await env.run(desk.work, "Pay")
    assert len(desk.script.sent) == 1


@in_asyncio
async def test_a_stream_that_breaks_off_is_no_response() -> None:
    class Broken(Script):
        async def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            async for event in super().stream_response(*args, **kwargs):
                if event.type != "response.completed":
                    yield event

    desk = Desk(stream=True)
    desk.agent.model = Broken(*ONE_REFUND)
    async with environment(desk.app) as env:
        with pytest.raises(ModelBehaviorError, match="complete response"):
            await env.run(desk.work, "Pay")
    assert desk.paid == []


@in_asyncio
async def test_a_tool_s_error_is_the_model_s_to_read_and_the_tool_runs_once() -> None:
    tries: list[int] = []

    @function_tool
    def fail() -> str:
        tries.append(1)
        raise ValueError("no such order")

    desk = Desk([("fail", {}, "c1")], "done", tools=[fail])
    async with environment(desk.app, hot_runs=0) as env:
        told = (await env.run(desk.work, "Pay"))[1]["c1"]
    assert told.startswith("An error occurred while running the tool")
    assert tries == [1]


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (ToolOutputText(text="hi"), [{"type": "input_text", "text": "hi"}]),
        (
            [ToolOutputText(text="hi"), ToolOutputImage(image_url="https://x.test/a.png")],
            [
                {"type": "input_text", "text": "hi"},
                {"type": "input_image", "image_url": "https://x.test/a.png"},
            ],
        ),
        ({"a": [1, None]}, "{'a': [1, None]}"),
        (("a", 1), "('a', 1)"),
        (None, "None"),
        (7, "7"),
    ],
    ids=repr,
)
@in_asyncio
async def test_the_model_reads_outputs_as_without_signoff(output: Any, told: Any) -> None:
    @function_tool
    def give() -> Any:
        return output

    turns: Any = [[("give", {}, "c1")], "done"]
    plain = await Runner.run(
        Agent("support", tools=[give], model=Script(*turns)),
        "Go",
        run_config=RunConfig(tracing_disabled=True),
    )
    (expected,) = [
        each["output"] for each in plain.to_input_list() if each.get("type") == "function_call_output"
    ]
    assert expected == told
    desk = Desk(*turns, tools=[give])
    async with environment(desk.app, hot_runs=0) as env:
        assert (await env.run(desk.work, "Go"))[1]["c1"] == expected


@in_asyncio
async def test_tools_that_cannot_be_steps_are_refused_before_the_model_is_asked() -> None:
    server = MCPServerStdio({"command": "false"}, name="s")
    shell = LocalShellTool(executor=lambda request: "")
    for agent in (
        Agent("a", model=(script := Script("hi")), mcp_servers=[server]),
        Agent("a", model=script, tools=[shell]),
        Agent("a", model=script, handoffs=[Agent("b", tools=[shell])]),
    ):
        desk = Desk(agent=agent)
        async with environment(desk.app) as env:
            with pytest.raises(RegistrationError, match="function tool"):
                await env.run(desk.work, "Go")
    assert script.sent == []


@in_asyncio
async def test_tools_of_the_provider_are_part_of_its_requests() -> None:
    desk = Desk("done", tools=[WebSearchTool()])
    async with environment(desk.app) as env:
        assert await env.run(desk.work, "Go") == ["done", {}]


@in_asyncio
async def test_run_agent_is_refused_outside_of_workflow_code() -> None:
    agent = Agent("a", model=(script := Script("hi")))
    with pytest.raises(OutsideWorkflow):
        await run_agent(agent, "Go")
    app = Signoff(MemoryStore())

    @app.workflow
    async def work(ctx: Context) -> str:
        async def inside() -> str:
            return (await run_agent(agent, "Go")).final_output

        return await ctx.step("inside", inside)

    async with environment(app) as env:
        with pytest.raises(OutsideWorkflow):
            await env.run(work)
    assert script.sent == []


@in_asyncio
async def test_an_agent_inside_of_a_tool_is_a_part_of_its_step() -> None:
    inner = Agent("inner", model=Script("found"))

    @function_tool
    async def search() -> str:
        return (await Runner.run(inner, "Find", run_config=RunConfig(tracing_disabled=True))).final_output

    desk = Desk([("search", {}, "c1")], "done", tools=[search])
    async with environment(desk.app, hot_runs=0) as env:
        assert (await env.run(desk.work, "Go", id="r"))[1] == {"c1": "found"}
        assert await steps(env) == ["support:model", "support:model"]


@in_asyncio
async def test_a_tool_that_takes_too_long_is_given_up_and_runs_once() -> None:
    began: list[int] = []

    @function_tool(timeout=0.2)
    async def hang() -> str:
        began.append(1)
        await asyncio.Event().wait()
        return "never"

    desk = Desk([("hang", {}, "c1")], "done", tools=[hang])
    async with AsyncClient(desk.app) as client, desk.app.worker(hot_runs=0):
        run = await client.start(desk.work, "Go")
        assert "timed out" in (await run.result(30))[1]["c1"]
    assert began == [1]


@in_asyncio
async def test_an_agent_as_a_tool_that_streams_is_refused() -> None:
    inner = Agent("inner", model=Script("hi"))

    async def handle(event: Any) -> None:
        pass

    tool = inner.as_tool("inner", "Says hi.", on_stream=handle, failure_error_function=None)
    desk = Desk([("inner", {"input": "hi"}, "c1")], "done", tools=[tool])
    async with environment(desk.app) as env:
        with pytest.raises(UserError, match="streams a durable agent"):
            await env.run(desk.work, "Go")
    assert inner.model.sent == []


@in_asyncio
async def test_the_run_configuration_chooses_model_and_settings() -> None:
    other = Script(*ONE_REFUND)
    desk = Desk(run_config=RunConfig(model=other, model_settings=ModelSettings(temperature=0.5)))
    async with environment(desk.app, hot_runs=0) as env:
        env.people.answer("*", approved=True)
        assert (await env.run(desk.work, "Pay"))[0] == "done"
    assert (len(other.sent), desk.script.sent) == (2, [])


@in_asyncio
async def test_a_conversation_goes_on_with_the_agent_that_spoke_last() -> None:
    office = Office()
    app = Signoff(MemoryStore())

    @app.workflow
    async def talk(ctx: Context) -> list[str]:
        first = await run_agent(office.triage, "Pay")
        second = await run_agent(
            first.last_agent, [*first.to_input_list(), {"role": "user", "content": "And?"}]
        )
        return [first.last_agent.name, second.last_agent.name, second.final_output]

    async with environment(app, hot_runs=0) as env:
        env.people.answer("* wants to call *", approved=True)
        assert await env.run(talk) == ["desk", "desk", "done"]
    assert sorted(office.paid) == ["o-1", "o-2"]
