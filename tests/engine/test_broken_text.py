"""Text that is not Unicode, such as a file name that is not UTF-8: a replay accepts the same text, and no other."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import pytest

from signoff import Context, Signoff
from signoff.errors import NonDeterminism
from signoff.testing import MemoryStore, at_pause, environment
from tests.support import in_asyncio

NAME = os.fsdecode(b"caf\xe9.txt")
OTHER = os.fsdecode(b"caf\xe8.txt")


def look(value: Any) -> None:
    pass


async def by_position(ctx: Context, name: str) -> None:
    await ctx.step("look", look, name)


async def by_name(ctx: Context, name: str) -> None:
    await ctx.step("look", functools.partial(look, value=name))


async def inside_of_data(ctx: Context, name: str) -> None:
    await ctx.step("look", look, {"names": [name], "emoji": "😀"})


async def captured(ctx: Context, name: str) -> None:
    await ctx.step("look", lambda: look(name))


@pytest.mark.parametrize("call", [by_position, by_name, inside_of_data, captured])
@in_asyncio
async def test_a_replay_compares_it(call: Callable[[Context, str], Any]) -> None:
    names = [NAME, NAME, OTHER]
    app = Signoff(MemoryStore())

    @app.workflow
    async def work(ctx: Context) -> None:
        await call(ctx, names.pop(0))
        await ctx.wait_for_signal("go")
        await ctx.wait_for_signal("go")

    async with environment(app) as env:
        run = await env.start(work)
        for left in (2, 1, 0):
            env.crash(at=at_pause())
            await env.idle()
            assert len(names) == left
            if left:
                await env.client.signal(run.id, "go")
        with pytest.raises(NonDeterminism):
            await run.result()
