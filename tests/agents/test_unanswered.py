"""In every place where runs live: code that continues without its answer pays nothing, in every front end."""

# Type checkers see what is wrong here.
# pyright: reportUnusedCoroutine=false

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pydantic_ai import Agent, Tool
from pydantic_ai.models.test import TestModel

from signoff import Context, Run, RunState, Signoff
from signoff.agents import Durable, ask_user, in_workflow, pause
from signoff.agents.approvals.ask_user import AskedField
from signoff.flows import Data, Executions, Flow
from tests.places import NewStore
from tests.support import in_asyncio, reaches, running

paid: list[str] = []
FIELDS = [AskedField(name="sum", question="How much?")]


def pay() -> str:
    paid.append("paid")
    return "paid"


# Workflows


async def calls_and_drops(ctx: Context) -> None:
    ctx.wait_for_user("Pay?")
    await ctx.step(pay)


async def takes_it_for_true(ctx: Context) -> None:
    if ctx.wait_for_user("Pay?"):
        await ctx.step(pay)


async def takes_the_handle_for_true(ctx: Context) -> None:
    if await ctx.promise():
        await ctx.step(pay)


async def pauses_as_a_tool(ctx: Context) -> None:
    with suppress(BaseException):
        await pause("approval_required")
    await ctx.step(pay)


def yields_nothing(ctx: Context) -> Any:
    ctx.wait_for_user("Pay?")
    yield ctx.step(pay)


# Tools: what they do after their question is not done


def in_a_tool(asks: Callable[[], Any]) -> Callable[..., Any]:
    async def tool() -> str:
        await asks()
        return "asked"

    asking = Agent(TestModel(), name=asks.__name__, tools=[Tool(tool)], capabilities=[Durable()])

    async def work(ctx: Context) -> None:
        await asking.run("go")
        await ctx.step(pay)

    return work


async def swallows() -> None:
    with suppress(BaseException):
        await pause("approval_required", prompt="Pay?")


async def gathers() -> None:
    async def asks() -> None:
        await pause("approval_required", prompt="Pay?")

    await asyncio.gather(asks(), return_exceptions=True)


async def asks_in_a_step() -> None:
    with suppress(BaseException):
        await ask_user("Pay?", FIELDS)


async def runs_an_agent() -> None:
    inner = Agent(TestModel(), name="inner", tools=[Tool(pay)], capabilities=[Durable(approvals=["pay"])])
    await inner.run("go")


# Flows


async def drops(data: Data[Any]) -> None:
    data.pause_for("approval", {"question": "Pay?"})


async def swallows_in_a_chunk(data: Data[Any]) -> None:
    with suppress(BaseException):
        await data.pause_for("approval", {"question": "Pay?"})


async def gathers_in_a_chunk(data: Data[Any]) -> None:
    async def asks() -> None:
        await data.pause_for("approval", {"question": "Pay?"})

    await asyncio.gather(asks(), return_exceptions=True)


async def is_asked(data: Data[Any]) -> bool:
    return bool(await data.pause_for("approval", {"question": "Pay?"}))


def says_nothing(data: Data[Any]) -> Any:
    return {"approved": False}


WORKFLOWS: dict[str, Any] = {
    **{
        code.__name__: code
        for code in (
            calls_and_drops,
            takes_it_for_true,
            takes_the_handle_for_true,
            pauses_as_a_tool,
            yields_nothing,
        )
    },
    **{
        f"tool {asks.__name__}": in_a_tool(asks)
        for asks in (swallows, gathers, asks_in_a_step, runs_an_agent)
    },
    "tool of workflow code": in_a_tool(in_workflow(swallows)),
}


def flows() -> list[Flow]:
    made: list[Flow] = []
    for chunk in (drops, swallows_in_a_chunk, gathers_in_a_chunk):
        flow = _new_flow(chunk)
        flow.chunk(chunk)
        flow.to(chunk.__name__).to("pay")
        made.append(flow)
    for condition in (is_asked, says_nothing):
        flow = _new_flow(condition)
        flow.if_(condition).to("pay").end_if()
        made.append(flow)
    return made


def _new_flow(of: Callable[..., Any]) -> Flow:
    flow = Flow(of.__name__, auto_close_timeout=0.0)

    def pays(data: Data[Any]) -> str:
        return pay()

    flow.chunk(name="pay")(pays)
    return flow


@in_asyncio
async def test_nothing_is_paid_in_any_store(new_store: NewStore) -> None:
    paid.clear()
    app = Signoff(new_store())
    for name, code in WORKFLOWS.items():
        app.workflow(name=name)(code)
    made = flows()
    for flow in made:
        app.register(flow)
    async with running(app) as client:
        for name in WORKFLOWS:
            await client.start(name, id=name)
        for flow in made:
            await Executions(client, flow.name).start(1, id=flow.name)
        for id in (*WORKFLOWS, *(flow.name for flow in made)):
            run = await reaches(app, id, RunState.SUCCEEDED, RunState.FAILED, RunState.PAUSED)
            assert (run.state, error_of(run)) == (RunState.FAILED, ERRORS.get(id, "NotAwaited")), id
        assert not (await client.questions()).items
    assert paid == []


ERRORS = {
    "pauses_as_a_tool": "OutsideWorkflow",
    "tool swallows": "PauseSwallowed",
    "tool gathers": "PauseSwallowed",
    "tool of workflow code": "PauseSwallowed",
    "tool asks_in_a_step": "OutsideWorkflow",
    "tool runs_an_agent": "OutsideWorkflow",
    **dict.fromkeys((flow.name for flow in flows()), "ChunkHeld"),
}


def error_of(run: Run) -> str:
    return str(json.loads(run.error or "{}").get("type")).partition(":")[2]
