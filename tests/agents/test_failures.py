"""Failures between an agent and its model: only the failed request is repeated, over real HTTP."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pydantic_ai.models
import pytest
from pydantic_ai import Agent
from pydantic_ai.exceptions import ContentFilterError, ModelAPIError, UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from signoff import Context, RetryPolicy, Signoff
from signoff.agents import Durable
from signoff.agents.steps.truncated_responses import SAYING_WHY, SILENT
from signoff.records import EntryKind
from signoff.testing import MemoryStore, environment
from tests.agents.histories import check
from tests.agents.openai_server import Cut, Provider, Reply, provider
from tests.agents.recorded_steps import steps_of
from tests.agents.scripts import Script, returns
from tests.support import in_asyncio

LOOK = [("look", {"order": "o-1"})]


class Desk:
    """An agent of a real client, in a workflow that asks at its end: what it did is replayed after that.

    Attributes:
        looked: The orders that its tool was called with.
    """

    def __init__(self, llm: Provider, *, stream: bool = False, **profile: Any) -> None:
        self.app = Signoff(MemoryStore())
        self.looked: list[str] = []
        model = OpenAIChatModel(
            "scripted",
            provider=OpenAIProvider(openai_client=llm.client),
            profile=OpenAIModelProfile(**profile),
        )
        self.agent = Agent(model, name="desk", capabilities=[Durable(stream=stream)])
        self.agent.tool_plain(self.look)

        @self.app.workflow
        async def work(ctx: Context) -> list[Any]:
            result = await self.agent.run("Where is o-1?")
            await ctx.wait_for_user("Go on?")
            messages = result.all_messages()
            dumped = ModelMessagesTypeAdapter.dump_python(messages, mode="json")
            return [result.output, returns(messages), dumped]

        self.work = work

    async def look(self, order: str) -> str:
        self.looked.append(order)
        return f"{order} is late"

    async def serve(self) -> tuple[str, list[list[Any]], list[str], list[str | None]]:
        """Run it; returns what was said, what tools returned, its steps, and the errors of attempts at requests."""
        async with environment(self.app, hot_runs=0) as env:
            env.people.answer("Go on?", approved=True)
            output, returned, dumped = await env.run(self.work, id="r")
            history = ModelMessagesTypeAdapter.validate_python(dumped)
            check(history)
            journal = await env.client.backend.read_journal("r")
            failed = [each.error for each in journal if each.kind is EntryKind.ATTEMPT_FAILED]
            return output, returned, await steps_of(env, "r"), failed


def ill(text: str) -> Response:
    return Response(text, media_type="application/json")


async def garbled() -> Any:
    yield 'data: {"id": "chatcmpl-1", "choi\n\n'


FAILURES: dict[str, tuple[bool, Callable[[], Reply]]] = {
    "500": (False, lambda: 500),
    "500 of a stream": (True, lambda: 500),
    "a body cut off by a lost connection": (False, lambda: Cut("o-1 is here", 40, dropped=True)),
    "a body cut off in good order": (False, lambda: Cut("o-1 is here", 40)),
    "a body of nothing": (False, lambda: Cut("o-1 is here", 0)),
    "a stream cut off by a lost connection": (True, lambda: Cut("o-1 is here", 3, dropped=True)),
    "a stream cut off in good order": (True, lambda: Cut("o-1 is here", 3)),
    "a stream cut off behind a whole call": (True, lambda: Cut([("look", {"order": "o-2"})], 2)),
    "a stream of nothing": (True, lambda: Cut("o-1 is here", 0)),
    "a body that is no JSON": (False, lambda: ill('{"id": "chatcmpl-1", "choices"')),
    "a body of words": (False, lambda: PlainTextResponse("upstream is gone")),
    "a body that is no completion": (False, lambda: JSONResponse({"surprise": True})),
    "a stream that is no JSON": (True, lambda: StreamingResponse(garbled(), media_type="text/event-stream")),
}


@in_asyncio
@pytest.mark.parametrize("name", FAILURES)
async def test_a_request_that_failed_is_made_again_and_no_other(name: str) -> None:
    stream, failure = FAILURES[name]
    async with provider(failure(), LOOK, failure(), failure(), "o-1 is late") as llm:
        desk = Desk(llm, stream=stream)
        output, returned, steps, failed = await desk.serve()
        request = "desk:model_stream" if stream else "desk:model"
        assert (output, returned) == ("o-1 is late", [["look", "o-1 is late", "success"]])
        assert [each for each in steps if each.startswith(("desk:model", "desk."))] == [
            request,
            "desk.look",
            request,
        ]
        assert len(failed) == 3
        assert desk.looked == ["o-1"]
        roles = [[message["role"] for message in each["messages"]] for each in llm.requests]
        assert roles == [["user"]] * 2 + [["user", "assistant", "tool"]] * 3


@in_asyncio
@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_without_a_response_is_made_again(stream: bool) -> None:
    async with provider(None, *["o-1 is here"] * 6) as llm:
        llm.client = llm.client.with_options(timeout=0.5)
        output, _, steps, failed = await Desk(llm, stream=stream).serve()
        assert output == "o-1 is here"
        assert len([each for each in steps if each.startswith("desk")]) == 1
        assert (
            len(failed) == len(llm.requests) - 1 >= 1
        )  # on a machine that stands still, more than the first


@in_asyncio
async def test_answers_that_are_cut_off_again_and_again_fail_as_the_provider_has() -> None:
    async with provider(*[Cut("o-1 is here", 3)] * 2) as llm:
        desk = Desk(llm, stream=True)
        app = Signoff(MemoryStore())
        twice = Durable(stream=True, retry=RetryPolicy(max_attempts=2))
        agent = Agent(desk.agent.model, name="desk", capabilities=[twice])

        @app.workflow
        async def work(ctx: Context) -> str:
            with pytest.raises(ModelAPIError, match="cut off.*openai_chat_streaming_requires_finish_reason"):
                await agent.run("Where is o-1?")
            return "told"

        async with environment(app) as env:
            assert await env.run(work) == "told"


@in_asyncio
async def test_a_provider_without_finish_reasons_is_trusted_by_its_profile() -> None:
    async with provider(Cut("o-1 is here", 4)) as llm:
        desk = Desk(llm, stream=True, openai_chat_streaming_requires_finish_reason=False)
        assert (await desk.serve())[0] == "o-1 is here"


@in_asyncio
@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_ended_at_its_limit_is_an_answer(stream: bool) -> None:
    async with provider(Cut("o-1 is", 10_000, finished="length")) as llm:
        assert (await Desk(llm, stream=stream).serve())[0] == "o-1 is"
        assert len(llm.requests) == 1


@in_asyncio
async def test_models_without_a_provider_are_streamed_as_ever() -> None:
    async def speak(messages: Any, info: Any) -> Any:
        yield "all "
        yield "done"

    app = Signoff(MemoryStore())
    models = {
        "function": FunctionModel(stream_function=speak),
        "test": TestModel(custom_output_text="all done"),
    }

    @app.workflow
    async def work(ctx: Context, name: str) -> str:
        return (await agents[name].run("go")).output

    agents = {
        name: Agent(model, name=name, capabilities=[Durable(stream=True)]) for name, model in models.items()
    }
    async with environment(app) as env:
        assert [await env.run(work, name) for name in models] == ["all done", "all done"]


@in_asyncio
async def test_what_a_model_declines_is_not_asked_again() -> None:
    script = Script(ContentFilterError("no"))
    app, agent = Signoff(MemoryStore()), Agent(script.model, name="a", capabilities=[Durable()])

    @app.workflow
    async def work(ctx: Context) -> str:
        with pytest.raises(UnexpectedModelBehavior, match="no"):
            await agent.run("go")
        return "told"

    async with environment(app) as env:
        assert await env.run(work) == "told"
    assert len(script.asked) == 1


@in_asyncio
async def test_outside_workflows_an_answer_is_what_pydantic_ai_takes_for_one() -> None:
    async with provider(Cut("o-1 is here", 3)) as llm:
        desk = Desk(llm, stream=True)
        async with desk.agent.run_stream("Where is o-1?") as result:
            assert await result.get_output() == "o-1 is"


@pytest.mark.parametrize("name", [*SAYING_WHY, *SILENT])
def test_streams_are_known_by_the_names_that_pydantic_ai_gives_them(name: str) -> None:
    models = Path(pydantic_ai.models.__file__).parent
    if name == "CohereStreamedResponse" and "def request_stream" not in (models / "cohere.py").read_text():
        pytest.skip("before 2.66, Pydantic AI streams nothing from Cohere")
    named = {**SAYING_WHY, **SILENT}[name]
    found = models / named
    if not found.exists():  # one module, in older versions of Pydantic AI
        found = models / f"{Path(named).parts[0]}.py"
    assert re.search(rf"^class {name}\b", found.read_text(), re.MULTILINE)
