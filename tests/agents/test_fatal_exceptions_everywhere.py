"""Exceptions of an agent's or a flow's code end only its run, in every store: the worker serves the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, field_validator
from pydantic_ai import Agent, Tool
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel

from signoff import Context, RetryPolicy, RunState, Signoff
from signoff.agents import Durable, in_workflow
from signoff.flows import Data, Executions, Flow
from tests.places import NewStore
from tests.support import in_asyncio, running

KINDS: dict[str, Callable[[], BaseException]] = {
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
}
ONCE = RetryPolicy(max_attempts=1)

chosen: list[str] = []


def boom(*_: Any) -> Any:
    raise KINDS[chosen[-1]]()


async def aboom(*_: Any) -> Any:
    boom()


def tool() -> str:
    return boom()


async def async_tool() -> str:
    return boom()


@in_workflow
async def workflow_tool() -> str:
    return boom()


class Answer(BaseModel):
    sum: int

    @field_validator("sum")
    @classmethod
    def check(cls, value: int) -> int:
        return boom()


def typed_tool(answer: Answer) -> str:
    return "done"


def quiet_tool() -> str:
    return "done"


def instructions() -> str:
    return boom()


def agent_of(*tools: Any, **options: Any) -> Agent[Any, Any]:
    durable = {name: options.pop(name) for name in ("deps", "event_stream_handler") if name in options}
    model = options.pop("model", TestModel())
    return Agent(model, name="a", tools=list(tools), capabilities=[Durable(retry=ONCE, **durable)], **options)


AGENTS: dict[str, Callable[[], Agent[Any, Any]]] = {
    "tool": lambda: agent_of(tool),
    "async tool": lambda: agent_of(async_tool),
    "tool in workflow code": lambda: agent_of(workflow_tool),
    "validator of an argument": lambda: agent_of(typed_tool),
    "preparation of a tool": lambda: agent_of(Tool(quiet_tool, prepare=aboom)),
    "dependencies": lambda: agent_of(quiet_tool, deps=boom),
    "event handler": lambda: agent_of(quiet_tool, event_stream_handler=aboom),
    "model": lambda: agent_of(model=FunctionModel(boom)),
    "instructions": lambda: agent_of(instructions=instructions),
    "output": lambda: agent_of(output_type=Answer),
}


def in_a_chunk(flow: Flow) -> None:
    def fails(data: Data[Any]) -> None:
        boom()

    flow.chunk(retry=ONCE)(fails)
    flow.to("fails")


def in_a_condition(flow: Flow) -> None:
    def works(data: Data[Any]) -> None: ...

    flow.chunk(works)
    flow.if_(lambda data: boom()).to("works").end_if()


@pytest.mark.parametrize("kind", KINDS)
@in_asyncio
async def test_a_worker_outlives_what_agents_and_flows_raise(new_store: NewStore, kind: str) -> None:
    chosen[:] = [kind]
    app = Signoff(new_store())
    for name, make in AGENTS.items():

        @app.workflow(name=name)
        async def work(ctx: Context, make: Any = make) -> None:
            await make().run("go")

    for build in (in_a_chunk, in_a_condition):
        flow = Flow(build.__name__, auto_close_timeout=0.0)
        build(flow)
        app.register(flow)

    @app.workflow
    async def healthy(ctx: Context) -> str:
        return await ctx.step("works", lambda: "well")

    async with running(app) as client:
        runs = {name: await client.start(name, id=name) for name in AGENTS}
        for build in (in_a_chunk, in_a_condition):
            await Executions(client, build.__name__).start(1, id=build.__name__)
            runs[build.__name__] = await client.get(build.__name__)
        for name, run in runs.items():
            with pytest.raises(Exception, match=kind):
                await run.result(60)
            ended = await app.store.get_run(name)
            assert (ended.state, ended.takeovers) == (RunState.FAILED, 0), name
        assert await (await client.start(healthy)).result(60) == "well"
