"""The shown, the approved and the executed arguments of a tool call are the same, whatever they are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic_ai import Agent, RunContext, Tool
from pydantic_ai.toolsets import DynamicToolset, FunctionToolset

from signoff import Context, Signoff
from signoff.agents import Durable, pause
from signoff.testing import MemoryStore, after_step, at_pause, environment
from signoff.testing.environment import Environment
from tests.agents.scripts import Script, asked, calls, returns, says
from tests.agents.shapes import SHAPES, Shape
from tests.halves import sample
from tests.support import in_asyncio

EACH = pytest.mark.parametrize("name", sample(SHAPES, every=20))
"""Of one outcome, approval, ``make test`` tries all shapes."""


class Scene:
    """An agent with one tool of a shape, whose calls are kept."""

    def __init__(
        self,
        shape: Shape,
        *,
        as_text: bool = False,
        is_gated: bool = True,
        pauses: bool = False,
        is_dynamic: bool = False,
        **options: Any,
    ) -> None:
        self.got: list[Any] = []
        self.app = Signoff(MemoryStore())
        sent: Any = json.dumps(shape.sent) if as_text else shape.sent
        self.script = Script(calls(("pay", sent)), says("done"))

        def got(value: Any) -> None:
            if not pauses or pause("approval_required").value["approved"]:
                self.got.append(value)

        def tools(ctx: RunContext[Any] | None = None) -> FunctionToolset[Any]:
            tool = Tool(shape.tool(got), takes_ctx=takes_context(shape, got), requires_approval=is_gated)
            return FunctionToolset([tool], id="tools")

        agent = Agent(
            self.script.model,
            name="a",
            deps_type=Any,
            toolsets=[DynamicToolset(tools, id="dynamic") if is_dynamic else tools()],
            capabilities=[Durable(**options)],
        )

        @self.app.workflow
        async def work(ctx: Context) -> list[Any]:
            return returns((await agent.run("go")).all_messages())

        self.work = work

    async def question(self, env: Environment) -> Any:
        await env.idle()
        (question,) = (await env.client.questions()).items
        return question


def takes_context(shape: Shape, got: Any) -> bool:
    return "ctx" in shape.tool(got).__annotations__


PAID = [["pay", "paid", "success"]]
SEEN = [name for name, shape in SHAPES.items() if not shape.is_unseen]


def shown_of(shape: Shape) -> dict[str, Any]:
    return shape.sent if shape.shown is None else shape.shown


@EACH
@in_asyncio
async def test_without_approval_the_tool_gets_what_was_sent(name: str) -> None:
    shape = SHAPES[name]
    seen: list[Any] = []

    def policy(call: Any) -> bool:
        seen.append((call.arguments, bool(call.unseen)))
        return False

    scene = Scene(shape, is_gated=False, approvals=policy)
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        if shape.is_unseen:
            await env.client.answer((await scene.question(env)).id, True, user_id="ana")
        assert await run.result() == PAID
    assert scene.got == [shape.gets]
    assert seen == [(shown_of(shape), shape.is_unseen)]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(
    "way",
    sample([set[str](), {"barrier"}, {"crash", "text"}, {"barrier", "crash"}, {"dynamic", "crash"}]),
    ids=lambda way: "-".join(sorted(way)),
)
@in_asyncio
async def test_what_is_approved_is_what_was_shown_and_what_runs(name: str, way: set[str]) -> None:
    shape = SHAPES[name]
    scene = Scene(shape, as_text="text" in way, is_dynamic="dynamic" in way, barrier="barrier" in way)
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        question = await scene.question(env)
        shown = asked(question)
        assert shown["action"]["arguments"] == shown["proposal"] == shown_of(shape)
        if "crash" in way:
            env.crash(at=after_step("a.pay:changed"))
        await env.client.answer(question.id, True, user_id="ana", digest=shown["digest"])
        assert await run.result() == PAID
        assert env.pending_crashes == []
    assert scene.got == [shape.gets]


@pytest.mark.parametrize(
    "name", sample((name for name, shape in SHAPES.items() if shape.edit is not None), every=20)
)
@pytest.mark.parametrize(
    "way",
    [set[str](), {"barrier"}, {"crash", "text"}, {"dynamic"}],
    ids=lambda way: "-".join(sorted(way)),
)
@in_asyncio
async def test_an_edit_is_validated_once_and_runs(name: str, way: set[str]) -> None:
    shape = SHAPES[name]
    scene = Scene(shape, as_text="text" in way, is_dynamic="dynamic" in way, barrier="barrier" in way)
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        question = await scene.question(env)
        if "crash" in way:
            env.crash(at=after_step("a.pay:changed"))
        await env.client.answer(question.id, {"approved": True, "edited": shape.edit}, user_id="ana")
        await run.result()
        assert env.pending_crashes == []
    assert scene.got == [shape.gets_then]


@EACH
@in_asyncio
async def test_what_is_denied_does_not_run(name: str) -> None:
    scene = Scene(SHAPES[name])
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        await env.client.answer((await scene.question(env)).id, False, user_id="ana", note="no")
        assert await run.result() == [["pay", "no", "denied"]]
    assert scene.got == []


@EACH
@in_asyncio
async def test_a_tool_that_pauses_shows_what_it_goes_on_with(name: str) -> None:
    shape = SHAPES[name]
    scene = Scene(shape, is_gated=False, pauses=True)
    async with environment(scene.app) as env:
        env.crash(at=at_pause())
        run = await env.start(scene.work)
        question = await scene.question(env)
        assert asked(question)["action"]["arguments"] == shown_of(shape)
        await env.client.answer(question.id, True, user_id="ana")
        assert await run.result() == PAID
    assert scene.got == [shape.gets]
