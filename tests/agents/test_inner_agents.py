"""Agents that run inside tools: they ask where they can, and are refused where they cannot."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pydantic_ai import Agent, Tool
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, UserError

from signoff import Context, Signoff
from signoff.agents import Durable, ToolCall, approve, ask, ask_user, deny, in_workflow, pause
from signoff.errors import OutsideWorkflow, RegistrationError
from signoff.testing import MemoryStore, environment
from tests.agents.scripts import Script, calls, returns, says
from tests.places import NewStore
from tests.support import in_asyncio, running

Runs = Callable[["Agent[None, str]"], Awaitable[str]]


class Scene:
    """An agent with a plain tool that runs another agent, which calls ``pay``."""

    def __init__(
        self,
        runs: Runs,
        *,
        durable: Durable[Any] | None = None,
        pay: Callable[..., Any] | None = None,
        is_workflow_code: bool = False,
        app: Signoff | None = None,
        **options: Any,
    ) -> None:
        self.paid: list[str] = []

        def paying() -> str:
            self.paid.append("paid")
            return "paid"

        self.inner_script = Script(calls(("pay", {})), says("inner has done it"))
        self.inner = Agent(
            self.inner_script.model,
            name="inner",
            capabilities=[] if durable is None else [durable],
            tools=[Tool(pay or paying, name="pay", **options)],
        )

        async def outer() -> str:
            return await runs(self.inner)

        outermost = Agent(
            Script(calls(("outer", {})), says("done")).model,
            name="outer",
            capabilities=[Durable()],
            tools=[Tool(in_workflow(outer) if is_workflow_code else outer, name="outer")],
        )
        self.app = app or Signoff(MemoryStore())

        @self.app.workflow
        async def work(ctx: Context) -> list[Any]:
            return returns((await outermost.run("go")).all_messages())

        self.work = work


async def directly(agent: Agent[None, str]) -> str:
    return (await agent.run("x")).output


async def step_by_step(agent: Agent[None, str]) -> str:
    async with agent.iter("x") as run:
        async for _ in run:
            pass
    assert run.result is not None
    return run.result.output


async def streamed(agent: Agent[None, str]) -> str:
    async with agent.run_stream("x") as run:
        return await run.get_output()


async def in_a_thread(agent: Agent[None, str]) -> str:
    return await asyncio.to_thread(asyncio.run, directly(agent))


async def in_a_thread_of_its_own(agent: Agent[None, str]) -> str:
    came: list[Exception] = []

    def run() -> None:
        try:
            asyncio.run(directly(agent))
        except Exception as error:
            came.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    await asyncio.to_thread(thread.join)
    raise came[0]


def policy(call: ToolCall) -> Any:
    return ask()


@pytest.mark.parametrize("runs", [directly, step_by_step, streamed, in_a_thread, in_a_thread_of_its_own])
@in_asyncio
async def test_an_agent_that_may_ask_does_not_run_where_it_cannot(runs: Runs) -> None:
    scene = Scene(runs, durable=Durable(approvals=["pay"]))
    async with environment(scene.app) as env:
        with pytest.raises(OutsideWorkflow, match=r"agent 'inner'.*which is not possible.*@in_workflow"):
            await env.run(scene.work)
    assert (scene.paid, scene.inner_script.asked) == ([], [])


@in_asyncio
async def test_an_agent_that_may_ask_does_not_run_where_it_cannot_in_any_store(new_store: NewStore) -> None:
    scene = Scene(directly, durable=Durable(approvals=["pay"]), app=Signoff(new_store()))
    async with running(scene.app) as client:
        with pytest.raises(OutsideWorkflow, match=r"agent 'inner'.*which is not possible"):
            await (await client.start(scene.work)).result(60)
    assert (scene.paid, scene.inner_script.asked) == ([], [])


@pytest.mark.parametrize(
    "approvals",
    [["pay"], {"pay": True}, {"pay": deny("never")}, {"other": approve()}, policy],
    ids=["names", "yes", "denial", "others", "function"],
)
@in_asyncio
async def test_what_approvals_say_is_not_skipped_outside_of_workflows(approvals: Any) -> None:
    script = Script(calls(("pay", {})), says("done"))
    paid: list[int] = []
    agent = Agent(
        script.model,
        name="a",
        capabilities=[Durable(approvals=approvals)],
        tools=[Tool(lambda: paid.append(1), name="pay")],
    )
    with pytest.raises(OutsideWorkflow, match="which is not possible outside of any workflow"):
        await agent.run("go")
    assert (paid, script.asked) == ([], [])


@in_asyncio
async def test_an_agent_run_as_a_step_does_not_skip_its_approvals() -> None:
    scene = Scene(directly, durable=Durable(approvals=["pay"]))

    @scene.app.workflow
    async def stepping(ctx: Context) -> Any:
        return await ctx.step("inner", directly, scene.inner)

    async with environment(scene.app) as env:
        with pytest.raises(OutsideWorkflow, match="inside step 'inner'"):
            await env.run(stepping)
    assert scene.paid == []


@pytest.mark.parametrize(
    "durable",
    [None, Durable[Any](), Durable[Any](approvals=[])],
    ids=["plain", "durable", "nothing to ask"],
)
@in_asyncio
async def test_an_agent_with_nothing_to_ask_runs_inside_a_plain_tool(durable: Durable[Any] | None) -> None:
    scene = Scene(directly, durable=durable)
    async with environment(scene.app) as env:
        assert await env.run(scene.work) == [["outer", "inner has done it", "success"]]
    assert scene.paid == ["paid"]


async def pausing() -> str:
    return str((await pause("approval_required")).approved)


async def deferring() -> str:
    raise CallDeferred


async def requiring() -> str:
    raise ApprovalRequired


@pytest.mark.parametrize("durable", [None, Durable[Any]()], ids=["plain", "durable"])
@pytest.mark.parametrize(
    ("pay", "options", "refusal"),
    [
        (pausing, {}, "an agent that runs inside such a tool|agent 'inner' outside of workflow code"),
        (ask_user, {}, "no workflow code is running here"),
        (deferring, {}, "DeferredToolRequests"),
        (requiring, {}, "DeferredToolRequests"),
        (None, {"requires_approval": True}, "DeferredToolRequests"),
    ],
    ids=["pause", "ask_user", "CallDeferred", "ApprovalRequired", "requires_approval"],
)
@in_asyncio
async def test_a_tool_of_an_inner_agent_does_not_wait_where_nothing_can(
    durable: Durable[Any] | None, pay: Any, options: dict[str, Any], refusal: str
) -> None:
    scene = Scene(directly, durable=durable, pay=pay, **options)
    if pay is ask_user:
        arguments = {"message": "?", "fields": [{"name": "a", "question": "A?"}]}
        scene.inner_script.replace(calls(("pay", arguments)))
    async with environment(scene.app) as env:
        with pytest.raises((OutsideWorkflow, UserError), match=refusal):
            await env.run(scene.work)
        assert not (await env.client.questions()).items
    assert (scene.paid, len(scene.inner_script.asked)) == ([], 1)


@pytest.mark.parametrize(
    ("durable", "pay", "options"),
    [
        (Durable[Any](approvals=["pay"]), None, {}),
        (Durable[Any](), None, {"requires_approval": True}),
        (Durable[Any](), pausing, {}),
        (Durable[Any](), requiring, {}),
    ],
    ids=["approvals", "requires_approval", "pause", "ApprovalRequired"],
)
@in_asyncio
async def test_an_agent_that_runs_in_workflow_code_asks(
    durable: Durable[Any], pay: Any, options: dict[str, Any]
) -> None:
    scene = Scene(directly, durable=durable, pay=pay, is_workflow_code=True, **options)
    async with environment(scene.app) as env:
        run = await env.start(scene.work)
        await env.idle()
        (question,) = (await env.client.questions()).items
        assert scene.paid == []
        await env.client.answer(question.id, False, user_id="ana")
        assert await run.result() == [["outer", "inner has done it", "success"]]
    assert scene.paid == []


@pytest.mark.parametrize(
    "what", [directly, "support", None, Durable], ids=["function", "text", "none", "class"]
)
def test_what_is_neither_an_agent_nor_a_flow_is_not_registered(what: Any) -> None:
    with pytest.raises(RegistrationError, match=r"an agent or a flow.*@app\.workflow"):
        Signoff(MemoryStore()).register(what)
