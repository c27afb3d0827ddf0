"""Tools and validators that change their arguments in place: each attempt runs with the approved arguments."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, RunContext, Tool
from pydantic_ai.toolsets import DynamicToolset, FunctionToolset

from signoff import Context, Signoff
from signoff.agents import Durable, pause, tool_options
from signoff.testing import MemoryStore, after_step, at_pause, environment
from tests.agents.scripts import Script, asked, calls, says
from tests.support import in_asyncio


class Order(BaseModel):
    cents: int
    lines: list[int] = []


SENT: dict[str, Any] = {"order": {"cents": 7}, "to": "bob"}
SHOWN: dict[str, Any] = {"order": {"cents": 7, "lines": []}, "to": "bob"}


class Scene:
    """An agent whose model calls ``pay`` once."""

    def __init__(self, pay: Callable[..., Any], *, is_dynamic: bool = False, **options: Any) -> None:
        tools = FunctionToolset([Tool(pay, name="pay", **options)], id="tools")
        toolset = DynamicToolset[Any](lambda ctx: tools, id="dynamic") if is_dynamic else tools
        agent = Agent(
            Script(calls(("pay", SENT)), says("done")).model,
            name="desk",
            toolsets=[toolset],
            capabilities=[Durable()],
        )
        self.app = Signoff(MemoryStore())

        @self.app.workflow
        async def work(ctx: Context) -> str:
            return (await agent.run("go")).output

        self.work = work


def changed(order: Order) -> tuple[int, list[int]]:
    """Change an order in place, and return what it was."""
    before = (order.cents, list(order.lines))
    order.cents *= 100
    order.lines.append(9)
    return before


@pytest.mark.parametrize("is_plain", [False, True], ids=["async", "plain"])
@pytest.mark.parametrize("is_dynamic", [False, True], ids=["static", "dynamic"])
@in_asyncio
async def test_each_attempt_runs_with_the_approved_arguments(is_plain: bool, is_dynamic: bool) -> None:
    ran: list[Any] = []

    def pay(order: Order, to: str) -> str:
        ran.append(changed(order))
        if len(ran) < 3:
            raise ConnectionError("lost")
        return "paid"

    async def pay_async(order: Order, to: str) -> str:
        return pay(order, to)

    scene = Scene(
        pay if is_plain else pay_async,
        is_dynamic=is_dynamic,
        requires_approval=True,
        metadata=tool_options(effect="repeatable"),
    )
    async with environment(scene.app) as env:
        env.people.answer("*", True)
        await env.run(scene.work)
    assert ran == [(7, [])] * 3


@pytest.mark.parametrize("crashes", [False, True])
@in_asyncio
async def test_a_tool_runs_with_the_shown_arguments_after_its_pause(crashes: bool) -> None:
    ran: list[Any] = []

    async def pay(order: Order, to: str) -> str:
        ran.append(changed(order))
        await pause("approval_required", prompt="Really?")
        return "paid"

    scene = Scene(pay)
    async with environment(scene.app) as env:
        if crashes:
            env.crash(at=at_pause())
        run = await env.start(scene.work)
        await env.idle()
        (question,) = (await env.client.questions()).items
        assert asked(question)["action"]["arguments"] == SHOWN
        await env.client.answer(question.id, True, user_id="ana")
        await run.result()
    assert ran == [(7, []), (7, [])]


@pytest.mark.parametrize("crashes", [False, True])
@in_asyncio
async def test_what_a_validator_changes_in_place_is_lost_with_a_warning(
    crashes: bool, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[Any] = []

    def check(ctx: RunContext[Any], order: Order, to: str) -> None:
        changed(order)

    def pay(order: Order, to: str) -> str:
        ran.append(changed(order))
        return "paid"

    scene = Scene(pay, args_validator=check, requires_approval=True)
    async with environment(scene.app) as env:
        with caplog.at_level(logging.WARNING, "signoff.agents"):
            run = await env.start(scene.work)
            await env.idle()
        (question,) = (await env.client.questions()).items
        assert asked(question)["action"]["arguments"] == SHOWN
        if crashes:
            env.crash(at=after_step("desk.pay:changed"))
        await env.client.answer(question.id, True, user_id="ana")
        await run.result()
    assert ran == [(7, [])]
    assert "args_validator of tool 'pay' changed 'order' in place" in caplog.text
