"""A split turn behaves like a whole one: its code's view, its questions, its stored data."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, ModelRetry, RunContext, ToolDefinition
from pydantic_ai.agent import WrapperAgent
from pydantic_ai.capabilities import AbstractCapability, SelectModel
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolCallPart, UserPromptPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import DeferredToolResults
from pydantic_ai.toolsets import FunctionToolset

from signoff import Context, current_context
from signoff.agents import Approve, Durable, Finished, Paused, in_workflow
from signoff.agents.conversations.generations import RESPONSES
from tests.agents.scripts import Script, calls, returns, says
from tests.agents.walks import CALLS, Walk, generations
from tests.support import in_asyncio, new_app, running

Prepare = Callable[[RunContext[Any], ToolDefinition], Any]


def has_called(ctx: RunContext[Any], tool: str) -> bool:
    return any(
        part.tool_name == tool
        for message in ctx.messages
        for part in message.parts
        if isinstance(part, ToolCallPart)
    )


# What tools are made of


async def first_call_needs_approval(ctx: RunContext[Any], tool: ToolDefinition) -> ToolDefinition:
    return tool if has_called(ctx, "send") else replace(tool, kind="unapproved")


async def only_once(ctx: RunContext[Any], tool: ToolDefinition) -> ToolDefinition | None:
    return None if has_called(ctx, "send") else tool


async def while_requests_are_left(ctx: RunContext[Any], tool: ToolDefinition) -> ToolDefinition | None:
    return tool if ctx.usage.requests < RESPONSES + 1 else None


async def after_a_failure(ctx: RunContext[Any], tool: ToolDefinition) -> ToolDefinition | None:
    return tool if ctx.retries.get("try") else None


@pytest.mark.parametrize(
    ("prepare", "asks"),
    [
        (first_call_needs_approval, True),
        (only_once, False),
        (while_requests_are_left, False),
        (after_a_failure, False),
    ],
)
@pytest.mark.parametrize("looks", range(RESPONSES - 2, RESPONSES + 1))
@in_asyncio
async def test_a_tool_is_what_it_was_when_it_was_called(
    tmp_path: Path, prepare: Prepare, asks: bool, looks: int
) -> None:
    app, sent = new_app(tmp_path), list[str]()
    steps = [calls(("look", {})) for _ in range(looks - 1)]
    script = Script(*steps, calls(("try", {})), calls(("send", {})), says("done"))
    agent = Agent(script.model, name="a", capabilities=[Durable()])

    @agent.tool_plain
    def look() -> str:  # pyright: ignore[reportUnusedFunction]
        return "seen"

    @agent.tool_plain(name="try", retries=2)
    def attempt() -> str:  # pyright: ignore[reportUnusedFunction]
        raise ModelRetry("not now")

    @agent.tool_plain(prepare=prepare)
    def send() -> str:  # pyright: ignore[reportUnusedFunction]
        sent.append("sent")
        return "sent"

    app.register(agent)
    async with running(app):
        chat = app.conversation("a", session_id="c")
        turn = await chat.run("go", id="r")
        if asks:
            assert isinstance(turn, Paused)
            assert sent == []
            turn = await chat.respond(turn.pending[0].id, Approve())
        assert isinstance(turn, Finished)
    assert sent == ["sent"]
    assert returns(turn.messages)[-1] == ("send", "sent", "success")


@in_asyncio
async def test_a_model_is_chosen_by_what_is_asked_and_by_how_often(tmp_path: Path) -> None:
    app, seen = new_app(tmp_path), set[tuple[int, Any]]()
    script = Script(*[calls(("look", {})) for _ in range(RESPONSES + 2)], says("done"))

    def choose(ctx: Any) -> Any:
        seen.add((ctx.run_step, ctx.prompt))
        return script.model

    agent = Agent(
        script.model, name="a", capabilities=[Durable(models={"m": script.model}), SelectModel(choose)]
    )

    @agent.tool_plain
    def look() -> str:  # pyright: ignore[reportUnusedFunction]
        return "seen"

    app.register(agent)
    async with running(app) as client:
        assert isinstance(await app.conversation("a", session_id="c").run("go", id="r"), Finished)
        assert await generations(client, "r") == 2
    assert seen == {(number, "go") for number in range(1, RESPONSES + 4)}


# Where a turn is not split: more is known than its messages


@dataclass
class ByPrompt(AbstractCapability[Any]):
    """Gives tools to one prompt only, which it looks at when a run begins."""

    topic: object = None

    async def for_run(self, ctx: RunContext[Any]) -> ByPrompt:
        return replace(self, topic=ctx.prompt)

    async def prepare_tools(
        self, ctx: RunContext[Any], tool_defs: list[ToolDefinition]
    ) -> list[ToolDefinition]:
        return [each for each in tool_defs if self.topic == "go"]


audited: list[int] = []


@dataclass
class Audit(AbstractCapability[Any]):
    """Has something done beside each request, and does not wait for it."""

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        async def audit(context: Context, number: int) -> None:
            await context.step("audit", lambda: audited.append(number))

        await current_context().lfi(audit, ctx.run_step)
        return request_context


class Tenant(WrapperAgent[Any, Any]):
    """An agent that runs in its own way."""

    async def run(self, *args: Any, **options: Any) -> Any:
        return await super().run(*args, **{**options, "deps": {**options["deps"], "tenant": "own"}})


@pytest.mark.parametrize("more", [ByPrompt(), Audit()], ids=["state of a run", "code of somebody"])
@in_asyncio
async def test_a_turn_whose_agent_has_capabilities_of_its_own_is_not_split(
    tmp_path: Path, more: AbstractCapability[Any]
) -> None:
    audited.clear()
    app = new_app(tmp_path)
    walk = Walk(app, more=[more])
    async with running(app, hot_runs=0) as client:
        chat = app.conversation("walker", session_id="c")
        paused = await chat.run("go", id="r")
        assert isinstance(paused, Paused)
        assert isinstance(await chat.respond(paused.pending[0].id, Approve()), Finished)
        assert await generations(client, "r") == 1
    assert (walk.walked, walk.sent) == (list(range(CALLS)), 1)
    assert isinstance(more, ByPrompt) or sorted(audited) == list(range(1, CALLS + 3))


@in_asyncio
async def test_an_agent_that_runs_in_its_own_way_does_so_in_a_conversation(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    walk = Walk(app, steps=2, wrapped=Tenant)
    walk.send_at = 99
    async with running(app):
        assert isinstance(
            await app.conversation("walker", session_id="c").run("go", context={"tenant": "given"}), Finished
        )
    assert [context for context, *_ in walk.contexts] == 2 * [{"tenant": "own"}]


@in_asyncio
async def test_a_capability_may_answer_instead_of_the_model(tmp_path: Path) -> None:
    @dataclass
    class Cached(AbstractCapability[Any]):
        async def wrap_run(self, ctx: RunContext[Any], *, handler: Any) -> AgentRunResult[Any]:
            return AgentRunResult(output="cached")

    app, script = new_app(tmp_path), Script()
    agent = Agent(script.model, name="a", capabilities=[Durable(), Cached()])

    @agent.system_prompt
    def begin() -> str:  # pyright: ignore[reportUnusedFunction]
        return "begin"

    app.register(agent)
    async with running(app):
        turn = await app.conversation("a", session_id="c").run("go")
    assert isinstance(turn, Finished)
    assert turn.output == "cached"


@pytest.mark.parametrize("name", ["think", "p_think"])
@in_asyncio
async def test_a_tool_of_workflow_code_keeps_its_variables_whatever_its_name(
    tmp_path: Path, name: str
) -> None:
    app = new_app(tmp_path)
    script = Script(*[calls((name, {})) for _ in range(RESPONSES + 1)], says("done"))
    toolset = FunctionToolset[Any](id="own")

    @toolset.tool_plain
    @in_workflow
    async def think() -> str:  # pyright: ignore[reportUnusedFunction]
        return "thought"

    given = toolset if name == "think" else toolset.prefixed("p")
    app.register(Agent(script.model, name="a", toolsets=[given], capabilities=[Durable()]))
    async with running(app) as client:
        assert isinstance(await app.conversation("a", session_id="c").run("go", id="r"), Finished)
        assert await generations(client, "r") == 1


def put_a_set(context: dict[str, Any]) -> None:
    context.setdefault("seen", set()).add(1)


def put_a_tuple(context: dict[str, Any]) -> None:
    context["seen"] = (*context.get("seen", ()), 1)


def put_a_number(context: dict[str, Any]) -> None:
    context.setdefault("seen", {}).setdefault(1, 1)


@pytest.mark.parametrize("put", [put_a_set, put_a_tuple, put_a_number])
@in_asyncio
async def test_a_context_that_would_change_in_storage_keeps_a_turn_whole(
    tmp_path: Path, put: Callable[[dict[str, Any]], None]
) -> None:
    app = new_app(tmp_path)
    walk = Walk(app)

    @walk.agent.instructions
    def keep(ctx: RunContext[Any]) -> str:  # pyright: ignore[reportUnusedFunction]
        put(ctx.deps)
        return ""

    async with running(app) as client:
        chat = app.conversation("walker", session_id="c")
        paused = await chat.run("go", id="r", context={})
        assert isinstance(paused, Paused)
        assert isinstance(await chat.respond(paused.pending[0].id, Approve()), Finished)
        assert await generations(client, "r") == 1


@in_asyncio
async def test_a_prompt_is_stored_once_and_a_context_may_be_as_large_beside_it(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    walk = Walk(app)
    walk.send_at = 1
    prompt, tenant = "go" + "x" * 600_000, "y" * 600_000
    async with running(app) as client:
        chat = app.conversation("walker", session_id="c")
        paused = await chat.run(prompt, context={"tenant": "t"}, id="r")
        assert isinstance(paused, Paused)
        turn = await chat.resume(paused.resume_token, "approved", context={"tenant": tenant})
        assert isinstance(turn, Finished)
        assert await generations(client, "r") > 2
        journal = await client.backend.read_journal("r")
    assert walk.contexts[-1] == ({"tenant": tenant}, CALLS + 1, "r", prompt)
    assert not any(prompt in (entry.value or "") for entry in journal if entry.kind == "continued")


# Histories that end in calls


@pytest.mark.parametrize("external", [True, False])
@in_asyncio
async def test_results_of_calls_that_a_given_history_ends_in_are_taken(
    tmp_path: Path, external: bool
) -> None:
    app = new_app(tmp_path)
    script = Script(says("done"))
    agent = Agent(script.model, name="a", capabilities=[Durable()])

    @agent.tool_plain
    def look() -> str:  # pyright: ignore[reportUnusedFunction]
        return "seen"

    @app.workflow
    async def work(ctx: Context) -> list[Any]:
        history: list[ModelMessage] = [ModelRequest([UserPromptPart("go")]), calls(("look", {}, "id-1"))]
        results = (
            DeferredToolResults(calls={"id-1": "given"})
            if external
            else DeferredToolResults(approvals={"id-1": True})
        )
        ended = await agent.run(message_history=history, deferred_tool_results=results)
        return returns(ended.all_messages())

    async with running(app) as client, asyncio.timeout(30):
        returned = await (await client.start(work)).result()
    assert returned == [["look", "given" if external else "seen", "success"]]
