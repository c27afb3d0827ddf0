"""The workflow. ``signoff worker examples.refund.flow:app`` runs it."""

from __future__ import annotations

import os

from examples.refund.services import get_order, issue_refund, post_slack
from signoff import Context, SignalTimeout, Signoff

app = Signoff(os.environ.get("SIGNOFF_STORE", "sqlite:///signoff.db"))


@app.workflow
async def refund_flow(ctx: Context, order_id: str, amount_cents: int) -> dict:
    order = await ctx.step("fetch_order", lambda: get_order(order_id))
    if amount_cents < 5_000:
        await ctx.step("issue_refund", lambda: issue_refund(order_id, amount_cents))
        return {"status": "auto_approved", "amount_cents": amount_cents}
    try:
        decision = await ctx.wait_for_user(
            question=f"Approve ${amount_cents / 100:.2f} refund for order {order_id}?",
            input_type="approval",
            metadata={"customer": order["customer_email"]},
            timeout_seconds=3600,
        )
    except SignalTimeout:
        await ctx.step("notify", lambda: post_slack("timed out, escalating"))
        decision = await ctx.wait_for_user(
            question="ESCALATION: approve?", input_type="approval", metadata={"escalation": True}
        )
    if decision["approved"]:
        await ctx.step("issue_refund", lambda: issue_refund(order_id, amount_cents))
        return {"status": "approved_by_human", "approver": decision["user_id"]}
    return {"status": "rejected", "reason": decision.get("note", "")}
