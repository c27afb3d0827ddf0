"""An order: the payment provider calls back, then a run of its own ships the parcel."""

from __future__ import annotations

from pydantic import BaseModel

from examples.shop.app import app
from examples.shop.provider import payment_provider
from examples.shop.shipping import ship
from signoff import Context, SignalTimeout


class Payment(BaseModel):
    cents: int
    reference: str


@app.workflow
async def order(
    ctx: Context, order_id: str, cents: int, kilograms: float, pays_after_seconds: float = 40
) -> dict[str, str]:
    paid = await ctx.callback(
        f"Payment of {order_id}",
        answer_type=Payment,
        metadata={"amount": f"€{cents / 100:.2f}"},
        timeout_seconds=86_400,
    )
    # Yours is a step that calls a real provider: await ctx.step(create_checkout, order_id, paid.url)
    await ctx.detached(payment_provider, paid.url, cents, pays_after_seconds).options(
        id=f"{ctx.run_id}-provider"
    )
    try:
        payment = (await paid).value
    except SignalTimeout:
        return {"status": "not paid"}
    tracking = await ctx.rfc(ship, order_id, kilograms).options(id=f"{ctx.run_id}-shipping")
    return {"status": "shipped", "payment": payment.reference, "tracking": tracking}
