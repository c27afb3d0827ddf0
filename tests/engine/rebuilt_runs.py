"""Runs a workflow live, and rebuilds it from its journal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from signoff import Context, Signoff
from signoff.testing import MemoryStore, at_pause, environment

Code = Callable[[Context], Awaitable[Any]]


async def live_and_rebuilt(code: Code) -> list[Any]:
    """Return what a run results in that was kept in memory, and in one that was rebuilt before it went on."""
    app = Signoff(MemoryStore())

    @app.workflow
    async def flow(ctx: Context) -> Any:
        return await code(ctx)

    found: list[Any] = []
    for crash in (False, True):
        async with environment(app) as env:
            if crash:
                env.crash(at=at_pause())
            run = await env.start(flow)
            await env.idle()
            await run.signal("go")
            try:
                found.append(await run.result())
            except Exception as error:
                found.append((type(error), str(error)[:60]))
    return found
