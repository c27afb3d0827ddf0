"""Data beside a question is shown in full, also fields that its serializer would leave out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, Field, SecretStr
from pydantic.dataclasses import dataclass
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from signoff import Context, Signoff
from signoff.agents import Durable, pause
from signoff.errors import NotSerializable
from signoff.flows import Data, Executions, Flow
from signoff.people.schemas.promise_returns import data_of
from signoff.testing import MemoryStore, environment
from signoff.testing.environment import Environment
from tests.agents.scripts import asked
from tests.support import in_asyncio


class Refund(BaseModel):
    cents: int
    fee: int = Field(exclude=True)


@dataclass
class Fee:
    cents: int
    fee: int = Field(exclude=True)


class Base(BaseModel):
    cents: int


class Special(Base):
    fee: int


class Holder(BaseModel):
    held: Base


FULL = {"cents": 1, "fee": 7}
SHAPES: dict[str, tuple[Any, Any]] = {
    "model": (Refund(cents=1, fee=7), FULL),
    "dataclass": (Fee(cents=1, fee=7), FULL),
    "subclass": (Holder(held=Special(cents=1, fee=7)), {"held": FULL}),
    "list": ([Refund(cents=1, fee=7)], [FULL]),
}


async def metadata_of_a_question(value: Any) -> Any:
    app = Signoff(MemoryStore())

    @app.workflow
    async def flow(ctx: Context) -> None:
        await ctx.wait_for_user("Pay?", metadata={"about": value})

    async with environment(app) as env:
        await env.client.start(flow)
        return (await only(env))["metadata"]["about"]


async def default_of_a_form(value: Any) -> Any:
    app = Signoff(MemoryStore())

    @app.workflow
    async def flow(ctx: Context) -> None:
        await ctx.wait_for_user("Pay?", input_type="form", answer_type={}, default=value)

    async with environment(app) as env:
        await env.client.start(flow)
        return (await only(env))["default"]


async def payload_of_a_flow(value: Any) -> Any:
    return (await paused_with(payload={"about": value}))["metadata"]["about"]


async def default_of_a_flow(value: Any) -> Any:
    return (await paused_with("form", {"question": "Pay?"}, default=value))["default"]


async def paused_with(kind: str = "approval", payload: Any = None, **options: Any) -> Any:
    app, flow = Signoff(MemoryStore()), Flow("refund", auto_close_timeout=0.0)

    @flow.chunk
    async def approve(data: Data[Any]) -> Any:
        return await data.pause_for(kind, payload, **options)

    flow.to(approve)
    app.register(flow)
    async with environment(app) as env:
        await Executions(env.client, "refund").start(1, id="e")
        return await only(env)


async def payload_of_a_tool(value: Any) -> Any:
    app = Signoff(MemoryStore())

    async def pay() -> str:
        return str((await pause("await_input", {"about": value})).value)

    agent = Agent(TestModel(), name="a", tools=[pay], capabilities=[Durable()])

    @app.workflow
    async def flow(ctx: Context) -> str:
        return (await agent.run("go")).output

    async with environment(app) as env:
        await env.client.start(flow)
        return (await only(env))["metadata"]["payload"]["about"]


async def data_of_a_promise(value: Any) -> Any:
    app = Signoff(MemoryStore())

    @app.workflow
    async def flow(ctx: Context) -> None:
        await (await ctx.promise(id="p", data={"about": value}))

    async with environment(app) as env:
        await env.client.start(flow)
        await env.idle()
        return asked(await env.client.promises.get("p"))["about"]


async def only(env: Environment) -> dict[str, Any]:
    await env.idle()
    (question,) = (await env.client.questions()).items
    return asked(question)


PLACES = [
    *(metadata_of_a_question, default_of_a_form, payload_of_a_flow, default_of_a_flow),
    *(payload_of_a_tool, data_of_a_promise),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("place", PLACES)
@in_asyncio
async def test_fields_that_are_left_out_elsewhere_are_shown(place: Callable[[Any], Any], shape: str) -> None:
    value, shown = SHAPES[shape]
    assert await place(value) == shown


def test_secrets_are_refused() -> None:
    class Login(BaseModel):
        password: SecretStr

    with pytest.raises(NotSerializable, match=r"data\.password"):
        data_of(Login(password=SecretStr("x")), Any, has_data=True)
