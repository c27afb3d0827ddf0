"""Workflows of large values, for ``signoff worker tests.attacks.large_values_program:app``."""

from __future__ import annotations

import os
from typing import Any

from signoff import Signoff
from signoff.context import Context

app = Signoff(store=os.environ["SIGNOFF_STORE"])


async def load(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return rows


@app.workflow
async def passing(ctx: Context, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return await ctx.step(load, rows)


@app.workflow
async def keeping(ctx: Context, rows: list[dict[str, Any]]) -> int:
    await ctx.wait_for_signal("go")
    return len(rows)
