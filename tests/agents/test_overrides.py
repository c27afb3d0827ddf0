"""``agent.override`` in tests of workflows, and models that workflow code passes."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.instrumented import InstrumentedModel
from pydantic_ai.models.test import TestModel

from signoff import Context, Signoff
from signoff.agents import Durable, Finished, agent_tool, ask
from signoff.errors import RegistrationError
from signoff.testing import MemoryStore, at_pause, environment
from tests.support import in_asyncio


def unreachable(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    raise AssertionError("the real model was asked")


class Desk:
    """An app with an agent whose own model must not be asked.

    Attributes:
        sent: What its tool did.
    """

    def __init__(self, **durable: Any) -> None:
        self.app = Signoff(MemoryStore())
        self.sent: list[str] = []
        self.agent = Agent(FunctionModel(unreachable), name="desk", capabilities=[Durable(**durable)])

        @self.agent.tool_plain
        async def send(to: str) -> str:  # pyright: ignore[reportUnusedFunction]
            self.sent.append(to)
            return "sent"

        @self.app.workflow
        async def work(ctx: Context, model: str | None = None) -> str:
            run = await self.agent.run("go", model=model)
            assert {each.model_name for each in run.all_messages() if isinstance(each, ModelResponse)} == {
                "test"
            }
            return run.output

        self.work = work


MODELS: list[Any] = [TestModel, lambda: "test", lambda: InstrumentedModel(TestModel())]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("is_around", [True, False])
@in_asyncio
async def test_an_override_holds_around_an_environment_and_within(is_around: bool, model: Any) -> None:
    desk = Desk(approvals={"send": ask("May it?")})
    override = desk.agent.override(model=model())
    around, within = (override, nullcontext()) if is_around else (nullcontext(), override)
    with around:
        async with environment(desk.app, hot_runs=0) as env:
            env.people.answer("May it?", approved=True, after=timedelta(days=2))
            env.crash(at=at_pause())
            with within:
                assert await env.run(desk.work) == '{"send":"sent"}'
    assert desk.sent == ["a"]


@in_asyncio
async def test_an_override_holds_for_what_a_test_starts_then() -> None:
    desk = Desk()
    async with environment(desk.app) as env:
        for says in ("one", "two"):
            with desk.agent.override(model=TestModel(call_tools=[], custom_output_text=says)):
                run = await env.start(desk.work)
                assert await run.result() == says
        with pytest.raises(Exception, match="the real model was asked"):
            await env.run(desk.work)


@in_asyncio
async def test_an_override_holds_for_turns_of_conversations_and_their_sub_agents() -> None:
    app = Signoff(MemoryStore())
    helper = Agent(FunctionModel(unreachable), name="helper", capabilities=[Durable()])
    chief = Agent(
        FunctionModel(unreachable), name="chief", tools=[agent_tool("helper")], capabilities=[Durable()]
    )
    app.register(helper)
    app.register(chief)
    async with environment(app) as env:
        with (
            chief.override(model=TestModel()),
            helper.override(model=TestModel(call_tools=[], custom_output_text="helped")),
        ):
            handle = await env.start("chief", {"prompt": "hello"}, id="t-1")
            assert "helped" in str(await handle.result())


def stands_for(desk: Desk) -> TestModel:
    return TestModel(call_tools=[], custom_output_text=desk.agent.name or "")


@contextmanager
def as_a_fixture(desk: Desk) -> Generator[None]:
    with desk.agent.override(model=stands_for(desk)):
        yield


@in_asyncio
async def test_an_override_of_a_fixture_holds() -> None:
    desk = Desk()
    with as_a_fixture(desk):
        async with environment(desk.app) as env:
            assert await env.run(desk.work) == "desk"


@in_asyncio
async def test_workflow_code_may_give_a_model_of_its_own() -> None:
    desk, made = Desk(), list[TestModel]()

    @desk.app.workflow
    async def own(ctx: Context) -> str:
        made.append(TestModel())
        answer = (await desk.agent.run("go", model=made[-1])).output
        await ctx.wait_for_user("Go on?")
        return answer + (await desk.agent.run("go", model=made[-1])).output

    async with environment(desk.app, hot_runs=0) as env:
        env.people.answer("Go on?", approved=True)
        assert await env.run(own) == 2 * '{"send":"sent"}'
    assert len(made) == 2  # and so after a replay
    assert len(desk.sent) == 2


@pytest.mark.parametrize("stream", [True, False])
@in_asyncio
async def test_overrides_hold_where_models_are_streamed(stream: bool) -> None:
    desk = Desk(stream=stream)
    async with environment(desk.app) as env:
        with desk.agent.override(model=TestModel()):
            assert await env.run(desk.work) == '{"send":"sent"}'


@in_asyncio
async def test_overrides_of_instructions_and_of_a_known_models_name_apply() -> None:
    def says(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([TextPart(str(info.instructions))])

    other = FunctionModel(says, model_name="test")
    desk = Desk(models={"other": other})
    async with environment(desk.app) as env:
        with desk.agent.override(model="other", instructions="Be brief."):
            assert await env.run(desk.work) == "Be brief."


@in_asyncio
async def test_an_override_holds_for_a_conversation() -> None:
    app = Signoff(MemoryStore())
    agent = Agent(FunctionModel(unreachable), name="a", capabilities=[Durable()])
    app.register(agent)
    async with environment(app):
        for says in ("one", "two"):
            with agent.override(model=TestModel(call_tools=[], custom_output_text=says)):
                turn = await app.conversation("a", session_id="c").run("hello")
                assert isinstance(turn, Finished)
                assert turn.output == says


class Tenant(BaseModel):
    name: str


@in_asyncio
async def test_overridden_dependencies_are_those_of_tools() -> None:
    app, seen = Signoff(MemoryStore()), list[str]()
    agent = Agent(TestModel(), name="a", deps_type=Tenant, capabilities=[Durable()])

    @agent.tool
    async def look(ctx: RunContext[Tenant]) -> str:  # pyright: ignore[reportUnusedFunction]
        seen.append(ctx.deps.name)
        return ctx.deps.name

    @app.workflow
    async def work(ctx: Context) -> str:
        return (await agent.run("go", deps=Tenant(name="real"))).output

    async with environment(app) as env:
        with agent.override(deps=Tenant(name="test")):
            assert await env.run(work) == '{"look":"test"}'
    assert seen == ["test"]


def test_a_sub_agent_is_given_by_its_name() -> None:
    helper: Any = Agent(TestModel(), name="helper")
    with pytest.raises(RegistrationError, match="pass the name under which the agent is registered"):
        agent_tool(helper)
