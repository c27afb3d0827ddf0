"""The payment provider, played by a run: it takes as long as customers do, and then calls back."""

from __future__ import annotations

import httpx

from examples.shop.app import app
from signoff import Context, current_step


@app.workflow
async def payment_provider(ctx: Context, callback_url: str, cents: int, after_seconds: float) -> None:
    await ctx.sleep(after_seconds)
    await ctx.step(call_back, callback_url, cents)


async def call_back(url: str, cents: int) -> None:
    """Report the payment. Every attempt sends the same body, so it counts once."""
    payment = {"cents": cents, "reference": f"PAY-{current_step().idempotency_key}"}
    async with httpx.AsyncClient(trust_env=False, timeout=10) as http:
        (await http.post(url, json=payment)).raise_for_status()
