"""The workflows of the soak, as a module that the processes load."""

WORKFLOWS = """
import os

from signoff import Context, Signoff

app = Signoff(os.environ["SIGNOFF_STORE"])


def mark(name: str) -> None:
    with open("marks", "a") as marks:
        marks.write(name + "\\n")


@app.workflow
async def refund(ctx: Context, amount: int) -> dict:
    order = await ctx.step("look_up", lambda: {"amount": amount})
    await ctx.sleep(0.05)
    answer = await ctx.wait_for_user(f"Refund {amount}?", timeout_seconds=3600)
    await ctx.step("pay", lambda: mark(ctx.run_id))
    return {"amount": order["amount"], "approved": answer.approved, "by": answer.user_id}


@app.workflow
async def tick(ctx: Context) -> str:
    return "ticked"
"""
