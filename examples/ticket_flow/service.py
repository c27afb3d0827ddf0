"""The web service: opens tickets, and passes webhooks on to them. ``uvicorn examples.ticket_flow.service:service``."""

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
    """The body of the helpdesk's webhook."""

    event_id: str = Field(min_length=1, max_length=100)
    ticket: str
    approved: bool
    by: str
    note: str | None = None


class BankWord(BaseModel):
    """The body of the bank's webhook."""

    event_id: str = Field(min_length=1, max_length=100)
    ticket: str
    status: Literal["paid", "returned"]


def known_caller(secret: Annotated[str, Header(alias="X-Secret")] = "") -> None:
    """Refuse callers that do not know the secret."""
    if not SECRET or not secrets.compare_digest(secret.encode(), SECRET.encode()):
        raise HTTPException(401, "send the value of TICKETS_SECRET in the X-Secret header")


service = FastAPI(title="Tickets", dependencies=[Depends(known_caller)])


async def ticket(id: str) -> Execution:
    """Return the execution of a ticket."""
    try:
        return await flow.attach(f"ticket-{id}")
    except NotFound:
        raise HTTPException(404, f"ticket {id!r} does not exist") from None


@service.post("/tickets", status_code=202)
async def open_ticket(wanted: Ticket) -> dict[str, str]:
    """Open a ticket. A repeated request opens it only once."""
    try:
        execution = await flow.start(wanted, id=f"ticket-{wanted.id}")
    except IdConflict as error:
        raise HTTPException(409, str(error)) from None
    return {"execution": execution.id}


@service.get("/tickets/{id}")
async def show_ticket(id: str) -> dict[str, Any]:
    """Return the open questions of a ticket, or its result."""
    execution = await ticket(id)
    status = await execution.status()
    if status.is_final:
        return {"status": status.value, **await ended(execution.result())}
    pending = await execution.get_pending_interrupts(wait_seconds=0)
    return {"status": status.value, "waits_for": {id: each.question for id, each in pending.items()}}


@service.post("/webhooks/decision")
async def decide(said: Decision) -> dict[str, bool]:
    """Record a decision. A repeated webhook counts once; of two different decisions the first one counts."""
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
    """Record the bank's report. It may arrive before the refund is recorded here: the flow joins both."""
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
    """Close a finished ticket. A ticket that is waiting is cancelled."""
    return await ended((await ticket(id)).close(pending_interrupts="cancel", timeout_seconds=30))


async def ended(state: Awaitable[Any]) -> dict[str, Any]:
    """Return the final state, or the error of a failed ticket."""
    try:
        return {"state": await state}
    except TimeoutError:
        raise HTTPException(
            503, "it is not closed yet, since no worker has processed it; try again"
        ) from None
    except SignoffError as error:
        return {"error": str(error)}
