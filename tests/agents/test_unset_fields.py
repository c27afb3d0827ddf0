"""A tool that changes only the fields that a model has sent can distinguish them from the others."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, Tool

from signoff import Context, Signoff
from signoff.agents import Durable
from signoff.testing import MemoryStore, after_step, environment
from tests.agents.scripts import Script, calls, says
from tests.support import in_asyncio


class Patch(BaseModel):
    name: str | None = None
    limit: int | None = None


@pytest.mark.parametrize("way", ["approved", "edited", "barrier", "crashed", "not asked"])
@in_asyncio
async def test_a_field_that_was_not_sent_is_not_set(way: str) -> None:
    changed: list[dict[str, Any]] = []

    def change(user: str, patch: Patch) -> str:
        changed.append(patch.model_dump(exclude_unset=True))
        return "changed"

    agent = Agent(
        Script(calls(("change", {"user": "bob", "patch": {"limit": 70}})), says("done")).model,
        name="a",
        tools=[Tool(change, requires_approval=way != "not asked")],
        capabilities=[Durable(barrier=way == "barrier")],
    )
    app = Signoff(MemoryStore())

    @app.workflow
    async def work(ctx: Context) -> str:
        return (await agent.run("go")).output

    async with environment(app) as env:
        run = await env.start(work)
        await env.idle()
        if way == "crashed":
            env.crash(at=after_step("a.change:changed"))
        edited = {"user": "bob", "patch": {"limit": 80}}
        for question in (await env.client.questions()).items:
            answer = {"approved": True, "edited": edited} if way == "edited" else True
            await env.client.answer(question.id, answer, user_id="ana")
        assert await run.result() == "done"
        assert not env.pending_crashes
    assert changed == [{"limit": 80 if way == "edited" else 70}]
