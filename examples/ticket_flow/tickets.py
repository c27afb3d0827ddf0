"""Refund tickets as a flow: small ones pass, others wait for finance, and the bank's word closes them.

Its worker is this module's ``app``; ``service.py`` is the web service before it.
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
    """What a customer wants back."""

    id: str = Field(pattern=r"^[A-Za-z0-9-]{1,40}$")
    customer: str = Field(min_length=1, max_length=200)
    cents: int = Field(gt=0, le=10_000_000)


flow = Flow("ticket", input=Ticket, auto_close_timeout=30 * DAY_SECONDS)


def is_small(data: Data[Ticket]) -> bool:
    """Whether nobody need be asked."""
    return data.input.cents <= SMALL_CENTS


def is_approved(data: Data[dict[str, object]]) -> bool:
    """Whether it is to be refunded."""
    return data.input["approved"] is True


@flow.chunk
def note(data: Data[Ticket]) -> Ticket:
    """Keep the ticket where all chunks see it."""
    data.set_state("ticket", data.input.model_dump(mode="json"))
    return data.input


@flow.chunk
def wave_through(data: Data[Ticket]) -> dict[str, object]:
    """Approve what is small."""
    return {"approved": True, "note": "small"}


@flow.chunk
async def ask(data: Data[Ticket]) -> object:
    """Ask finance; nobody's answer in a week is a no."""
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
    """Tell the bank. This one writes a line; yours calls an API with ``data.execution_id`` as its idempotency key."""
    return f"order-{data.execution_id}"


@flow.chunk
def refunding(data: Data[str]) -> None:
    """Say that the bank has been told."""
    data.set_state("status", "refunding")
    data.set_state("order", data.input)


@flow.chunk
def refuse(data: Data[dict[str, object]]) -> None:
    """Say why not."""
    data.set_state("status", "refused")
    data.set_state("reason", data.input.get("note", "nobody has said why"))


@flow.chunk
def settle(data: Data[dict[str, object]]) -> None:
    """Take the bank's word, which may come before we know that we have told it."""
    data.set_state("status", data.input["bank"])


noted = flow.to(note)
decided = noted.if_(is_small).to(wave_through).else_().to(ask).end_if()
decided.if_(is_approved).to(refund).to(refunding).else_().to(refuse).end_if()
flow.when("bank", {"chunk": "refunding"}).to(settle)
app.register(flow)
