"""A small refund is paid at once. A larger one waits for a person, and escalates if there is no answer in time."""

from __future__ import annotations

from examples.shop.app import app
from examples.shop.services import fetch_order, pay_back, tell_team
from signoff import Action, Context, SignalTimeout

ASKS_FROM_CENTS = 5_000


@app.workflow
async def refund(
    ctx: Context, order_id: str, cents: int, reason: str, patience_seconds: float = 3600
) -> dict[str, str]:
    order = await ctx.step(fetch_order, order_id)
    amount = f"€{cents / 100:.2f}"
    if cents >= ASKS_FROM_CENTS:
        shown = {"customer": order.customer, "ordered": order.ordered, "reason": reason}
        payment = Action("pay_back", {"order_id": order_id, "cents": cents})
        try:
            answer = await ctx.wait_for_user(
                f"Refund {amount} to {order.customer}?",
                metadata=shown,
                action=payment,
                timeout_seconds=patience_seconds,
            )
        except SignalTimeout:
            await ctx.step(tell_team, f"The refund of {order_id} still needs a decision")
            answer = await ctx.wait_for_user(
                f"No decision in time: refund {amount} to {order.customer}?",
                metadata=shown | {"escalated": True},
                action=payment,
                remind_every=900,
            )
        if not answer.approved:
            return {"status": "rejected", "by": answer.user_id or "", "reason": answer.note or ""}
    # Once: if its worker dies in the middle, a person is asked whether the money was paid.
    receipt = await ctx.step(pay_back, order_id, cents, effect="once")
    return {"status": "paid", "amount": amount, "receipt": receipt}
