"""The workflow that the worker in TypeScript calls: it writes receipts."""

from __future__ import annotations

import os

from signoff import Context, Signoff

app = Signoff(os.environ.get("SIGNOFF_STORE", "sqlite:///signoff.db"), group="python")


def numbered(customer: str, cents: int, payment: str) -> str:
    """Return the text of a receipt."""
    return f"{customer} received {cents / 100:.2f} euros: {payment}"


@app.workflow
async def write_receipt(ctx: Context, customer: str, cents: int, payment: str) -> str:
    """Write the receipt of a refund."""
    return await ctx.step(numbered, customer, cents, payment)
