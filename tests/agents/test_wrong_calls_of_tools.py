"""A tool that calls one of Signoff's functions wrongly fails its turn at once, and the error names the argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from signoff import Context, Signoff
from signoff.agents import Durable, ask_user, pause
from signoff.testing import MemoryStore, environment
from tests.support import in_asyncio


async def asks_by_pause() -> Any:
    return cast(Any, pause)("approval", assignee="user:ana")


async def asks_by_ask_user() -> Any:
    return await cast(Any, ask_user)("Which?", fields=[], assignee="user:ana")


@pytest.mark.parametrize("body", [asks_by_pause, asks_by_ask_user])
@in_asyncio
async def test_it_is_tried_once(body: Callable[[], Any]) -> None:
    called: list[int] = []
    agent = Agent(TestModel(), name="desk", capabilities=[Durable()])

    @agent.tool_plain
    async def asks() -> Any:
        called.append(1)
        return await body()

    app = Signoff(MemoryStore())

    @app.workflow
    async def work(ctx: Context) -> Any:
        return (await agent.run("go")).output

    async with environment(app) as env:
        run = await env.start(work)
        await env.idle()
        with pytest.raises(TypeError, match="unexpected keyword argument 'assignee'"):
            await run.result()
    assert called == [1]
