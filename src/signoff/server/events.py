"""A run's journal as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Depends, Header
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic_core import to_json

from signoff.errors import NotFound
from signoff.records import Entry, Run
from signoff.server.examples import RECORDS
from signoff.server.ids import Id
from signoff.server.replies import Seq
from signoff.server.responses import gives_text
from signoff.server.services import Services, ServicesOf
from signoff.wire import to_wire

router = APIRouter(prefix="/v1/runs", tags=["runs"])

_EXAMPLE = f"id: 1\ndata: {to_json(to_wire(RECORDS[Entry])).decode()}\n\nevent: end\ndata: {{}}\n\n"


async def _known_run(run_id: Id, services: ServicesOf) -> Run:
    """Answer 404 while a status can still be sent."""
    return await services.backend.get_run(run_id)


@router.get(
    "/{run_id}/events",
    response_class=EventSourceResponse,
    responses=gives_text(["text/event-stream"], _EXAMPLE, NotFound),
)
async def follow_journal(
    run: Annotated[Run, Depends(_known_run)],
    services: ServicesOf,
    after: Seq = -1,
    last_event_id: Annotated[Seq | None, Header()] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Follow a run's journal: an event for each entry, its seq as the event's id, and ``end`` when the run has ended.

    A connection that is lost is resumed by the header ``Last-Event-ID``, which goes before ``after``.
    """
    begin = after if last_event_id is None else last_event_id
    async for entry in _entries(services, run.id, begin):
        yield ServerSentEvent(id=str(entry.seq), raw_data=to_json(to_wire(entry)).decode())
    if not services.stopping.is_set():
        yield ServerSentEvent(event="end", raw_data="{}")


async def _entries(services: Services, run_id: str, after: int) -> AsyncIterator[Entry]:
    """Yield journal entries until the run ends or the server stops."""
    async with aclosing(services.backend.follow(run_id, after=after)) as journal:
        while (entry := await services.wait_for(_next(journal))) is not None:
            yield entry


async def _next(journal: AsyncIterator[Entry]) -> Entry | None:
    return await anext(journal, None)
