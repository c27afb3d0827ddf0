"""Two of three people must agree, and the requester is not one of them."""

from __future__ import annotations

from examples.shop.app import app
from examples.shop.services import deploy
from signoff import Context, Quorum


@app.workflow
async def release(ctx: Context, version: str, changes: list[str]) -> dict[str, object]:
    answer = await ctx.wait_for_user(
        f"Put version {version} of the shop online?",
        quorum=Quorum(2, of=3),
        exclude_requester=True,
        metadata={"changes": changes},
        remind_every=1800,
    )
    votes = {vote.user_id: "yes" if vote.approved else "no" for vote in answer.votes}
    if not answer.approved:
        return {"status": "kept back", "votes": votes}
    address = await ctx.step(deploy, version)
    return {"status": "online", "at": address, "votes": votes}
