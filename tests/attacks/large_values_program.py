"""Workflows of large values, for ``signoff worker tests.attacks.large_values_program:app``."""

from __future__ import annotations

import os
from typing import Any

from signoff import Signoff
from signoff.workflow.context import Context
from tests.attacks.large_value import ROWS

app = Signoff(store=os.environ["SIGNOFF_STORE"])


async def read() -> list[dict[str, Any]]:
    return ROWS


async def load(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return rows


@app.workflow
async def passing(ctx: Context, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return await ctx.step(load, rows)


@app.workflow
async def keeping(ctx: Context, rows: list[dict[str, Any]]) -> int:
    await ctx.wait_for_signal("go")
    return len(rows)


@app.workflow
async def reading(ctx: Context) -> int:
    rows = await ctx.step(read)
    await ctx.wait_for_signal("go")
    return len(rows)


@app.workflow
async def receiving(ctx: Context) -> int:
    rows = await ctx.wait_for_signal("rows")
    await ctx.wait_for_signal("go")
    return len(rows)
