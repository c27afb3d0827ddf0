"""Agents to be killed: three concurrent tool calls, two of them approved by different people; a tool that asks."""

from __future__ import annotations

from collections.abc import Callable

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from signoff import current_context
from signoff.agents import Durable, ask, in_workflow, tool_options
from tests.crash.programs import timeless

APPROVALS = {
    "refund": ask("refund?", assignees=["user:ana"]),
    "mail": ask("mail?", assignees=["user:bob"]),
}
CALLS = [("refund", {"cents": 500}), ("look", {"order": "o-1"}), ("mail", {"to": "bob"})]


class Helper:
    """The agent. ``effect`` leaves a trace of each execution, and returns what it is given."""

    def __init__(self, effect: Callable[[object], object]) -> None:
        def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            effect(None)
            if len(messages) > 1:
                return ModelResponse([TextPart("all done")])
            return ModelResponse([ToolCallPart(name, args, f"call-{name}") for name, args in CALLS])

        self.agent = Agent(FunctionModel(model), name="support", capabilities=[Durable(approvals=APPROVALS)])

        @self.agent.tool_plain(metadata=tool_options(side_effects="external"))
        async def refund(cents: int) -> object:  # pyright: ignore[reportUnusedFunction]
            return effect(f"refunded {cents}")

        @self.agent.tool_plain(metadata=tool_options(side_effects="write"))
        def mail(to: str) -> object:  # pyright: ignore[reportUnusedFunction]
            return effect(f"mailed {to}")

        @self.agent.tool_plain
        async def look(order: str) -> object:  # pyright: ignore[reportUnusedFunction]
            return effect(f"{order} is late")

    async def help(self) -> list[object]:
        """Run it; returns its output, how many requests it made, and its messages but for their times."""
        return await _told(self.agent, "Help with o-1")


class Deployer:
    """An agent whose tool has steps before and after its question. ``effect`` is as for ``Helper``."""

    def __init__(self, effect: Callable[[object], object]) -> None:
        def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            effect(None)
            if len(messages) > 1:
                return ModelResponse([TextPart("deployed")])
            return ModelResponse([ToolCallPart("deploy", {"service": "web"}, "call-deploy")])

        self._agent = Agent(FunctionModel(model), name="deployer", capabilities=[Durable()])

        @self._agent.tool_plain
        @in_workflow
        async def deploy(service: str) -> list[object]:  # pyright: ignore[reportUnusedFunction]
            ctx = current_context()
            plan = await ctx.step("plan", effect, f"plan of {service}")
            build = await ctx.step("build", effect, str(ctx.uuid4()))
            answer = await ctx.wait_for_user("deploy?")
            act = await ctx.step("act", effect, "acted", effect="once")
            return [plan, build, answer.approved, act, await ctx.step("tell", effect, "told")]

    async def deploy(self) -> list[object]:
        """Run it; returns what ``Helper.help`` does."""
        return await _told(self._agent, "Deploy web")


async def _told(agent: Agent[None, str], wish: str) -> list[object]:
    result = await agent.run(wish)
    messages = ModelMessagesTypeAdapter.dump_python(result.all_messages(), mode="json")
    return [result.output, result.usage.requests, timeless(messages)]
