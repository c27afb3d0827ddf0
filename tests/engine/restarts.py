"""Runs steps with captured values, then again in another process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from signoff import Context, Signoff
from signoff.errors import NonDeterminism
from signoff.testing import MemoryStore, at_pause, environment


async def restarted(*codes: Callable[..., Any]) -> Any:
    """Run the first code until its worker dies, then the second on another one. Returns the result, or the error."""
    app = Signoff(MemoryStore())
    left = [*codes]

    async def flow(ctx: Context) -> Any:
        return await (left.pop(0) if len(left) > 1 else left[0])(ctx)

    del codes
    app.workflow(flow)
    async with environment(app) as env:
        env.crash(at=at_pause())
        run = await env.start(flow)
        await env.idle()
        await run.signal("go")
        try:
            return await run.result()
        except NonDeterminism as error:
            return error


def pay(order: str) -> str:
    return f"paid {order}"
