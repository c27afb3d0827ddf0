"""Changes by toolsets, hooks and edits after a call was shown: people see them, or the call does not run."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, BeforeValidator, Field, model_validator
from pydantic_ai import Agent, RunContext, ToolDefinition
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.output import ToolOutput
from pydantic_ai.toolsets import (
    AbstractToolset,
    CombinedToolset,
    DynamicToolset,
    FunctionToolset,
    WrapperToolset,
)

from signoff import Context, Signoff
from signoff.agents import Durable, ToolCall
from signoff.errors import NotAsApproved
from signoff.testing import MemoryStore, after_step, environment
from signoff.testing.environment import Environment
from tests.agents.scripts import Script, asked, calls, returns, says
from tests.support import in_asyncio

Cents = Annotated[int, BeforeValidator(lambda euros: euros * 100)]


class Line(BaseModel):
    id: str = Field(default_factory=lambda: uuid.uuid4().hex[:8])
    cents: Cents
    note: str = ""


class Total(BaseModel):
    first: int
    second: int
    total: int = 0

    @model_validator(mode="after")
    def add(self) -> Total:
        self.total = self.first + self.second
        return self


class Paying:
    """An agent whose tool ``pay`` is asked about, and what was paid."""

    def __init__(
        self,
        tool: Callable[..., Any],
        sent: dict[str, Any],
        paid: list[Any],
        *,
        around: Callable[[AbstractToolset[Any]], AbstractToolset[Any]] = lambda toolset: toolset,
        hooks: Sequence[AbstractCapability[Any]] = (),
        is_dynamic: bool = False,
        approvals: Any = ("pay",),
    ) -> None:
        self.paid = paid
        self.app = Signoff(MemoryStore())
        self.tool = tool

        def tools(ctx: RunContext[Any] | None = None) -> AbstractToolset[Any]:
            toolset = FunctionToolset[Any](id="tools")
            toolset.add_function(self.tool, name="pay")
            return toolset

        toolset: AbstractToolset[Any] = DynamicToolset[Any](tools, id="dynamic") if is_dynamic else tools()
        agent = Agent(
            Script(calls(("pay", sent)), says("done")).model,
            name="a",
            toolsets=[around(toolset)],
            capabilities=[Durable(approvals=approvals), *hooks],
        )

        @self.app.workflow
        async def work(ctx: Context) -> list[Any]:
            return returns((await agent.run("go")).all_messages())

        self.work = work

    async def shown(self, env: Environment) -> tuple[str, dict[str, Any]]:
        """The id of the one question, and the arguments that it shows."""
        await env.idle()
        (question,) = (await env.client.questions()).items
        return question.id, asked(question)["action"]["arguments"]


def is_much(call: ToolCall) -> bool:
    return call.arguments["euros"] > 10_000


def paying(paid: list[Any]) -> Callable[..., str]:
    def pay(euros: Cents, note: str = "") -> str:
        paid.append((euros, note))
        return "paid"

    return pay


def paying_lines(paid: list[Any]) -> Callable[..., str]:
    def pay(lines: list[Line]) -> str:
        paid.append([line.model_dump() for line in lines])
        return "paid"

    return pay


class Lowering(WrapperToolset[Any]):
    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        return await super().call_tool(name, {**tool_args, "euros": 1}, ctx, tool)


class LoweringInPlace(WrapperToolset[Any]):
    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        tool_args["euros"] = 1
        return await super().call_tool(name, tool_args, ctx, tool)


class LoweringHook(AbstractCapability[Any]):
    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        return await handler({**args, "euros": 1})


def lowering_between(toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
    return Lowering(toolset.prefixed("bank")).renamed({"pay": "bank_pay"})


CHANGING: dict[str, dict[str, Any]] = {
    "a wrapper": {"around": Lowering},
    "a wrapper that changes them in place": {"around": LoweringInPlace},
    "a wrapper within others": {"around": lowering_between},
    "a wrapper around a dynamic toolset": {"around": Lowering, "is_dynamic": True},
    "a hook": {"hooks": [LoweringHook()]},
}


@pytest.mark.parametrize("how", CHANGING)
@in_asyncio
async def test_arguments_that_change_after_the_approval_are_decided_on_again(how: str) -> None:
    paid: list[Any] = []
    scene = Paying(paying(paid), {"euros": 70}, paid, **CHANGING[how])
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        seen: list[Any] = []
        for _ in range(2):
            question, shown = await scene.shown(env)
            assert scene.paid == []
            seen.append(shown["euros"])
            await env.client.answer(question, True, user_id="ana")
            if seen[-1] != 7_000:
                break
        assert await run.result() == [["pay", "paid", "success"]]
    # a dynamic tool converts what the wrapper has put there
    assert [scene.paid[0][0]] == seen[-1:] == [100 if "dynamic" in how else 1]


@pytest.mark.parametrize("is_dynamic", [False, True])
@in_asyncio
async def test_what_a_policy_let_through_and_a_wrapper_changes_is_asked_about(is_dynamic: bool) -> None:
    paid: list[Any] = []

    class Raising(WrapperToolset[Any]):
        async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
            raised = 900 if is_dynamic else 90_000
            return await super().call_tool(name, {**tool_args, "euros": raised}, ctx, tool)

    scene = Paying(
        paying(paid),
        {"euros": 70},
        paid,
        around=Raising,
        is_dynamic=is_dynamic,
        approvals=is_much,
    )
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        question, shown = await scene.shown(env)
        assert (shown["euros"], paid) == (90_000, [])
        await env.client.answer(question, False, user_id="ana", note="too much")
        assert await run.result() == [["pay", "too much", "denied"]]
    assert paid == []


@pytest.mark.parametrize("is_dynamic", [False, True])
@in_asyncio
async def test_a_policy_decides_on_what_a_tool_of_a_dynamic_toolset_gets(is_dynamic: bool) -> None:
    paid: list[Any] = []
    scene = Paying(
        paying(paid),
        {"euros": 200},
        paid,
        is_dynamic=is_dynamic,
        approvals=is_much,
    )
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        question, shown = await scene.shown(env)
        assert shown == {"euros": 20_000, "note": ""}
        await env.client.answer(question, True, user_id="ana")
        await run.result()
    assert paid == [(20_000, "")]


@in_asyncio
async def test_arguments_that_a_dynamic_tool_refuses_are_not_asked_about() -> None:
    paid: list[Any] = []

    def pay(euros: int) -> str:
        paid.append(euros)
        return "paid"

    scene = Paying(pay, {"euros": "seventy"}, paid, is_dynamic=True)
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        ((tool, said, outcome),) = await run.result()
        assert (tool, outcome) == ("pay", "retried")
        assert "valid integer" in str(said)
        assert (await env.client.questions()).items == ()
    assert paid == []


RATES: list[int] = []


def at_todays_rate(euros: int) -> int:
    return euros * RATES.pop(0)


@in_asyncio
async def test_a_dynamic_tool_with_unstable_validators_does_not_run() -> None:
    paid: list[Any] = []
    RATES[:] = [2, 3]

    def pay(euros: Annotated[int, BeforeValidator(at_todays_rate)]) -> str:
        paid.append(euros)
        return "paid"

    scene = Paying(pay, {"euros": 70}, paid, is_dynamic=True)
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        question, shown = await scene.shown(env)
        assert shown == {"euros": 140}
        await env.client.answer(question, True, user_id="ana")
        with pytest.raises(NotAsApproved, match=r"would receive .*210.* but .*140.* was approved"):
            await run.result()
    assert paid == []


@in_asyncio
async def test_a_changed_dynamic_tool_runs_only_with_the_approved_arguments() -> None:
    paid: list[Any] = []
    scene = Paying(paying(paid), {"euros": 70}, paid, is_dynamic=True)

    def other(euros: int, note: str = "") -> str:
        paid.append(euros)
        return "paid"

    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        question, shown = await scene.shown(env)
        assert shown["euros"] == 7_000
        scene.tool = other
        env.crash(at=after_step("a.pay:changed"))
        await env.client.answer(question, True, user_id="ana")
        with pytest.raises(NotAsApproved, match=r"would receive .*70.* but .*7000.* was approved"):
            await run.result()
        assert env.pending_crashes == []
    assert paid == []


@in_asyncio
async def test_what_an_agent_inside_a_dynamic_tool_calls_is_its_own() -> None:
    paid: list[Any] = []

    def tools(ctx: RunContext[Any]) -> FunctionToolset[Any]:
        return FunctionToolset([paying(paid)], id="inner tools")

    inner = Agent(
        Script(calls(("pay", {"euros": 2})), says("done")).model,
        name="inner",
        toolsets=[DynamicToolset(tools, id="inner")],
        capabilities=[Durable()],
    )

    async def pay(euros: Cents) -> str:
        return (await inner.run("go")).output

    scene = Paying(pay, {"euros": 1}, paid, is_dynamic=True)
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        question, shown = await scene.shown(env)
        assert shown == {"euros": 100}
        await env.client.answer(question, True, user_id="ana")
        assert await run.result() == [["pay", "done", "success"]]
    assert paid == [(200, "")]


# Edits


def moved(lines: list[Any]) -> list[Any]:
    return lines[::-1]


def without_the_first(lines: list[Any]) -> list[Any]:
    return lines[1:]


def noted(lines: list[Any]) -> list[Any]:
    return [lines[0], {**lines[1], "note": "late"}]


@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize("change", [moved, without_the_first, noted])
@in_asyncio
async def test_rows_that_an_edit_moves_removes_or_leaves_stay_what_they_are(
    change: Callable[[list[Any]], list[Any]], is_dynamic: bool
) -> None:
    paid: list[Any] = []
    scene = Paying(paying_lines(paid), {"lines": [{"cents": 1}, {"cents": 2}]}, paid, is_dynamic=is_dynamic)
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        question, shown = await scene.shown(env)
        edited = {"lines": change(shown["lines"])}
        await env.client.answer(question, {"approved": True, "edited": edited}, user_id="ana")
        await run.result()
    assert paid == [edited["lines"]]


@in_asyncio
async def test_a_row_that_an_edit_changes_and_moves_is_shown_as_the_tool_gets_it() -> None:
    paid: list[Any] = []
    scene = Paying(paying_lines(paid), {"lines": [{"cents": 1}, {"cents": 2}]}, paid)
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        question, shown = await scene.shown(env)
        edited = {"lines": [{**shown["lines"][1], "note": "late"}]}
        await env.client.answer(question, {"approved": True, "edited": edited}, user_id="ana")
        question, shown = await scene.shown(env)
        assert (shown["lines"][0]["cents"], paid) == (20_000, [])  # what was 200 would be converted once more
        await env.client.answer(question, False, user_id="ana")
        await run.result()
    assert paid == []


@in_asyncio
async def test_derived_values_that_an_edit_left_alone_are_shown_before_the_run() -> None:
    paid: list[Any] = []

    def pay(order: Total, note: str = "") -> str:
        paid.append(order.total)
        return "paid"

    scene = Paying(pay, {"order": {"first": 1, "second": 2}}, paid)
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        question, shown = await scene.shown(env)
        edited = {**shown, "order": {**shown["order"], "first": 5}}
        await env.client.answer(question, {"approved": True, "edited": edited}, user_id="ana")
        question, shown = await scene.shown(env)
        assert (shown["order"], paid) == ({"first": 5, "second": 2, "total": 7}, [])
        await env.client.answer(question, True, user_id="ana")
        await run.result()
    assert paid == [7]


@in_asyncio
async def test_long_arguments_are_elided_where_they_are_named_and_visibly() -> None:
    paid: list[Any] = []
    sent = {"euros": 70, "note": "n" * 2_000}

    def pay(euros: Cents, note: Annotated[str, BeforeValidator(str.upper)]) -> str:
        paid.append(note)
        return "paid"

    scene = Paying(pay, sent, paid)
    async with environment(scene.app) as env:
        await env.start(scene.work)
        await env.idle()
        (question,) = (await env.client.questions()).items
        found = asked(question)
        assert found["action"]["arguments"]["note"] == "N" * 2_000
        assert found["metadata"]["sent"] == {"euros": 70, "note": "n" * 250 + "… 1,750 characters more"}


@in_asyncio
async def test_letters_that_look_like_others_are_named() -> None:
    paid: list[Any] = []
    scene = Paying(paying(paid), {"euros": 70, "note": "to p\u0430ypal"}, paid)
    async with environment(scene.app) as env:
        await env.start(scene.work)
        await env.idle()
        (question,) = (await env.client.questions()).items
        found = asked(question)
        assert found["action"]["arguments"]["note"] == "to p\u0430ypal"
        assert found["metadata"]["mixed_alphabets"] == [r"p\u0430ypal"]
        assert r"p\u0430ypal" in found["help"]


# The output beside a call


class Done(BaseModel):
    text: str


@pytest.mark.parametrize("barrier", [False, True])
@in_asyncio
async def test_a_call_beside_the_output_is_asked_about(barrier: bool) -> None:
    paid: list[Any] = []
    app = Signoff(MemoryStore())
    script = Script(calls(("pay", {"euros": 1}), ("final_result", {"text": "done"})))
    agent = Agent(
        script.model,
        name="a",
        output_type=ToolOutput(Done),
        tools=[paying(paid)],
        capabilities=[Durable(approvals=["pay"], barrier=barrier)],
    )

    @app.workflow
    async def work(ctx: Context) -> str:
        return (await agent.run("go")).output.text

    async with environment(app) as env:
        run = await env.start(work)
        await env.idle()
        (question,) = (await env.client.questions()).items
        assert paid == []
        await env.client.answer(question.id, True, user_id="ana")
        assert await run.result() == "done"
    assert paid == [(100, "")]


def fails(ctx: RunContext[Any], tool: ToolDefinition, args: dict[str, Any]) -> bool:
    return args["cents"] > 10_000


def around_all(toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
    return toolset.approval_required(fails)


def fails_within(toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
    return CombinedToolset([toolset.approval_required(fails).prefixed("bank").renamed({"pay": "bank_pay"})])


@pytest.mark.parametrize("approves", [True, False])
@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize("around", [around_all, fails_within])
@in_asyncio
async def test_a_predicate_of_a_toolset_that_fails_has_people_asked(
    around: Callable[[AbstractToolset[Any]], AbstractToolset[Any]], is_dynamic: bool, approves: bool
) -> None:
    paid: list[Any] = []
    scene = Paying(paying(paid), {"euros": 70}, paid, around=around, is_dynamic=is_dynamic, approvals=())
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        await env.idle()
        (question,) = (await env.client.questions()).items
        assert asked(question)["metadata"]["policy_failed"] == "KeyError: 'cents'"
        assert paid == []
        await env.client.answer(question.id, approves, user_id="ana")
        await env.idle()
        await run.result()
        assert paid == ([(7_000, "")] if approves else [])


@in_asyncio
async def test_a_failing_toolset_predicate_outside_workflows_raises_as_before() -> None:
    toolset = FunctionToolset[Any](id="tools")
    toolset.add_function(paying([]), name="pay")
    agent = Agent(
        Script(calls(("pay", {"euros": 70}))).model,
        toolsets=[toolset.approval_required(fails)],
        name="a",
        capabilities=[Durable()],
    )
    with pytest.raises(KeyError, match="cents"):
        await agent.run("go")
