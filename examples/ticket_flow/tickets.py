"""Refund tickets as a flow: small ones pass, others wait for finance, and the bank's report closes them.

This module's ``app`` is the worker's; ``service.py`` is the web service in front of it.
"""

from __future__ import annotations

import os

from pydantic import BaseModel, Field

from signoff import Signoff
from signoff.flows import Data, Flow

SMALL_CENTS = 1_000
DAY_SECONDS = 86_400.0

app = Signoff(os.environ.get("SIGNOFF_STORE", "sqlite:///signoff.db"), group="tickets")


class Ticket(BaseModel):
    """A customer's refund request."""

    id: str = Field(pattern=r"^[A-Za-z0-9-]{1,40}$")
    customer: str = Field(min_length=1, max_length=200)
    cents: int = Field(gt=0, le=10_000_000)


flow = Flow("ticket", input=Ticket, auto_close_timeout=30 * DAY_SECONDS)


def is_small(data: Data[Ticket]) -> bool:
    """Whether the refund is small enough to need no approval."""
    return data.input.cents <= SMALL_CENTS


def is_approved(data: Data[dict[str, object]]) -> bool:
    """Whether the refund was approved."""
    return data.input["approved"] is True


@flow.chunk
def note(data: Data[Ticket]) -> Ticket:
    """Store the ticket in the shared state."""
    data.set_state("ticket", data.input.model_dump(mode="json"))
    return data.input


@flow.chunk
def wave_through(data: Data[Ticket]) -> dict[str, object]:
    """Approve a small refund."""
    return {"approved": True, "note": "small"}


@flow.chunk
async def ask(data: Data[Ticket]) -> object:
    """Ask finance. No answer within a week counts as a no."""
    return await data.pause_for(
        "approval",
        {
            "question": f"Refund {data.input.cents / 100:.2f} to {data.input.customer} (ticket {data.input.id})?",
            "ticket": data.input,
        },
        interrupt_id="decision",
        timeout_seconds=7 * DAY_SECONDS,
        timeout_answer=False,
    )


@flow.chunk(effect="once")
def refund(data: Data[dict[str, object]]) -> str:
    """Notify the bank. This writes a line; yours calls an API with ``data.execution_id`` as its idempotency key."""
    return f"order-{data.execution_id}"


@flow.chunk
def refunding(data: Data[str]) -> None:
    """Record that the bank was notified."""
    data.set_state("status", "refunding")
    data.set_state("order", data.input)


@flow.chunk
def refuse(data: Data[dict[str, object]]) -> None:
    """Record the reason for the refusal."""
    data.set_state("status", "refused")
    data.set_state("reason", data.input.get("note", "no reason given"))


@flow.chunk
def settle(data: Data[dict[str, object]]) -> None:
    """Record the bank's report. It may arrive before we have recorded our own notification."""
    data.set_state("status", data.input["bank"])


noted = flow.to(note)
decided = noted.if_(is_small).to(wave_through).else_().to(ask).end_if()
decided.if_(is_approved).to(refund).to(refunding).else_().to(refuse).end_if()
flow.when("bank", {"chunk": "refunding"}).to(settle)
app.register(flow)
