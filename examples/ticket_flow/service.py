"""The web service: tickets come in, webhooks answer them. ``uvicorn examples.ticket_flow.service:service``."""

from __future__ import annotations

import os
import secrets
from collections.abc import Awaitable
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Header, HTTPException
from pydantic import BaseModel, Field

from examples.ticket_flow.tickets import Ticket, flow
from signoff import AlreadySettled, IdConflict, NotFound, SignoffError, WrongAnswer
from signoff.errors import RequestConflict
from signoff.flows import Execution, ExecutionClosed, UnknownInterrupt

SECRET = os.environ.get("TICKETS_SECRET", "")


class Decision(BaseModel):
    """What the helpdesk's webhook says."""

    event_id: str = Field(min_length=1, max_length=100)
    ticket: str
    approved: bool
    by: str
    note: str | None = None


class BankWord(BaseModel):
    """What the bank's webhook says."""

    event_id: str = Field(min_length=1, max_length=100)
    ticket: str
    status: Literal["paid", "returned"]


def known_caller(secret: Annotated[str, Header(alias="X-Secret")] = "") -> None:
    """Let in who knows the secret."""
    if not SECRET or not secrets.compare_digest(secret.encode(), SECRET.encode()):
        raise HTTPException(401, "say the secret of TICKETS_SECRET in X-Secret")


service = FastAPI(title="Tickets", dependencies=[Depends(known_caller)])


async def ticket(id: str) -> Execution:
    """Return the execution of a ticket."""
    try:
        return await flow.attach(f"ticket-{id}")
    except NotFound:
        raise HTTPException(404, f"there is no ticket {id!r}") from None


@service.post("/tickets", status_code=202)
async def open_ticket(wanted: Ticket) -> dict[str, str]:
    """Open a ticket. Said twice it is opened once."""
    try:
        execution = await flow.start(wanted, id=f"ticket-{wanted.id}")
    except IdConflict as error:
        raise HTTPException(409, str(error)) from None
    return {"execution": execution.id}


@service.get("/tickets/{id}")
async def show_ticket(id: str) -> dict[str, Any]:
    """Return what a ticket waits for, or how it ended."""
    execution = await ticket(id)
    status = await execution.status()
    if status.is_final:
        return {"status": status.value, **await ended(execution.result())}
    pending = await execution.get_pending_interrupts(wait_seconds=0)
    return {"status": status.value, "waits_for": {id: each.question for id, each in pending.items()}}


@service.post("/webhooks/decision")
async def decide(said: Decision) -> dict[str, bool]:
    """Take a decision. A webhook that comes twice counts once; of two that differ the first one counts."""
    execution = await ticket(said.ticket)
    try:
        await execution.continue_with(
            "decision",
            {"approved": said.approved},
            user_id=said.by,
            note=said.note,
            request_id=said.event_id,
        )
    except UnknownInterrupt as error:
        raise HTTPException(404, str(error)) from None
    except WrongAnswer as error:
        raise HTTPException(422, str(error)) from None
    except (AlreadySettled, RequestConflict) as error:
        raise HTTPException(409, str(error)) from None
    return {"taken": True}


@service.post("/webhooks/bank")
async def hear_bank(said: BankWord) -> dict[str, bool]:
    """Take the bank's word. It may come before the refund is noted here: the flow joins both."""
    execution = await ticket(said.ticket)
    try:
        is_new = await execution.emit("bank", said.status, request_id=said.event_id)
    except ExecutionClosed as error:
        raise HTTPException(409, str(error)) from None
    except RequestConflict as error:
        raise HTTPException(409, str(error)) from None
    return {"taken": is_new}


@service.post("/tickets/{id}/close")
async def close_ticket(id: str) -> dict[str, Any]:
    """Close a ticket that is done; one that waits for somebody is cancelled."""
    return await ended((await ticket(id)).close(pending_interrupts="cancel", timeout_seconds=30))


async def ended(state: Awaitable[Any]) -> dict[str, Any]:
    """Return the state at the end, or what a ticket has failed with."""
    try:
        return {"state": await state}
    except TimeoutError:
        raise HTTPException(503, "it is not closed yet, as no worker has come to it; ask again") from None
    except SignoffError as error:
        return {"error": str(error)}
