"""The timeline shows each call's own duration, despite concurrent calls."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from functools import partial
from pathlib import Path

from signoff import Context, RetryPolicy, Signoff
from signoff.cli.timeline import Item, Items
from signoff.client.async_client import AsyncClient
from signoff.records.timeline import TimelineChange
from signoff.testing import VirtualClock
from tests.support import doomed_worker, in_asyncio, journal, new_app, opened, pauses, until


class Flaky(Exception):
    """Goes away."""


@in_asyncio
async def test_concurrent_retried_and_repeated_steps_show_their_own_durations(
    tmp_path: Path,
) -> None:
    clock = VirtualClock()
    app = new_app(tmp_path, clock=clock)
    begun = defaultdict[str, asyncio.Event](asyncio.Event)
    may_end = {name: asyncio.Event() for name in ("long", "short", "last")}

    async def work(name: str) -> str:
        begun_before = begun[name].is_set()
        begun[name].set()
        if name == "retried" and not begun_before:
            raise Flaky
        if name in may_end:
            await may_end[name].wait()
        return name

    @app.workflow
    async def flow(ctx: Context) -> None:
        await ctx.step("at once", work, "at once")
        await asyncio.gather(ctx.step("long", work, "long"), ctx.step("short", work, "short"))
        await ctx.step("retried", work, "retried", retry=RetryPolicy(initial_seconds=100, jitter=False))
        await ctx.step("last", work, "last", durable=False)

    async with opened(app) as client:
        run = await client.start(flow, id="r")
        async with doomed_worker(app):
            for name in ("short", "long"):
                await begun[name].wait()
                clock.advance(20)
                may_end[name].set()
                await until(app, partial(_written, app, name))
            await pauses(app, "r")
            clock.advance(107)
            await begun["last"].wait()
        clock.advance(5000)  # there is no worker
        begun["last"].clear()
        async with app.worker():
            await begun["last"].wait()
            clock.advance(3)
            may_end["last"].set()
            await run.result(60)
        items = {item.name: item for item in await _items(client)}
    took = {name: _seconds(items[name]) for name in ("at once", "short", "long", "retried", "last")}
    assert took == {"at once": 0, "short": 20, "long": 40, "retried": 107, "last": 3}


async def _items(client: AsyncClient) -> Items:
    items = Items()
    async for change in client.backend.timeline("r"):
        if isinstance(change, TimelineChange):
            items.take(change)
    return items


async def _written(app: Signoff, name: str) -> bool:
    return any(entry.name == name for entry in await journal(app, "r"))


def _seconds(item: Item) -> int | None:
    return None if item.seconds is None else round(item.seconds)
