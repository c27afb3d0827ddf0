"""An agent in a workflow: finished work is never repeated."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, RunContext, TextOutput
from pydantic_ai.capabilities import Hooks
from pydantic_ai.exceptions import ModelHTTPError, UsageLimitExceeded, UserError
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import UsageLimits

import signoff
from signoff import Context, RetryPolicy, Signoff
from signoff.agents import Durable, ToolCall, in_workflow, pause, tool_options
from signoff.errors import NotSerializable, OutsideWorkflow
from signoff.testing import MemoryStore, after_step, crash_everywhere, environment
from signoff.testing.environment import Environment
from tests.agents.recorded_steps import steps_of
from tests.agents.scripts import Script, calls, returns, says
from tests.support import in_asyncio


def new_app() -> Signoff:
    return Signoff(MemoryStore())


@in_asyncio
async def test_requests_and_tool_calls_are_steps_that_no_crash_repeats() -> None:
    app = new_app()

    @app.workflow
    async def work(ctx: Context, scene: int) -> list[Any]:
        result = await scenes[scene].run("add them up")
        await ctx.wait_for_user("Go on?")
        return [result.output, result.usage.requests, result.usage.tool_calls]

    scenes: list[Agent[None, str]] = []

    async def scenario(env: Environment) -> tuple[Any, list[str]]:
        done: list[str] = []

        def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            done.append("model")
            if len(messages) == 1:
                return calls(("add", {"a": 1, "b": 2}), ("double", {"n": 4}))
            return says(str([content for _, content, _ in returns(messages)]))

        agent = Agent(FunctionModel(respond), name="sums", capabilities=[Durable()])

        @agent.tool_plain
        async def add(a: int, b: int) -> int:
            done.append("add")
            return a + b

        @agent.tool_plain
        def double(n: int) -> int:
            done.append("double")
            return n * 2

        scenes.append(agent)
        env.people.answer("Go on?", approved=True)
        result = await env.run(work, len(scenes) - 1, id="r")
        assert len(done) <= 6  # steps that died are made again, and there was one crash, of two at most
        journal = await steps_of(env, "r")
        return result, sorted(name for name in journal if name.startswith("sums"))

    assert await crash_everywhere(app, scenario) > 10


@in_asyncio
async def test_a_given_history_may_end_in_open_calls() -> None:
    app = new_app()
    script = Script(says("done"))
    agent = Agent(script.model, name="a", capabilities=[Durable(approvals=["send"])])

    @agent.tool_plain
    def look() -> str:  # pyright: ignore[reportUnusedFunction]
        return "seen"

    @agent.tool_plain
    def send(to: str) -> str:  # pyright: ignore[reportUnusedFunction]
        return f"sent to {to}"

    @app.workflow
    async def work(ctx: Context) -> list[Any]:
        asked = ModelRequest(parts=[UserPromptPart("go")])
        open_calls = calls(("look", {}), ("send", {"to": "ana"}))
        return returns((await agent.run(message_history=[asked, open_calls])).all_messages())

    async with environment(app, hot_runs=0) as env:
        env.people.answer("a wants to call send", approved=True)
        returned = await env.run(work, id="r")
    assert returned == [["look", "seen", "success"], ["send", "sent to ana", "success"]]


@in_asyncio
async def test_a_finished_request_is_not_repeated_when_a_worker_dies_after_it() -> None:
    app, script, ran = new_app(), Script(calls(("look", {})), says("done")), list[str]()
    agent = Agent(script.model, name="a", capabilities=[Durable()])

    @agent.tool_plain
    async def look() -> str:
        ran.append("look")
        return "seen"

    @app.workflow
    async def work(ctx: Context) -> str:
        return (await agent.run("go")).output

    async with environment(app) as env:
        env.crash(at=after_step("a.look"))
        assert await env.run(work, id="r") == "done"
        assert (len(script.asked), ran) == (2, ["look", "look"])  # it has finished, and that was not recorded
        assert await steps_of(env, "r") == ["a:model", "a:calls", "a.look", "a:model"]


@in_asyncio
async def test_a_tool_that_writes_is_not_run_twice_without_a_person() -> None:
    app, script, sent = new_app(), Script(calls(("send", {"to": "bob"})), says("done")), list[str]()
    agent = Agent(script.model, name="a", capabilities=[Durable()])

    @agent.tool_plain(metadata=tool_options(side_effects="external"))
    async def send(to: str) -> str:
        sent.append(to)
        return f"sent to {to}"

    @app.workflow
    async def work(ctx: Context) -> list[Any]:
        result = await agent.run("go")
        return returns(result.all_messages())[0][1:]

    async with environment(app) as env:
        env.crash(at=after_step("a.send"))
        env.people.answer("Step 'a.send'*", {"action": "done", "result": "sent, says the log"})
        assert await env.run(work) == ["sent, says the log", "success"]
        assert sent == ["bob"]


@pytest.mark.parametrize(
    ("side_effects", "approval", "times"),
    [
        (None, False, 2),
        ("none", False, 2),
        ("read", True, 2),
        ("write", False, 1),
        ("stateful", False, 1),
        (None, True, 1),
    ],
)
@in_asyncio
async def test_side_effects_decide_whether_a_call_may_be_made_again(
    side_effects: Any, approval: bool, times: int
) -> None:
    app, script, ran = new_app(), Script(calls(("act", {})), says("done")), list[int]()
    agent = Agent(script.model, name="a", capabilities=[Durable()])

    @agent.tool_plain(requires_approval=approval, metadata=tool_options(side_effects=side_effects))
    async def act() -> None:
        ran.append(1)

    @app.workflow
    async def work(ctx: Context) -> str:
        return (await agent.run("go")).output

    async with environment(app) as env:
        env.crash(at=after_step("a.act"))
        env.people.answer("Step *", {"action": "done", "result": None})
        env.people.answer("a wants to call act", approved=True)
        assert await env.run(work) == "done"
        assert len(ran) == times


@in_asyncio
async def test_live_dependencies_are_made_for_each_step_and_left_at_its_end() -> None:
    app, script, events = new_app(), Script(calls(("look", {}), ("peek", {})), says("done")), list[str]()

    @asynccontextmanager
    async def connect(stored: dict[str, str]) -> AsyncIterator[str]:
        events.append("open")
        yield f"connection of {stored['tenant']}"
        events.append("close")

    agent = Agent(script.model, name="a", deps_type=Any, capabilities=[Durable(deps=connect)])

    @agent.tool
    async def look(ctx: RunContext[Any]) -> str:
        return ctx.deps

    @agent.tool
    def peek(ctx: RunContext[Any]) -> str:
        return ctx.deps

    @app.workflow
    async def work(ctx: Context) -> list[Any]:
        return returns((await agent.run("go", deps={"tenant": "t1"})).all_messages())

    async with environment(app) as env:
        assert [content for _, content, _ in await env.run(work)] == ["connection of t1"] * 2
        assert (events.count("open"), events.count("close")) == (4, 4)


# Dependencies that are stored


class Tenant(BaseModel):
    name: str
    since: date


@dataclass
class Account:
    tenant: Tenant
    limits: dict[str, Decimal]


@dataclass
class Closed(Account):
    why: str = ""


TENANT = Tenant(name="t1", since=date(2026, 1, 1))
ACCOUNT = Account(TENANT, {"day": Decimal("0.10")})


@pytest.mark.parametrize(
    ("deps", "declared"),
    [
        ({"n": [1]}, None),
        (TENANT, Tenant),
        (TENANT, None),
        (ACCOUNT, Account),
        (Closed(TENANT, {}, "left"), Account),
        ({"a": TENANT}, dict[str, Tenant]),
        ([(1, TENANT)], list[tuple[int, Tenant]]),
        (date(2026, 1, 1), date | None),
        (None, None),
        ("x" * 2_000_000, str),
    ],
)
@in_asyncio
async def test_tools_and_policies_get_copies_of_dependencies_by_their_type(deps: Any, declared: Any) -> None:
    app, script, seen = new_app(), Script(calls(("look", {})), says("done")), list[Any]()

    def approvals(call: ToolCall) -> None:
        seen.append(call.deps)

    options = {} if declared is None else {"deps_type": declared}
    agent = Agent(script.model, name="a", capabilities=[Durable(approvals=approvals)], **options)

    @agent.tool
    def look(ctx: RunContext[Any]) -> None:
        seen.append(ctx.deps)

    @app.workflow
    async def work(ctx: Context) -> str:
        return (await agent.run("go", deps=deps)).output

    async with environment(app) as env:
        assert await env.run(work) == "done"
    assert seen == [deps, deps]
    assert [type(each) for each in seen] == [type(deps)] * 2
    if isinstance(deps, dict | list | BaseModel):
        assert all(each is not deps for each in seen)


@pytest.mark.parametrize("hot_runs", [0, 100])
@pytest.mark.parametrize("made", [False, True])
@in_asyncio
async def test_a_tools_changes_of_its_dependencies_are_invisible_elsewhere(hot_runs: int, made: bool) -> None:
    app, seen = new_app(), list[tuple[str, int]]()
    script = Script(calls(("count", {}), ("wait", {})), calls(("count", {})), says("done"))

    def note(what: str, deps: dict[str, int]) -> None:
        seen.append((what, deps["n"]))
        deps["n"] += 1

    def approvals(call: ToolCall) -> None:
        note("policy", call.deps)

    def factory(deps: dict[str, int]) -> dict[str, int]:
        note("factory", deps)
        return deps

    durable = Durable[Any](approvals=approvals, deps=factory if made else None)
    agent = Agent(script.model, name="a", deps_type=dict[str, int], capabilities=[durable])

    @agent.tool(metadata=tool_options(retry=RetryPolicy(max_attempts=2, initial_seconds=600)))
    def count(ctx: RunContext[dict[str, int]]) -> None:
        note("tool", ctx.deps)
        if len([what for what, _ in seen if what == "tool"]) == 1:
            raise ConnectionError

    @agent.tool
    def wait(ctx: RunContext[dict[str, int]]) -> None:
        note("tool", ctx.deps)
        assert pause("await_input", prompt="Q?").value

    @app.workflow
    async def work(ctx: Context) -> int:
        deps = {"n": 0}
        await agent.run("go", deps=deps)
        return deps["n"]

    async with environment(app, hot_runs=hot_runs) as env:
        env.people.answer("Q?", "x", after=3600)
        assert await env.run(work) == 0
    numbers = {what: {n for each, n in seen if each == what} for what, _ in seen}
    assert numbers == ({"policy": {0}, "factory": {0}, "tool": {1}} if made else {"policy": {0}, "tool": {0}})


@pytest.mark.parametrize("hot_runs", [0, 100])
@in_asyncio
async def test_workflow_codes_changes_of_dependencies_reach_later_steps(
    hot_runs: int,
) -> None:
    app, seen = new_app(), list[int]()
    script = Script(*(calls((name, {})) for name in ("look", "change", "look")), says("done"))
    agent = Agent(script.model, name="a", deps_type=dict[str, int], capabilities=[Durable()])

    @agent.tool
    def look(ctx: RunContext[dict[str, int]]) -> None:
        seen.append(ctx.deps["n"])

    @agent.tool
    @in_workflow
    async def change(ctx: RunContext[dict[str, int]]) -> None:
        ctx.deps["n"] += 1
        await signoff.current_context().wait_for_user("Q?")

    @app.workflow
    async def work(ctx: Context) -> int:
        deps = {"n": 0}
        await agent.run("go", deps=deps)
        return deps["n"]

    async with environment(app, hot_runs=hot_runs) as env:
        env.people.answer("Q?", approved=True)
        assert await env.run(work) == 1
    assert seen == [0, 1]


class Client:
    """Connected to something."""


@pytest.mark.parametrize(
    ("deps", "path", "why"),
    [
        (Client(), "deps", "Client, which cannot be stored"),
        ({"db": {"client": Client()}}, "deps.db.client", "which cannot be stored"),
        ({"tenant": TENANT}, "deps", r"would come back changed; say its type: Agent\(deps_type=...\)"),
    ],
)
@in_asyncio
async def test_dependencies_that_cannot_be_stored_are_refused_before_any_request(
    deps: Any, path: str, why: str
) -> None:
    app, script = new_app(), Script()
    agent = Agent(script.model, name="a", deps_type=Any, capabilities=[Durable()])

    @app.workflow
    async def work(ctx: Context) -> str:
        return (await agent.run("go", deps=deps)).output

    async with environment(app) as env:
        with pytest.raises(NotSerializable, match=rf"{why}.*Durable\(deps=factory\)") as refused:
            await env.run(work, id="r")
        assert refused.value.path == path
        assert (script.asked, await steps_of(env, "r")) == ([], [])


@in_asyncio
async def test_a_factory_gets_what_cannot_be_stored_as_it_is() -> None:
    app, script, given, seen = new_app(), Script(calls(("look", {})), says("done")), Client(), list[Any]()
    durable = Durable[Any](deps=lambda deps: [deps])
    agent = Agent(script.model, name="a", deps_type=Any, capabilities=[durable])

    @agent.tool
    def look(ctx: RunContext[Any]) -> None:
        seen.append(ctx.deps)

    @app.workflow
    async def work(ctx: Context) -> str:
        return (await agent.run("go", deps=given)).output

    async with environment(app) as env:
        assert await env.run(work) == "done"
    assert seen == [[given]]


@in_asyncio
async def test_a_request_that_may_succeed_later_is_made_again_and_another_is_not() -> None:
    app = new_app()
    flaky = Script(ModelHTTPError(429, "m"), ModelHTTPError(503, "m"), says("at last"))
    refused = Script(ModelHTTPError(401, "m", {"error": "who are you?"}))
    agents = {
        "flaky": Agent(flaky.model, name="flaky", capabilities=[Durable()]),
        "refused": Agent(refused.model, name="refused", capabilities=[Durable()]),
    }

    @app.workflow
    async def work(ctx: Context, name: str) -> str:
        return (await agents[name].run("go")).output

    async with environment(app) as env:
        assert await env.run(work, "flaky") == "at last"
        with pytest.raises(ModelHTTPError) as failed:
            await env.run(work, "refused")
        assert (failed.value.status_code, failed.value.body) == (401, {"error": "who are you?"})
        assert len(refused.asked) == 1


@in_asyncio
async def test_what_a_tool_asks_the_model_to_do_again_is_journaled_and_replays() -> None:
    app, tries = new_app(), list[int]()
    script = Script(calls(("guess", {"n": 1})), calls(("guess", {"n": 7})), says("found"))
    agent = Agent(script.model, name="a", capabilities=[Durable()])

    @agent.tool_plain
    async def guess(n: int) -> str:
        tries.append(n)
        if n != 7:
            raise ModelRetry("higher")
        return "yes"

    @app.workflow
    async def work(ctx: Context) -> list[Any]:
        result = await agent.run("go")
        await ctx.wait_for_user("Go on?")
        return [outcome for _, _, outcome in returns(result.all_messages())]

    async with environment(app, hot_runs=0) as env:
        env.people.answer("Go on?", approved=True)
        assert len(await env.run(work)) == 2
        assert tries == [1, 7]


class City(BaseModel):
    name: str
    people: int


@in_asyncio
async def test_structured_output_and_usage_limits_are_pydantic_ais() -> None:
    app = new_app()
    script = Script(calls(("final_result", {"name": "Ulm", "people": 126_000})))
    agent = Agent(script.model, name="a", output_type=City, capabilities=[Durable()])

    @app.workflow
    async def work(ctx: Context, limit: int) -> City:
        return (await agent.run("which?", usage_limits=UsageLimits(request_limit=limit))).output

    async with environment(app) as env:
        assert await env.run(work, 1) == City(name="Ulm", people=126_000)
        with pytest.raises(UsageLimitExceeded):
            await env.run(work, 0)


@in_asyncio
async def test_what_is_written_beside_tools_may_be_plain_functions() -> None:
    app, script, ran = new_app(), Script(calls(("look", {})), says("wrong"), says("right")), dict[str, int]()
    hooks = Hooks[None]()

    def note(what: str) -> None:
        ran[what] = threading.get_ident()

    def shout(text: str) -> str:
        note("output function")
        return text.upper()

    agent = Agent(
        script.model, name="a", output_type=TextOutput(shout), capabilities=[Durable[None](), hooks]
    )

    @agent.system_prompt
    def system() -> str:
        note("system prompt")
        return "You look."

    @agent.instructions
    def instructions(ctx: RunContext[None]) -> str:
        note("instructions")
        return "Look once."

    @agent.output_validator
    def validate(output: str) -> str:
        note("validator")
        if output == "WRONG":
            raise ModelRetry("look again")
        return output

    @hooks.on.before_run
    def begin(ctx: RunContext[None]) -> None:
        note("hook of the run")

    @hooks.on.before_model_request
    def before(ctx: RunContext[None], request_context: ModelRequestContext) -> ModelRequestContext:
        note("hook")
        return request_context

    @agent.tool_plain
    def look() -> str:
        note("tool")
        return "seen"

    @app.workflow
    async def work(ctx: Context) -> str:
        await ctx.wait_for_user("Begin?")
        return (await agent.run("go")).output

    async with environment(app, hot_runs=0) as env:
        env.people.answer("Begin?", approved=True)
        assert await env.run(work, id="r") == "RIGHT"
    here = threading.get_ident()
    assert {what: thread == here for what, thread in ran.items()} == {
        "system prompt": True,
        "instructions": True,
        "validator": True,
        "hook": True,
        "hook of the run": True,
        "output function": True,
        "tool": False,  # in its step it may block
    }


@in_asyncio
async def test_what_a_tool_returns_must_be_json_and_is_not_tried_again() -> None:
    app, script, ran = new_app(), Script(calls(("look", {}))), list[int]()
    agent = Agent(script.model, name="a", capabilities=[Durable()])

    @agent.tool_plain
    async def look() -> object:
        ran.append(1)
        return object()

    @app.workflow
    async def work(ctx: Context) -> str:
        return (await agent.run("go")).output

    async with environment(app) as env:
        with pytest.raises(NotSerializable, match="as JSON"):
            await env.run(work)
        assert ran == [1]


@in_asyncio
async def test_outside_of_workflows_and_in_steps_an_agent_is_as_without_it() -> None:
    app, script = new_app(), Script(says("outside"), says("in a step"))
    agent = Agent(script.model, name="a", capabilities=[Durable()])
    assert (await agent.run("go")).output == "outside"

    async def ask() -> str:
        with pytest.raises(OutsideWorkflow):
            signoff.current_context()
        return (await agent.run("go")).output

    @app.workflow
    async def work(ctx: Context) -> str:
        assert signoff.current_context() is ctx
        return await ctx.step("ask", ask)

    async with environment(app) as env:
        assert await env.run(work, id="r") == "in a step"
        assert await steps_of(env, "r") == ["ask"]
    with pytest.raises(OutsideWorkflow, match="current_context"):
        signoff.current_context()


def test_an_agent_without_a_name_is_refused() -> None:
    with pytest.raises(UserError, match="unique `name`"):
        Agent(Script().model, capabilities=[Durable()])


def test_without_pydantic_ai_it_is_said_what_to_install() -> None:
    code = "import sys; sys.modules['pydantic_ai'] = None; import signoff; import signoff.agents"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert "pip install 'signoff[agents]'" in done.stderr
