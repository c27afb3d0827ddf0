"""Real clients: a provider that speaks OpenAI's protocol and an MCP server, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Any

import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.exceptions import ModelAuthenticationError, ModelHTTPError
from pydantic_ai.messages import AgentStreamEvent, PartDeltaEvent, TextPartDelta
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from starlette.responses import JSONResponse

from signoff import Context, Signoff
from signoff.agents import Durable
from signoff.testing import MemoryStore, after_step, environment
from tests.agents.mcp_server import desk
from tests.agents.openai_server import Provider, provider, served
from tests.agents.recorded_steps import steps_of
from tests.agents.scripts import Script, calls, returns, says
from tests.support import in_asyncio


def model_of(llm: Provider) -> OpenAIChatModel:
    return OpenAIChatModel("scripted", provider=OpenAIProvider(openai_client=llm.client))


@in_asyncio
async def test_a_real_provider_gets_one_request_per_response_and_useful_retries() -> None:
    refund = [("refund", {"cents": 700})]
    async with provider(429, refund, 503, "all done") as llm:
        app, paid = Signoff(MemoryStore()), list[int]()
        agent = Agent(model_of(llm), name="support", capabilities=[Durable()])

        @agent.tool_plain(name="refund", requires_approval=True)
        async def pay(cents: int) -> str:
            paid.append(cents)
            return "refunded"

        @app.workflow
        async def work(ctx: Context) -> list[Any]:
            result = await agent.run("Pay it back")
            return [result.output, result.usage.input_tokens, result.usage.requests]

        async with environment(app, hot_runs=0) as env:
            env.people.answer(
                "support wants to call refund", {"approved": True, "edited": {"cents": 650}}, after=86_400
            )
            assert await env.run(work) == ["all done", 10, 2]
        assert paid == [650]
        assert len(llm.requests) == 4
        last = llm.requests[-1]["messages"]
        assert [each["role"] for each in last[:3]] == ["user", "assistant", "tool"]
        assert "refunded" in str(last)
        assert "650" in str(last)


@in_asyncio
async def test_a_provider_that_says_when_to_ask_again_is_asked_no_sooner() -> None:
    busy = JSONResponse({"error": {"message": "busy"}}, 429, {"retry-after": "7200"})
    async with provider(busy, "hello") as llm:
        app = Signoff(MemoryStore())
        agent = Agent(model_of(llm), name="support", capabilities=[Durable()])

        @app.workflow
        async def work(ctx: Context) -> list[Any]:
            began = ctx.now()
            output = (await agent.run("Hello")).output
            return [output, (ctx.now() - began).total_seconds()]

        async with environment(app, hot_runs=0) as env:
            output, waited = await env.run(work)
        assert output == "hello"
        assert 7200 <= waited < 7260
        assert len(llm.requests) == 2


@in_asyncio
async def test_what_a_provider_refuses_for_good_is_not_asked_again() -> None:
    async with provider(401) as llm:
        app = Signoff(MemoryStore())
        agent = Agent(model_of(llm), name="support", capabilities=[Durable()])

        @app.workflow
        async def work(ctx: Context) -> int:
            with pytest.raises(ModelHTTPError) as refused:
                await agent.run("Hello")
            assert isinstance(refused.value, ModelAuthenticationError)
            return refused.value.status_code

        async with environment(app) as env:
            assert await env.run(work) == 401
        assert len(llm.requests) == 1


@in_asyncio
async def test_tokens_are_streamed_live_and_only_the_whole_response_is_journaled() -> None:
    async with provider("one two three") as llm:
        app, heard = Signoff(MemoryStore()), list[str]()

        async def listen(ctx: RunContext[Any], events: AsyncIterable[AgentStreamEvent]) -> None:
            async for event in events:
                if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                    heard.append(event.delta.content_delta)

        agent = Agent(model_of(llm), name="support", capabilities=[Durable(event_stream_handler=listen)])

        @app.workflow
        async def work(ctx: Context) -> str:
            output = (await agent.run("Count")).output
            await ctx.wait_for_user("Go on?")
            return output

        async with environment(app, hot_runs=0) as env:
            env.people.answer("Go on?", approved=True)
            assert await env.run(work, id="r") == "one two three"
            assert [name for name in await steps_of(env, "r") if "model" in name] == ["support:model_stream"]
        assert "".join(heard) in ("one two three", " two three")
        assert len(llm.requests) == 1


@in_asyncio
async def test_mcp_calls_are_steps_and_none_that_has_finished_is_made_again() -> None:
    app, trace = Signoff(MemoryStore()), list[str]()
    script = Script(calls(("look_up", {"order": "o-1"}), ("cancel", {"order": "o-1"})), says("done"))

    async with served(desk(trace)) as url:
        # It takes a second to load, also where this test is only collected.
        from pydantic_ai.mcp import MCPToolset

        toolset = MCPToolset[None](f"{url}/mcp", id="desk", init_timeout=60)
        agent = Agent(
            script.model, name="a", toolsets=[toolset], capabilities=[Durable[None](approvals=["cancel"])]
        )

        @app.workflow
        async def work(ctx: Context) -> list[Any]:
            return returns((await agent.run("go")).all_messages())

        async with environment(app, hot_runs=0) as env:
            env.crash(at=after_step("a.cancel"))
            env.people.answer("a wants to call cancel", approved=True, after=3600)
            env.people.answer("Step 'a.cancel'*", {"action": "done", "result": "cancelled, says the shop"})
            assert await env.run(work, id="r") == [
                ["look_up", "o-1 is late", "success"],
                ["cancel", "cancelled, says the shop", "success"],
            ]
            assert "a:tools:desk" in await steps_of(env, "r")
    assert trace == ["look_up o-1", "cancel o-1"]
