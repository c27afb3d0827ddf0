"""Arguments are validated once, and run as approved despite hooks, large calls and unusual schemas."""

from __future__ import annotations

import uuid
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, Field
from pydantic_ai import Agent, RunContext, Tool
from pydantic_ai.capabilities import Hooks
from pydantic_ai.exceptions import ApprovalRequired, ModelRetry
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ExternalToolset

from signoff import Alike, Context, Signoff
from signoff.agents import Durable, ToolCall, deny
from signoff.testing import MemoryStore, after_step, at_pause, environment
from signoff.testing.environment import Environment
from tests.agents.scripts import Script, asked, calls, returns, says
from tests.support import in_asyncio

BARRIERS = pytest.mark.parametrize("barrier", [False, True], ids=["", "barrier"])


class Scene:
    """An app with an agent that calls ``pay`` with some arguments."""

    def __init__(
        self,
        sent: Any,
        *capabilities: Any,
        tools: Any = (),
        toolsets: Any = (),
        turns: Any = (),
        **options: Any,
    ) -> None:
        self.paid: list[Any] = []
        self.app = Signoff(MemoryStore())
        script = Script(*(calls(("pay", each)) for each in turns or [sent]), says("done"))
        self.agent = Agent(
            script.model,
            name="a",
            tools=tools,
            toolsets=toolsets,
            capabilities=[*capabilities, Durable(**options)],
        )

        @self.app.workflow
        async def work(ctx: Context) -> list[Any]:
            return returns((await self.agent.run("go")).all_messages())

        self.work = work

    async def question(self, env: Environment) -> Any:
        await env.idle()
        (question,) = (await env.client.questions()).items
        return question


def arguments(question: Any) -> dict[str, Any]:
    return asked(question)["action"]["arguments"]


# Validated once

LOOKED: list[int] = []


def look(cents: int) -> int:
    LOOKED.append(cents)
    return cents * 100


def fits(cents: int) -> int:
    if cents < 0:
        raise ModelRetry("less than nothing")
    return cents


@BARRIERS
@pytest.mark.parametrize("asks", ["nobody", "the tool", "a policy", "its validator", "its body"])
@in_asyncio
async def test_a_validator_runs_once_per_approved_call_and_once_per_edit(asks: str, barrier: bool) -> None:
    def pay(ctx: RunContext[Any], cents: Annotated[int, AfterValidator(look)]) -> str:
        if asks == "its body" and not ctx.tool_call_approved:
            raise ApprovalRequired
        scene.paid.append(cents)
        return "paid"

    def check(ctx: RunContext[Any], cents: int) -> None:
        if asks == "its validator" and not ctx.tool_call_approved:
            raise ApprovalRequired

    for answer, ran in (
        (True, [[70], [7000]]),
        ({"approved": True, "edited": {"cents": 80}}, [[70, 80], [8000]]),
    ):
        LOOKED.clear()
        tool = Tool(pay, requires_approval=asks == "the tool", args_validator=check)
        scene = Scene(
            {"cents": 70}, tools=[tool], barrier=barrier, approvals=["pay"] if asks == "a policy" else None
        )
        async with environment(scene.app) as env:
            run = await env.start(scene.work)
            if asks != "nobody":
                question = await scene.question(env)
                assert arguments(question) == {"cents": 7000}
                assert asked(question)["metadata"]["sent"] == {"cents": 70}
                await env.client.answer(question.id, answer, user_id="ana")
            await run.result()
        assert [LOOKED, scene.paid] == (ran if asks != "nobody" else [[70], [7000]])


@BARRIERS
@in_asyncio
async def test_an_edit_leaves_what_it_does_not_change_as_it_was_sent(barrier: bool) -> None:
    def pay(cents: Annotated[int, AfterValidator(lambda euros: euros * 100)], to: str) -> str:
        scene.paid.append((cents, to))
        return "paid"

    scene = Scene({"cents": 70, "to": "bob"}, tools=[Tool(pay, requires_approval=True)], barrier=barrier)
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        question = await scene.question(env)
        edited = {"cents": 7000, "to": "eve"}
        await env.client.answer(question.id, {"approved": True, "edited": edited}, user_id="ana")
        await run.result()
    assert scene.paid == [(7000, "eve")]


class Numbered(BaseModel):
    cents: int
    id: uuid.UUID = Field(default_factory=uuid.uuid4)


@BARRIERS
@in_asyncio
async def test_values_made_by_validators_stay_the_approved_ones_in_a_crash(barrier: bool) -> None:
    def pay(what: Numbered) -> str:
        scene.paid.append(what)
        return "paid"

    scene = Scene({"cents": 7}, tools=[Tool(pay, requires_approval=True)], barrier=barrier)
    async with environment(scene.app) as env:
        env.crash(at=at_pause())
        run = await env.start(scene.work)
        question = await scene.question(env)
        env.crash(at=after_step("a.pay:changed"))
        await env.client.answer(question.id, True, user_id="ana")
        await run.result()
        assert env.pending_crashes == []
    (paid,) = scene.paid
    assert arguments(question) == {"cents": 7, "id": str(paid.id)}


