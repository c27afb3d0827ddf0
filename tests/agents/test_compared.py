"""A replay compares model requests of agents, and arguments of tool calls."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import SecretStr
from pydantic_ai import Agent, RunContext
from pydantic_ai.exceptions import UnexpectedModelBehavior, UserError
from pydantic_ai.messages import (
    BinaryContent,
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.output import ToolOutput
from pydantic_ai.tools import DeferredToolResults, ToolApproved
from pydantic_ai.toolsets import ExternalToolset
from pydantic_ai.usage import UsageLimits

from signoff import Context, Signoff
from signoff.agents import Durable
from signoff.errors import NonDeterminism
from signoff.records import EntryKind
from signoff.testing import MemoryStore, at_pause, environment
from tests.agents.scripts import calls, returns, says
from tests.support import in_asyncio


def asked(messages: list[ModelMessage]) -> str:
    return "".join(
        str(part.content)
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, UserPromptPart)
    )


def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if not returns(messages):
        return calls(("pay", {"order": asked(messages)}))
    return says(str([content for _, content, _ in returns(messages)]))


def payer(paid: list[str], **options: Any) -> Agent[None, str]:
    agent = Agent(FunctionModel(respond), name="payer", capabilities=[Durable()], **options)

    @agent.tool_plain
    def pay(order: str) -> str:
        paid.append(order)
        return f"paid {order}"

    return agent


def changed(paid: list[str]) -> Agent[None, str]:
    """Return the agent as another deploy has it: its tool and its instructions differ."""
    agent = Agent(
        FunctionModel(respond), name="payer", capabilities=[Durable()], instructions="Be quick.", retries=3
    )

    @agent.tool_plain
    def pay(order: Any, currency: str = "EUR", *, tries: int = 3) -> list[str]:
        paid.append(order)
        return [f"paid {order} in {currency} {tries}"]

    return agent


async def restarted(orders: list[str], then: list[str], *agents: Agent[None, str]) -> tuple[Any, list[Any]]:
    app = Signoff(MemoryStore())
    begun = itertools.count()

    @app.workflow
    async def flow(ctx: Context) -> list[str]:
        turn = next(begun)
        agent = agents[min(turn, len(agents) - 1)]
        done = [(await agent.run(order)).output for order in (orders if turn == 0 else then)]
        await ctx.wait_for_signal("go")
        return done

    async with environment(app) as env:
        env.crash(at=at_pause())
        run = await env.start(flow, id="r")
        await env.idle()
        await run.signal("go")
        try:
            result: Any = await run.result()
        except NonDeterminism as error:
            result = error
        return result, await env.store.read_journal("r")


@in_asyncio
async def test_requests_in_another_order_are_noticed() -> None:
    paid: list[str] = []
    error, _ = await restarted(["a", "b"], ["b", "a"], payer(paid))
    assert isinstance(error, NonDeterminism)
    assert (error.n, paid) == (1, ["a", "b"])


@pytest.mark.parametrize("make", [payer, changed])
@in_asyncio
async def test_an_agent_whose_tools_and_instructions_have_changed_fits(make: Any) -> None:
    paid: list[str] = []
    result, entries = await restarted(["a", "b"], ["a", "b"], payer(paid), make(paid))
    assert result == ["['paid a']", "['paid b']"]
    assert paid == ["a", "b"]
    details = [json.loads(each.details or "{}") for each in entries if each.kind is EntryKind.COMPLETED]
    compared = [each["inputs"]["compare"] for each in details if "compare" in each.get("inputs", {})]
    assert {"order": "a"} in compared
    assert {"order": "b"} in compared


@dataclass
class Customer:
    id: str
    tags: set[str]


@dataclass
class WithClient:
    id: str
    client: Any
    secret: SecretStr


def refunder(refunded: list[str], **options: Any) -> Agent[Any, str]:
    """An agent whose runs have one prompt, and differ in their dependencies."""

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return says("refunded") if returns(messages) else calls(("refund", {}))

    agent = Agent(
        FunctionModel(respond),
        name="refunder",
        deps_type=options.pop("type", Any),
        capabilities=[Durable(**options)],
    )

    @agent.tool
    def refund(ctx: RunContext[Any]) -> str:
        refunded.append(ctx.deps if isinstance(ctx.deps, str) else ctx.deps.id)
        return "done"

    return agent


async def refunded_again(agent: Agent[Any, str], first: list[Any], then: list[Any], at_once: bool) -> Any:
    """Refund customers in one order, and again in another one after a crash."""
    app, begun = Signoff(MemoryStore()), itertools.count()

    @app.workflow
    async def flow(ctx: Context) -> int:
        customers = first if next(begun) == 0 else then
        runs = [agent.run("Refund the customer", deps=each) for each in customers]
        done = await asyncio.gather(*runs) if at_once else [await each for each in runs]
        await ctx.wait_for_signal("go")
        return len(done)

    async with environment(app) as env:
        env.crash(at=at_pause())
        run = await env.start(flow, id="r")
        await env.idle()
        await run.signal("go")
        try:
            return await run.result()
        except NonDeterminism as error:
            return error


@pytest.mark.parametrize("at_once", [False, True])
@in_asyncio
async def test_two_runs_that_differ_in_their_deps_change_no_places(at_once: bool) -> None:
    refunded: list[str] = []
    ana, bob = Customer("ana", {"x", "y", "z"}), Customer("bob", {"z", "y", "x"})
    found = await refunded_again(refunder(refunded, type=Customer), [ana, bob], [bob, ana], at_once)
    assert isinstance(found, NonDeterminism)
    assert sorted(refunded) == ["ana", "bob"]
    for id in ("ana", "bob"):
        assert f'deps={{"id": "{id}", "tags": ["x", "y", "z"]}}' in str(found)


@in_asyncio
async def test_equal_deps_fit_after_a_restart() -> None:
    refunded: list[str] = []
    again = [Customer("ana", {"z", "y", "x"}), Customer("bob", set())]
    first = [Customer("ana", {"x", "y", "z"}), Customer("bob", set())]
    assert await refunded_again(refunder(refunded, type=Customer), first, again, False) == 2
    assert refunded == ["ana", "bob"]


@in_asyncio
async def test_deps_without_a_stable_form_are_left_out_and_it_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refunded: list[str] = []
    agent = refunder(refunded, deps=lambda given: given)
    ana, bob, other = (WithClient(id, threading.Lock(), SecretStr("s3cret")) for id in ("ana", "bob", "bob"))
    assert await refunded_again(agent, [ana, bob], [ana, other], False) == 2
    found = await refunded_again(agent, [ana, bob], [bob, ana], False)
    assert isinstance(found, NonDeterminism)
    assert 'deps={"id": "ana", "client": {"$left_out": "_thread.lock"}, "secret": "**********"}' in str(found)
    [said] = [each.message for each in caplog.records if "stable form" in each.message]
    assert "'deps.client'" in said


@pytest.mark.parametrize("is_swapped", [True, False])
@in_asyncio
async def test_two_runs_that_differ_in_their_history_change_no_places(is_swapped: bool) -> None:
    refunded: list[str] = []

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        called = isinstance(messages[-1], ModelRequest) and not asked([messages[-1]])
        return says("refunded") if called else calls(("refund", {"customer": asked(messages[:1])}))

    agent = Agent(FunctionModel(respond), name="refunder", capabilities=[Durable()])

    @agent.tool_plain
    def refund(customer: str) -> str:
        refunded.append(customer)
        return "done"

    app, begun = Signoff(MemoryStore()), itertools.count()

    @app.workflow
    async def flow(ctx: Context) -> None:
        customers = ["bob", "ana"] if next(begun) > 0 and is_swapped else ["ana", "bob"]
        for each in customers:
            before = [ModelRequest([UserPromptPart(each)]), says("How can I help?")]
            await agent.run("Refund me", message_history=before)
        await ctx.wait_for_signal("go")

    async with environment(app) as env:
        env.crash(at=at_pause())
        run = await env.start(flow, id="r")
        await env.idle()
        await run.signal("go")
        if is_swapped:
            with pytest.raises(NonDeterminism, match="history="):
                await run.result()
        else:
            await run.result()
    assert refunded == ["ana", "bob"]


@dataclass
class Receipt:
    cents: int


@dataclass
class Refund:
    cents: int


def photo(data: bytes) -> list[ModelMessage]:
    return [ModelRequest([UserPromptPart([BinaryContent(data, media_type="image/png")])]), says("Seen.")]


def result(content: Any) -> list[ModelMessage]:
    return [
        calls(("balance", {})),
        ModelRequest([ToolReturnPart("balance", content, tool_call_id="c")]),
        says("ok"),
    ]


GIVEN: Sequence[tuple[str, Any, Any, str]] = [
    ("instructions", "Pay ana.", "Pay bob.", 'instructions="Pay ana."'),
    ("instructions", ["Pay ana.", "At once."], ["Pay bob.", "At once."], '"Pay bob.", "At once."'),
    (
        "instructions",
        InstructionPart("Pay ana.", name="who"),
        InstructionPart("Pay bob.", name="who"),
        "Pay ana.",
    ),
    ("model_settings", {"temperature": 0.0}, {"temperature": 1.0}, 'model_settings={"temperature": 1.0}'),
    ("usage_limits", UsageLimits(request_limit=7), UsageLimits(request_limit=8), '{"request_limit": 7}'),
    ("output_type", Receipt, Refund, 'output_type="Receipt"'),
    ("output_type", [Receipt, str], [Refund, str], 'output_type=["Refund", "str"]'),
    ("output_type", ToolOutput(Receipt), ToolOutput(Refund), '["ToolOutput", "Refund"]'),
    ("output_type", list[Receipt], list[Refund], '["list", "Receipt"]'),
    (
        "model",
        TestModel(call_tools=[], model_name="one"),
        TestModel(call_tools=[], model_name="two"),
        'model="test:one"',
    ),
    ("toolsets", [ExternalToolset([], id="ana")], [ExternalToolset([], id="bob")], 'toolsets=["bob"]'),
    (
        "deferred_tool_results",
        DeferredToolResults(approvals={"c": ToolApproved(override_args={"cents": 1})}),
        DeferredToolResults(approvals={"c": ToolApproved(override_args={"cents": 2})}),
        '{"approvals": {"c": {"ToolApproved": {"override_args": {"cents": 2}}}}}',
    ),
    ("message_history", result({"cents": 1}), result({"cents": 2}), "history="),
    ("message_history", result(Receipt(1)), result(Receipt(2)), "history="),
    ("message_history", photo(b"one"), photo(b"two"), "history="),
]


async def run_with(name: str, first: Any, then: Any) -> Any:
    """Run an agent with an argument, crash, and run it with another one."""

    agent = Agent(TestModel(call_tools=[]), name="clerk", capabilities=[Durable()])

    @agent.tool_plain(requires_approval=True)
    def pay(cents: int) -> int:
        return cents

    app, begun = Signoff(MemoryStore()), itertools.count()

    @app.workflow
    async def flow(ctx: Context) -> None:
        given = {name: first if next(begun) == 0 else then}
        prompt = None if name == "deferred_tool_results" else "Go"
        if prompt is None:
            given["message_history"] = [
                ModelRequest([UserPromptPart("Go")]),
                calls(("pay", {"cents": 0}, "c")),
            ]
        with contextlib.suppress(UserError, UnexpectedModelBehavior):
            await agent.run(prompt, **given)
        await ctx.wait_for_signal("go")

    async with environment(app) as env:
        env.crash(at=at_pause())
        run = await env.start(flow, id="r")
        await env.idle()
        await run.signal("go")
        try:
            return await run.result()
        except NonDeterminism as error:
            return error


@pytest.mark.parametrize(("name", "first", "then", "shown"), GIVEN)
@in_asyncio
async def test_a_changed_argument_of_a_run_is_noticed(name: str, first: Any, then: Any, shown: str) -> None:
    assert await run_with(name, first, copy.deepcopy(first)) is None
    error = await run_with(name, first, then)
    assert isinstance(error, NonDeterminism)
    assert shown in str(error)


@in_asyncio
async def test_headers_of_a_run_are_neither_compared_nor_journaled() -> None:
    def settings(token: str) -> dict[str, Any]:
        return {"temperature": 0.0, "extra_headers": {"authorization": token}, "timeout": len(token)}

    assert await run_with("model_settings", settings("s3cret"), settings("renewed")) is None
    error = await run_with("model_settings", settings("s3cret"), {"temperature": 1.0})
    assert 'model_settings={"temperature": 0.0}' in str(error)
