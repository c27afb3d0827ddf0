"""Runs whose own code computes: a workflow, an agent and a flow, on a worker that may be stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from signoff import Context, Signoff, current_context, current_step
from signoff.agents import Durable, ask, in_workflow, tool_options
from signoff.flows import Data, Flow
from signoff.stores.contract.store import Store
from signoff.stores.remote.store import RemoteStore
from tests import worker_keys

NAMES = ("compute", "help", "count")
STEP_SECONDS = 0.5

Effect = Callable[[str], str]


def burn(seconds: float) -> None:
    """Compute for so many seconds of this thread's processor time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def make_app(store: Store, effects: Path, burn_seconds: float) -> Signoff:
    """Register the programs. Each execution of a step is a line ``RUN.N NAME`` in ``effects``."""
    app = Signoff(store)

    def effect(name: str) -> str:
        step = current_step()
        with effects.open("a") as file:
            file.write(f"{step.run_id}.{step.n} {name}\n")
        time.sleep(STEP_SECONDS)
        return name

    @app.workflow
    async def compute(ctx: Context) -> str:
        await ctx.step("first", effect, "first")
        burn(burn_seconds)
        await ctx.sleep(0.05)
        return await ctx.step("last", effect, "last", effect="once")

    agent = _agent(effect, burn_seconds)

    @app.workflow
    async def help(ctx: Context) -> str:
        return (await agent.run("Help")).output

    _register_flow(app, effect, burn_seconds)
    return app


def _agent(effect: Effect, burn_seconds: float) -> Agent[None, str]:
    """An agent with a tool that is a step, one that is workflow code, and one that a person approves."""
    calls = ("pay", "look", "plan")

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        effect("model")
        if len(messages) > 1:
            return ModelResponse([TextPart("done")])
        return ModelResponse([ToolCallPart(name, {}, f"call-{name}") for name in calls])

    agent = Agent(FunctionModel(model), name="helper", capabilities=[Durable(approvals={"pay": ask("pay?")})])

    @agent.tool_plain(metadata=tool_options(side_effects="external"))
    def pay() -> str:  # pyright: ignore[reportUnusedFunction]
        return effect("pay")

    @agent.tool_plain
    def look() -> str:  # pyright: ignore[reportUnusedFunction]
        return effect("look")

    @agent.tool_plain
    @in_workflow
    async def plan() -> str:  # pyright: ignore[reportUnusedFunction]
        burn(burn_seconds)
        return await current_context().step("plan", effect, "planned")

    return agent


def _register_flow(app: Signoff, effect: Effect, burn_seconds: float) -> None:
    flow = Flow("count", auto_close_timeout=0.0)

    def is_large(data: Data[object]) -> bool:
        burn(burn_seconds)
        return True

    @flow.chunk
    def first(data: Data[object]) -> str:
        return effect("first")

    @flow.chunk(effect="once")
    def second(data: Data[object]) -> str:
        return effect("second")

    flow.to(first).if_(is_large).to(second).end_if()
    app.register(flow)


def main(url: str, effects: str, burn_seconds: str, busy_seconds: str) -> None:
    """Work for a server until killed."""
    app = make_app(RemoteStore(url, key=worker_keys.SECRET), Path(effects), float(burn_seconds))

    async def work() -> None:
        async with app.worker(busy_seconds=float(busy_seconds)):
            print("works", flush=True)
            await asyncio.Event().wait()

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(process)d %(name)s: %(message)s")
    asyncio.run(work())
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