@BARRIERS
@pytest.mark.parametrize("wrong", ["no", -1])
@in_asyncio
async def test_refused_arguments_go_back_to_the_model_without_a_question(wrong: Any, barrier: bool) -> None:
    def pay(cents: Annotated[int, AfterValidator(fits)]) -> str:
        raise AssertionError

    scene = Scene({"cents": wrong}, tools=[Tool(pay, requires_approval=True)], barrier=barrier)
    async with environment(scene.app) as env:
        ((name, _, outcome),) = await env.run(scene.work)
        assert (name, outcome) == ("pay", "retried")


# Hooks


def hooks_that(where: str) -> Any:
    hooks: Hooks[Any] = Hooks()

    async def halve(
        ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: Any
    ) -> dict[str, Any]:
        return {**args, "cents": args["cents"] // 2}

    getattr(hooks.on, where)(halve)
    return hooks


@BARRIERS
@pytest.mark.parametrize("where", ["before_tool_validate", "after_tool_validate"])
@pytest.mark.parametrize("first", [True, False])
@in_asyncio
async def test_what_a_hook_has_made_of_arguments_is_shown_and_runs(
    where: str, first: bool, barrier: bool
) -> None:
    def pay(cents: int) -> str:
        scene.paid.append(cents)
        return "paid"

    scene = Scene(
        {"cents": 100}, hooks_that(where), tools=[Tool(pay, requires_approval=True)], barrier=barrier
    )
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        question = await scene.question(env)
        assert arguments(question) == {"cents": 50}
        if first:
            await env.client.answer(question.id, True, user_id="ana")
        else:  # an edit that a hook changes is shown again
            await env.client.answer(question.id, {"approved": True, "edited": {"cents": 80}}, user_id="ana")
            question = await scene.question(env)
            assert arguments(question) == {"cents": 40}
            await env.client.answer(question.id, True, user_id="ana")
        await run.result()
    assert scene.paid == [50 if first else 40]


@BARRIERS
@pytest.mark.parametrize("gated", [True, False])
@in_asyncio
async def test_what_a_hook_changes_after_the_decision_is_decided_on_again(gated: bool, barrier: bool) -> None:
    def pay(cents: int) -> str:
        scene.paid.append(cents)
        return "paid"

    def policy(call: ToolCall) -> bool:
        return call.arguments["cents"] < 100

    scene = Scene(
        {"cents": 100},
        hooks_that("before_tool_execute"),
        tools=[Tool(pay, requires_approval=gated)],
        approvals=policy,
        barrier=barrier,
    )
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        for cents in (100, 50) if gated else (50,):
            question = await scene.question(env)
            assert arguments(question) == {"cents": cents}
            assert scene.paid == []
            await env.client.answer(question.id, True, user_id="ana")
        await run.result()
    assert scene.paid == [50]


@in_asyncio
async def test_what_a_hook_changes_after_the_decision_can_still_be_denied() -> None:
    def pay(cents: int) -> str:
        raise AssertionError

    scene = Scene(
        {"cents": 100},
        hooks_that("before_tool_execute"),
        tools=[Tool(pay)],
        approvals=lambda call: deny("too little") if call.arguments["cents"] < 100 else False,
    )
    async with environment(scene.app) as env:
        assert await env.run(scene.work) == [["pay", "too little", "denied"]]


# What policies see


class Refund(BaseModel):
    order_id: str
    cents: int = 20_000


@in_asyncio
async def test_a_policy_sees_defaults_that_only_a_schema_says() -> None:
    schema = {
        "type": "object",
        "properties": {"cents": {"type": "integer", "default": 20_000}, "to": {"$ref": "#/$defs/To"}},
        "$defs": {"To": {"type": "object", "properties": {"name": {"default": "bob"}}}},
    }

    async def pay(**given: Any) -> str:
        scene.paid.append(given)
        return "paid"

    tool = Tool.from_schema(pay, name="pay", description=None, json_schema=schema)
    seen: list[Any] = []

    def policy(call: ToolCall) -> bool:
        seen.append(call.arguments)
        return call.arguments.get("cents", 0) > 10_000

    scene = Scene({"to": {}}, tools=[tool], approvals=policy)
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        question = await scene.question(env)
        assert seen == [arguments(question)] == [{"to": {"name": "bob"}, "cents": 20_000}]
        await env.client.answer(question.id, True, user_id="ana")
        await run.result()


@in_asyncio
async def test_a_policy_that_changes_what_it_sees_changes_nothing() -> None:
    def pay(what: Refund) -> str:
        scene.paid.append(what)
        return "paid"

    def policy(call: ToolCall) -> bool:
        call.arguments["cents"] = 1  # pyright: ignore[reportIndexIssue]
        return True

    scene = Scene({"order_id": "o"}, tools=[Tool(pay)], approvals=policy)
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        question = await scene.question(env)
        assert arguments(question) == {"order_id": "o", "cents": 20_000}
        await env.client.answer(question.id, True, user_id="ana")
        await run.result()
    assert scene.paid == [Refund(order_id="o")]


@in_asyncio
async def test_a_standing_approval_is_for_what_was_shown() -> None:
    def pay(cents: Annotated[int, AfterValidator(lambda euros: euros * 100)] = 200) -> str:
        scene.paid.append(cents)
        return "paid"

    scene = Scene(
        {}, tools=[Tool(pay, requires_approval=True)], turns=[{"cents": 2}, {}, {"cents": 2}, {"cents": 3}]
    )
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        question = await scene.question(env)
        await env.client.answer(question.id, True, user_id="ana", alike=Alike(3600))
        question = await scene.question(env)
        assert arguments(question) == {"cents": 300}
        await env.client.answer(question.id, True, user_id="ana")
        await run.result()
    assert scene.paid == [200, 200, 200, 300]


# Large calls, and schemas from elsewhere


@BARRIERS
@pytest.mark.parametrize("edits", [False, True])
@in_asyncio
async def test_a_call_of_600_kb_is_asked_about_and_runs(barrier: bool, edits: bool) -> None:
    def pay(text: str, to: str = "bob") -> str:
        scene.paid.append((len(text), to))
        return "paid"

    text = "x" * 600_000
    scene = Scene({"text": text}, tools=[Tool(pay, requires_approval=True)], barrier=barrier)
    async with environment(scene.app) as env:
        env.crash(at=at_pause())
        run = await env.start(scene.work)
        question = await scene.question(env)
        assert arguments(question) == {"text": text, "to": "bob"}
        answer: Any = {"approved": True, "edited": {"text": text, "to": "eve"}} if edits else True
        await env.client.answer(question.id, answer, user_id="ana")
        await run.result()
    assert scene.paid == [(600_000, "eve" if edits else "bob")]


def deep(levels: int) -> dict[str, Any]:
    """A schema that is nested so deep."""
    return {"type": "object", "properties": {"to": deep(levels - 1)}} if levels else {"type": "string"}


STRANGE: list[Any] = [
    {"type": "object", "properties": {"to": {"type": "string", "pattern": "^\\p{L}+$"}}},
    {"type": "object", "properties": {"to": {"pattern": "(?<=a)b(?!c)[^]\\cA"}}},
    {"type": "object", "properties": {"to": {"pattern": "("}}},
    {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "id": "x",
        "type": "object",
        "properties": {"n": {"minimum": 0, "exclusiveMinimum": True}},
    },
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"to": {"$ref": "#/nowhere"}},
    },
    {"type": "object", "properties": {"to": {"$ref": "https://elsewhere.test/schema.json"}}},
    {"type": "object", "properties": {"to": {"type": "string", "nullable": True, "format": "nobody-knows"}}},
    {"type": "object", "properties": {"to": True, "n": False}},
    {"type": "object", "properties": {"to": {"type": "file"}}, "required": None},
    {"type": "object", "properties": {"to": {"enum": [str(n) for n in range(50_000)]}}},
    {"type": "object", "properties": {"to": {"items": [{"type": "string"}], "additionalItems": False}}},
    {"type": "object", "required": ["missing"]},
    {"type": "array"},
    {"type": "object", "properties": {"to": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"$ref": "#/$defs/A"}}},
    {"type": "object", "properties": {"n": deep(45)}},
    {"type": "object", "properties": {"n": deep(55)}},
    {"type": "object", "properties": {"n": deep(150)}},
]


@pytest.mark.parametrize("schema", STRANGE, ids=range(len(STRANGE)))
@pytest.mark.parametrize("kind", ["external", "tool"])
@in_asyncio
async def test_no_schema_fails_a_run(schema: Any, kind: str) -> None:
    async def pay(**given: Any) -> str:
        scene.paid.append(given)
        return "paid"

    definition = ToolDefinition(name="pay", parameters_json_schema=schema, return_schema=schema)
    tool = Tool.from_schema(pay, name="pay", description=None, json_schema=schema)
    tool.requires_approval = True
    scene = Scene(
        {"to": "bob"},
        tools=[tool] if kind == "tool" else [],
        toolsets=[ExternalToolset([definition])] if kind == "external" else [],
    )
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        question = await scene.question(env)
        if kind == "external":
            assert asked(question)["metadata"]["arguments"] == {"to": "bob"}
            await env.client.inbox.cancel(question.id, by="ana")
        else:
            assert arguments(question) == {"to": "bob"}
            await env.client.answer(question.id, True, user_id="ana")
        await run.result()
    assert scene.paid == ([{"to": "bob"}] if kind == "tool" else [])
