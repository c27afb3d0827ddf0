"""A refund desk as an agent of the A2A protocol: ``uvicorn examples.a2a_refund.service:service``.

It signs nobody in: the proxy in front of it does, and names the calling agent.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request

from signoff import Action, Context, Signoff
from signoff.integrations.a2a import A2AAgent, Caller, a2a_routes

app = Signoff(os.environ.get("SIGNOFF_STORE", "sqlite:///signoff.db"))


@app.workflow
async def refund(ctx: Context, order: str, cents: int) -> str:
    """Ask the calling agent for the reason, and the people of finance for the approval."""
    reason = await ctx.wait_for_user("What is the reason?", input_type="text")
    answer = await ctx.wait_for_user(
        f"Refund {cents} cents of {order}? {reason.value}",
        assignees=["group:finance"],
        action=Action("refund", {"order": order, "cents": cents}),
    )
    return f"refunded {cents} cents of {order}" if answer.approved else f"denied: {answer.note}"


def signed_in(request: Request) -> Caller | None:
    """Return the caller that the proxy has signed in. The proxy must remove the header from requests that bring it."""
    user = request.headers.get("x-forwarded-user")
    return Caller(user) if user else None


@asynccontextmanager
async def lifespan(service: Starlette) -> AsyncGenerator[None]:
    """Run the workflow in this process, too."""
    async with app.worker():
        yield


url = os.environ.get("AGENT_URL", "http://127.0.0.1:8000/refunds")
agent = A2AAgent(
    source=app,
    workflow="refund",
    url=url,
    caller=signed_in,
    description="Refunds orders, once finance agrees.",
)
service = Starlette(routes=a2a_routes(agent), lifespan=lifespan)
