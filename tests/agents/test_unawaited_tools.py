"""A tool, or another function of an agent, that calls an async helper without an await is refused with the line."""

# Type checkers see what is wrong here.
# pyright: reportUnusedCoroutine=false

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai import Agent, FunctionToolset, RunContext
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import DynamicToolset

from signoff import Context, Signoff, current_context
from signoff.agents import Conversation, Durable, ToolCall, ask_user, in_workflow
from signoff.errors import NotAwaited, RegistrationError
from signoff.testing import MemoryStore, environment
from tests.support import in_asyncio

paid: list[str] = []


async def _confirm() -> Any:
    return await ask_user("Pay?")


async def _approved() -> bool:
    return bool((await current_context().wait_for_user("Pay?")).approved)


async def _is_large(call: Any) -> bool:
    return bool(call.arguments["cents"] > 100)


confirm: Any = _confirm
approved: Any = _approved
is_large: Any = _is_large


class Cashier:
    async def confirm(self) -> Any:
        return await ask_user("Pay?")

    async def pay(self, cents: int) -> str:
        asking: Any = self
        asking.confirm()
        paid.append("paid")
        return "paid"

    async def pay_at_once(self, cents: int) -> str:
        self.confirm()
        paid.append("paid")
        return "paid"


async def pay(cents: int) -> str:
    confirm()
    paid.append("paid")
    return "paid"


def pay_plainly(cents: int) -> str:
    if confirm():
        paid.append("paid")
    return "paid"


@in_workflow
async def pay_in_workflow(cents: int) -> str:
    if not approved():
        return "refused"
    paid.append("paid")
    return "paid"


def pay_rightly(cents: int) -> str:
    paid.append("paid")
    return "paid"


def policy(call: ToolCall) -> bool:
    return bool(call.arguments and is_large(call)) and not is_large(call)


def agent_with(*tools: Any, **options: Any) -> Agent[Any, Any]:
    return Agent(TestModel(), name="desk", tools=list(tools), capabilities=[Durable(**options)])


def with_dynamic_toolset() -> Agent[Any, Any]:
    def tools(ctx: RunContext[Any]) -> FunctionToolset[Any]:
        return FunctionToolset([pay])

    toolset = DynamicToolset(tools, id="dynamic")
    return Agent(TestModel(), name="desk", toolsets=[toolset], capabilities=[Durable()])


def with_approval_required() -> Agent[Any, Any]:
    tools: Any = FunctionToolset([pay_rightly], id="tools")
    return Agent(
        TestModel(),
        name="desk",
        toolsets=[tools.approval_required(lambda ctx, tool, args: not is_large(args))],
        capabilities=[Durable()],
    )


AGENTS: dict[str, Any] = {
    "tool": lambda: agent_with(pay),
    "plain tool": lambda: agent_with(pay_plainly),
    "tool in workflow code": lambda: agent_with(pay_in_workflow),
    "method": lambda: agent_with(Cashier().pay_at_once),
    "policy": lambda: agent_with(pay_rightly, approvals=policy),
    "policy of a tool": lambda: agent_with(pay_rightly, approvals={"pay_rightly": policy}),
    "predicate of a toolset": with_approval_required,
    "dynamic toolset": with_dynamic_toolset,
}


@pytest.mark.parametrize("which", AGENTS)
@in_asyncio
async def test_it_is_refused_before_it_is_called(which: str) -> None:
    paid.clear()
    agent = AGENTS[which]()
    app = Signoff(MemoryStore())

    @app.workflow
    async def work(ctx: Context) -> Any:
        return (await agent.run("go")).output

    async with environment(app) as env:
        run = await env.start(work)
        await env.idle()
        with pytest.raises(NotAwaited, match=r"test_unawaited_tools.py:\d+ in"):
            await run.result()
        assert (await env.client.backend.get_run(run.id)).retryable
        assert not (await env.client.questions()).items
    assert paid == []


@in_asyncio
async def test_a_turn_of_a_conversation_is_refused_as_well() -> None:
    paid.clear()
    app = Signoff(MemoryStore())
    app.register(agent_with(pay))
    async with environment(app) as env:
        conversation = Conversation(env.client, "desk", session_id="s")
        with pytest.raises(NotAwaited, match=r"coroutine confirm\(\), at .* in pay"):
            await conversation.run("go")
    assert paid == []


@in_asyncio
async def test_a_name_that_may_be_anything_is_noticed_when_it_is_called() -> None:
    paid.clear()
    app, agent = (
        Signoff(MemoryStore()),
        agent_with(Cashier().pay),
    )

    @app.workflow
    async def work(ctx: Context) -> Any:
        return (await agent.run("go")).output

    async with environment(app) as env:
        with pytest.raises(
            NotAwaited, match=r"coroutine 'Cashier.confirm', at .*test_unawaited_tools.py:\d+ in pay"
        ):
            await env.run(work)
    assert paid == ["paid"], (
        "the step fails when it has returned: Python does not stop it where the call is dropped"
    )


HELPERS: dict[str, Any] = {"confirm": _confirm, "approved": _approved}


def plain_by_table(cents: int) -> str:
    if HELPERS["confirm"]():
        return "paid"
    return "refused"


async def by_table(cents: int) -> str:
    return plain_by_table(cents)


@in_workflow
async def in_workflow_by_table(cents: int) -> str:
    if HELPERS["approved"]():
        await current_context().step("pay", lambda: paid.append("paid"))
    return "paid"


@pytest.mark.parametrize("tool", [plain_by_table, by_table, in_workflow_by_table])
@in_asyncio
async def test_a_tool_that_calls_a_tables_helper_without_await_stops_its_run(tool: Any) -> None:
    """No source says what is in the table."""
    paid.clear()
    app = Signoff(MemoryStore())
    agent = Agent(TestModel(), name="a", tools=[tool], capabilities=[Durable()])

    @app.workflow
    async def work(ctx: Context) -> str:
        return (await agent.run("go")).output

    async with environment(app) as env:
        with pytest.raises(
            NotAwaited, match=r"coroutine '_(confirm|approved)', at .*test_unawaited_tools.py:\d+ in"
        ):
            await env.run(work)
    assert paid == []


async def pay_in_parts(cents: int) -> Any:
    paid.append("paid")
    yield "paid"


@in_asyncio
async def test_a_tool_that_is_an_async_generator_is_refused_before_people_approve_it() -> None:
    agent = Agent(TestModel(), name="desk", capabilities=[Durable(approvals=["pay_in_parts"])])
    agent.tool_plain(pay_in_parts)
    app = Signoff(MemoryStore())

    @app.workflow
    async def work(ctx: Context) -> str:
        return (await agent.run("go")).output

    async with environment(app) as env:
        with pytest.raises(RegistrationError, match=r"pay_in_parts is an async generator"):
            await env.run(work)
        assert not (await env.client.questions()).items
