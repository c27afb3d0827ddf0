"""Engine failures after a step cause no retry: the step has done its work, and would repeat it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from signoff import Context, Signoff
from signoff.testing import MemoryStore, environment
from tests.support import in_asyncio

Code = Callable[[Context], Awaitable[Any]]

done: list[str] = []


async def calls_itself(ctx: Context) -> Any:
    def visit(depth: int) -> int:
        if depth == 0:
            done.append("paid")
            return 0
        return 1 + visit(depth - 1)

    return await ctx.step("visit", visit, 3)


async def calls_itself_and_waits(ctx: Context) -> Any:
    async def visit(depth: int) -> int:
        if depth == 0:
            done.append("paid")
            return 0
        return 1 + await visit(depth - 1)

    return await ctx.step("visit", visit, 3)


async def calls_each_other(ctx: Context) -> Any:
    def even(depth: int) -> int:
        return 1 + odd(depth - 1)

    def odd(depth: int) -> int:
        if depth == 0:
            done.append("paid")
            return 0
        return 1 + even(depth - 1)

    return await ctx.step("visit", even, 3)


async def has_an_attribute(ctx: Context) -> Any:
    def visit() -> int:
        done.append("paid")
        return visit.depth  # type: ignore[attr-defined, no-any-return]

    visit.depth = 3  # type: ignore[attr-defined]
    return await ctx.step("visit", visit)


@dataclass
class Unequal:
    depth: int

    def __eq__(self, other: object) -> bool:
        raise SystemExit(3)

    __hash__ = None  # type: ignore[assignment]


async def cannot_be_compared(ctx: Context) -> Any:
    def visit(unequal: Unequal) -> int:
        done.append("paid")
        return unequal.depth

    return await ctx.step("visit", visit, Unequal(3))


class Receipt(BaseModel):
    sum: int

    @field_validator("sum")
    @classmethod
    def check(cls, value: int) -> int:
        raise SystemExit(3)


def pay() -> Receipt:
    done.append("paid")
    return Receipt.model_construct(sum=3)


@in_asyncio
async def test_a_result_whose_validator_would_end_the_process_is_not_made_again() -> None:
    done.clear()
    app = Signoff(MemoryStore())

    @app.workflow
    async def flow(ctx: Context) -> Any:
        return await ctx.step(pay)

    async with environment(app) as env:
        with pytest.raises(RuntimeError, match="SystemExit"):
            await env.run(flow)
    assert done == ["paid"]


@pytest.mark.parametrize(
    "code",
    [calls_itself, calls_itself_and_waits, calls_each_other, has_an_attribute, cannot_be_compared],
    ids=lambda code: code.__name__,
)
@in_asyncio
async def test_a_step_that_cannot_be_checked_runs_once(code: Code) -> None:
    done.clear()
    app = Signoff(MemoryStore())

    @app.workflow
    async def flow(ctx: Context) -> Any:
        return await code(ctx)

    async with environment(app) as env:
        assert await env.run(flow) == 3
    assert done == ["paid"]
