"""Long histories are compacted by Pydantic AI's means: the model gets less, and no work is repeated for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.capabilities import AbstractCapability, ProcessHistory
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.models.function import AgentInfo, FunctionModel

from signoff import Context, Signoff
from signoff.agents import Approve, Conversation, Durable, Finished, Paused
from signoff.testing import MemoryStore, crash_everywhere
from signoff.testing.environment import Environment
from tests.agents.chats import ObedientModel, texts_of
from tests.agents.recorded_steps import steps_of
from tests.agents.scripts import calls, returns, says
from tests.halves import sample
from tests.support import in_asyncio, new_app, running


def latest(messages: list[ModelMessage]) -> list[ModelMessage]:
    """Of each history the last question of the user and what came after it."""
    asked = [
        place
        for place, message in enumerate(messages)
        if isinstance(message, ModelRequest)
        and any(isinstance(part, UserPromptPart) for part in message.parts)
    ]
    return messages[asked[-1] :]


async def latest_later(messages: list[ModelMessage]) -> list[ModelMessage]:
    return latest(messages)


def latest_here(ctx: RunContext[Any], messages: list[ModelMessage]) -> list[ModelMessage]:
    assert ctx.run_id
    return latest(messages)


@pytest.mark.parametrize("processor", [latest, latest_later, latest_here])
@pytest.mark.parametrize("hot_runs", [100, 0])
@in_asyncio
async def test_the_model_gets_a_compacted_history_and_the_session_keeps_it_whole(
    tmp_path: Path, processor: Any, hot_runs: int
) -> None:
    app, model, removed = new_app(tmp_path), ObedientModel(["rm"]), list[str]()
    agent = Agent(
        FunctionModel(model), name="support", capabilities=[Durable[None](), ProcessHistory(processor)]
    )

    @agent.tool_plain(requires_approval=True)
    def rm(path: str) -> str:
        removed.append(path)
        return f"removed {path}"

    app.register(agent)
    async with running(app, hot_runs=hot_runs):
        chat: Conversation = app.conversation("support", session_id="c")
        assert isinstance(await chat.run("one"), Finished)
        turn = await chat.run("rm a")
        assert isinstance(turn, Paused)
        turn = await chat.respond(turn.pending[0].id, Approve())
        assert isinstance(turn, Finished)
        assert isinstance(await chat.run("three"), Finished)
        history = texts_of(await chat.messages())
    assert model.seen == [["one"], ["rm a"], ["rm a"], ["three"]]
    assert history == ["one", "heard one", "rm a", "did: removed a", "three", "heard three"]
    assert removed == ["a"]


class CompactingModel(FunctionModel):
    """A model whose provider compacts messages, which ``done`` notes."""

    def __init__(self, done: list[str]) -> None:
        def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            if texts_of(messages) == ["begin"] and not returns(messages):
                return calls(("look", {}))
            return says(str(texts_of(messages)))

        super().__init__(respond, model_name="compacting")
        self._done = done

    async def compact_messages(
        self, request_context: ModelRequestContext, *, instructions: str | None = None
    ) -> ModelResponse:
        self._done.append("compact")
        return ModelResponse([TextPart("in short")])


def is_new_and_long(messages: list[ModelMessage]) -> bool:
    """Whether a user has just said something, and much was said before: no call is parted from what it returned."""
    return len(messages) > 2 and any(isinstance(part, UserPromptPart) for part in messages[-1].parts)


class Compacts(AbstractCapability[None]):
    """Compacts all but the last message."""

    async def before_model_request(
        self, ctx: RunContext[None], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        *before, last = request_context.messages
        if is_new_and_long(request_context.messages):
            asked = ModelRequestContext(
                model=request_context.model,
                messages=before,
                model_settings=request_context.model_settings,
                model_request_parameters=request_context.model_request_parameters,
            )
            short = await request_context.model.compact_messages(asked)
            request_context.messages = ctx.messages[:] = [short, last]
        return request_context


async def summarised(messages: list[ModelMessage]) -> list[ModelMessage]:
    """Have another durable agent say what was said before."""
    *before, last = messages
    if not is_new_and_long(messages):
        return messages
    summary = (await SUMMARISERS[-1].run(f"In short: {texts_of(before)}")).output
    return [ModelResponse([TextPart(summary)]), last]


SUMMARISERS: list[Agent[None, str]] = []


@pytest.mark.parametrize("by", sample(["the provider", "another agent"]))
@in_asyncio
async def test_a_compaction_request_is_a_step_and_is_never_repeated(
    by: str,
) -> None:
    app = Signoff(MemoryStore())
    scenes: list[Agent[None, str]] = []

    @app.workflow
    async def work(ctx: Context, scene: int) -> str:
        first = await scenes[scene].run("begin")
        await ctx.wait_for_user("Go on?")
        return (await scenes[scene].run("go on", message_history=first.all_messages())).output

    async def scenario(env: Environment) -> Any:
        done: list[str] = []

        def shorten(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            done.append("compact")
            return says("in short")

        compacts: AbstractCapability[None] = (
            Compacts() if by == "the provider" else ProcessHistory[None](summarised)
        )
        agent = Agent(CompactingModel(done), name="a", capabilities=[Durable[None](), compacts])
        SUMMARISERS.append(Agent(FunctionModel(shorten), name="short", capabilities=[Durable[None]()]))

        @agent.tool_plain
        def look() -> str:
            return "seen"

        scenes.append(agent)
        env.people.answer("Go on?", approved=True)
        result = await env.run(work, len(scenes) - 1, id="r")
        steps = await steps_of(env, "r")
        compacting = [name for name in steps if name in ("a:compact", "short:model")]
        assert len(compacting) == 1
        assert len(done) <= len(compacting) + 1  # what the crash has cut off is asked for again
        return result, steps

    assert await crash_everywhere(app, scenario) > 10
