"""A set of calls, handles or tasks has one order at every replay."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Set
from typing import Any

import pytest

from signoff import Context, Signoff
from signoff.testing import MemoryStore, after_entry, environment
from tests.support import in_asyncio

COUNT = 8


def nothing() -> None:
    """Does nothing."""


async def waits(ctx: Context, number: int) -> int:
    await ctx.step(f"step {number}", nothing)
    return number


def steps(ctx: Context) -> Set[Awaitable[Any]]:
    return {ctx.step(f"step {number}", nothing) for number in range(COUNT)}


def questions(ctx: Context) -> Set[Awaitable[Any]]:
    return {ctx.wait_for_user(f"{number}?", timeout_seconds=1, skippable=True) for number in range(COUNT)}


def sleeps(ctx: Context) -> Set[Awaitable[Any]]:
    return {ctx.sleep(number) for number in range(COUNT)}


def functions(ctx: Context) -> Set[Awaitable[Any]]:
    return {ctx.lfc(waits, number) for number in range(COUNT)}


def promises(ctx: Context) -> Set[Awaitable[Any]]:
    return {ctx.promise(data=number) for number in range(COUNT)}


def notes(ctx: Context) -> Set[Awaitable[Any]]:
    return {ctx.progress(f"{number}") for number in range(COUNT)}


def tasks(ctx: Context) -> Set[Awaitable[Any]]:
    return {asyncio.create_task(waits(ctx, number)) for number in range(COUNT)}


def invocations(ctx: Context) -> Set[Awaitable[Any]]:
    return {ctx.lfi(waits, number) for number in range(COUNT)}


@pytest.mark.parametrize(
    "make",
    [steps, questions, sleeps, functions, promises, notes, tasks, invocations],
    ids=lambda make: make.__name__,
)
@in_asyncio
async def test_a_set_of_awaitables_has_one_order(make: Callable[[Context], Set[Awaitable[Any]]]) -> None:
    app = Signoff(MemoryStore())
    kept: list[object] = []

    @app.workflow
    async def work(ctx: Context) -> str:
        kept.extend(object() for _ in range(len(kept) + 7))  # other objects, other addresses
        for each in make(ctx):
            with contextlib.suppress(TimeoutError):
                await each
        await ctx.step("end", nothing)
        return "done"

    for seq in (3, 5, 7):
        async with environment(app) as env:
            env.crash(at=after_entry(seq))
            assert await env.run(work) == "done"


@in_asyncio
async def test_a_set_of_handles_has_one_order() -> None:
    app = Signoff(MemoryStore())
    orders: list[list[int]] = []

    @app.workflow
    async def work(ctx: Context) -> list[int]:
        handles = {await ctx.lfi(waits, number): number for number in range(COUNT)}
        orders.append([handles[each] for each in set(handles)])
        done = [await each for each in set(handles)]
        await ctx.step("end", nothing)
        return done

    async with environment(app) as env:
        env.crash(at=after_entry(COUNT))
        await env.run(work)
    first, *later = orders
    assert later == [first] * len(later)
    assert later
