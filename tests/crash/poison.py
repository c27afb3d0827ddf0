"""Workers of an app with some workflows that end their process."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

from signoff import Context, Signoff
from signoff.stores.sqlite.store import SqliteStore

BEAT_SECONDS = 0.05


def make_app(database: Path) -> Signoff:
    app = Signoff(SqliteStore(database))

    @app.workflow
    async def innocent(ctx: Context, seconds: float) -> int:
        for n in range(3):
            await ctx.step(f"s{n}", asyncio.sleep, seconds)
        return 3

    @app.workflow
    async def exits(ctx: Context) -> None:
        await ctx.step("exit", os._exit, 1)

    @app.workflow
    async def crashes(ctx: Context) -> None:
        await ctx.step("crash", ctypes.string_at, 0)

    @app.workflow
    async def alarms(ctx: Context) -> None:
        await ctx.step("alarm", alarm)

    @app.workflow
    async def alarms_and_raises(ctx: Context) -> None:
        await ctx.step("alarm", alarm, out_of_time)

    @app.workflow
    async def exits_at_once(ctx: Context) -> None:
        os._exit(1)

    return app


async def alarm(handler: Callable[..., None] | None = None) -> None:
    """Have the kernel end the process, as a forgotten ``signal.alarm`` does, or have a handler raise."""
    if handler is not None:
        signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    await asyncio.sleep(60)


def out_of_time(number: int, frame: object) -> None:
    raise TimeoutError("out of time")


def work(database: Path) -> None:
    """Work until killed."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(process)d %(name)s: %(message)s")
    asyncio.run(_work(make_app(database)))


async def _work(app: Signoff) -> None:
    try:
        async with app.worker(beat_seconds=BEAT_SECONDS):
            await asyncio.Event().wait()
    finally:
        await app.store.close()
