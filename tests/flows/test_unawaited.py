"""A chunk or condition that calls an async helper without an await is refused before the execution begins."""

# Type checkers see what is wrong here.
# pyright: reportUnusedCoroutine=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from signoff import Signoff
from signoff.errors import NotAwaited
from signoff.flows import Data, Executions, Flow
from signoff.testing import MemoryStore, environment
from tests.support import in_asyncio

paid: list[str] = []


async def _ask(data: Any) -> Any:
    return await data.pause_for("approval", {"question": "Pay?"})


async def _is_large(data: Any) -> bool:
    return bool(data.input > 100)


ask: Any = _ask
is_large: Any = _is_large


def pay(data: Data[Any]) -> None:
    paid.append("paid")


def forgetful_chunk(flow: Flow) -> None:
    @flow.chunk
    async def approve(data: Data[Any]) -> None:
        ask(data)

    flow.to(approve).to("pay")


def forgetful_plain_chunk(flow: Flow) -> None:
    @flow.chunk
    def approve(data: Data[Any]) -> None:
        if ask(data):
            data.set_state("approved", True)

    flow.to(approve).to("pay")


def forgetful_condition(flow: Flow) -> None:
    def small(data: Data[Any]) -> bool:
        return not is_large(data)

    flow.if_(small).to("pay").else_().to("pay").end_if()


def forgetful_lambda(flow: Flow) -> None:
    flow.if_(lambda data: data.input and not is_large(data)).to("pay").else_().to("pay").end_if()


def forgetful_inner_flow(flow: Flow) -> None:
    inner = Flow("inner")

    @inner.chunk
    async def approve(data: Data[Any]) -> None:
        ask(data)

    inner.to(approve)
    flow.to(inner).to("pay")


HELPERS: dict[str, Any] = {"ask": _ask, "is_large": _is_large}


def chunk_with_a_table(flow: Flow) -> None:
    @flow.chunk
    async def approve(data: Data[Any]) -> None:
        if HELPERS["ask"](data):
            data.set_state("approved", True)

    flow.to(approve).to("pay")


def plain_chunk_with_a_table(flow: Flow) -> None:
    @flow.chunk
    def approve(data: Data[Any]) -> None:
        if HELPERS["ask"](data):
            data.set_state("approved", True)

    flow.to(approve).to("pay")


def condition_with_a_table(flow: Flow) -> None:
    flow.if_(lambda data: not HELPERS["is_large"](data)).to("pay").else_().to("pay").end_if()


@pytest.mark.parametrize(
    "build",
    [
        *(
            forgetful_chunk,
            forgetful_plain_chunk,
            forgetful_condition,
            forgetful_lambda,
            forgetful_inner_flow,
        ),
        *(chunk_with_a_table, plain_chunk_with_a_table, condition_with_a_table),
    ],
)
@in_asyncio
async def test_it_is_refused_with_the_line(build: Callable[[Flow], None]) -> None:
    paid.clear()
    flow = Flow("refund", auto_close_timeout=0.0)
    flow.chunk(pay)
    build(flow)
    app = Signoff(MemoryStore())
    app.register(flow)
    async with environment(app) as env:
        execution = await Executions(env.client, "refund").start(50, id="e")
        with pytest.raises(
            NotAwaited,
            match=r"coroutine ((ask|is_large)\(data\)|'_(ask|is_large)'), at .*test_unawaited.py:\d+ in",
        ):
            await execution.result()
        assert (await env.client.backend.get_run("e")).retryable
    assert paid == []


@in_asyncio
async def test_conditions_and_chunks_that_return_the_call_of_a_helper_are_fine() -> None:
    paid.clear()
    flow = Flow("refund", auto_close_timeout=0.0)
    flow.chunk(pay)

    @flow.chunk
    async def approve(data: Data[Any]) -> Any:
        return await ask(data)

    flow.if_(lambda data: is_large(data) if data.input else False).to(approve).to("pay").else_().to(
        "pay"
    ).end_if()
    app = Signoff(MemoryStore())
    app.register(flow)
    async with environment(app) as env:
        execution = await Executions(env.client, "refund").start(50, id="e")
        await execution.result()
    assert paid == ["paid"]
