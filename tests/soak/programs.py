"""The workflows of the soak, as a module that the processes load."""

PAYMENTS = "payments"
"""The file to which a line is added for each payment, with the id of its run."""

WORKFLOWS = """
import os

from signoff import Context, Signoff

app = Signoff(os.environ["SIGNOFF_STORE"])


def pay(run_id: str) -> None:
    with open("payments", "a") as payments:
        payments.write("\\n" + run_id + "\\n")  # behind a part of a line, if the disk was full


@app.workflow
async def refund(ctx: Context, amount: int) -> dict:
    order = await ctx.step("look_up", lambda: {"amount": amount})
    await ctx.sleep(0.05)
    answer = await ctx.wait_for_user(f"Refund {amount}?", timeout_seconds=3600)
    await ctx.step("pay", lambda: pay(ctx.run_id))
    return {"amount": order["amount"], "approved": answer.approved, "by": answer.user_id}


@app.workflow
async def tick(ctx: Context) -> str:
    return "ticked"
"""
