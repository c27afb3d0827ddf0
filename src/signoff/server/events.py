"""A run's journal as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Depends, Header
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic_core import to_json

from signoff.errors import NotFound
from signoff.records import Entry, LiveText
from signoff.server.bodies import ExactRoute
from signoff.server.examples import RECORDS
from signoff.server.ids import Id
from signoff.server.replies import Seq
from signoff.server.responses import gives_text
from signoff.server.services import CallerOf, Services, ServicesOf
from signoff.wire import to_wire, to_wire_json

router = APIRouter(prefix="/v1/runs", tags=["runs"], route_class=ExactRoute)

_EXAMPLE = f"id: 1\ndata: {to_json(to_wire(RECORDS[Entry])).decode()}\n\nevent: end\ndata: {{}}\n\n"


async def _known_run(run_id: Id, services: ServicesOf, caller: CallerOf) -> str:
    """Answer 404, or 429, while a status can still be sent. Of the run only its id is kept."""
    services.streams.check("journal", caller)
    return (await services.backend.get_run(run_id)).id


@router.get(
    "/{run_id}/events",
    response_class=EventSourceResponse,
    responses=gives_text(["text/event-stream"], _EXAMPLE, NotFound),
)
async def follow_journal(
    run_id: Annotated[str, Depends(_known_run)],
    services: ServicesOf,
    caller: CallerOf,
    after: Seq = -1,
    live: bool = False,
    last_event_id: Annotated[Seq | None, Header()] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Follow a run's journal: an event for each entry, its seq as the event's id, and ``end`` when the run has ended.

    A connection that is lost is resumed by the header ``Last-Event-ID``, which goes before ``after``.

    With ``live`` an event ``live`` comes for each piece of what running steps say, first what there is of it so far.
    It has no id: whoever resumes gets the entries that were missed, then what is live by then.
    """
    begin = after if last_event_id is None else last_event_id
    backend = services.backend
    events = backend.follow_live(run_id, after=begin) if live else backend.follow(run_id, after=begin)
    events = services.streams.counted("journal", caller, events)
    async for event in _until_stopped(services, events):
        data = to_wire_json(event).decode()
        if isinstance(event, LiveText):
            yield ServerSentEvent(event="live", raw_data=data)
        else:
            yield ServerSentEvent(id=str(event.seq), raw_data=data)
    if not services.stopping.is_set():
        yield ServerSentEvent(event="end", raw_data="{}")


async def _until_stopped(
    services: Services, events: AsyncGenerator[Entry | LiveText]
) -> AsyncGenerator[Entry | LiveText]:
    """Yield events until the run ends or the server stops."""
    async with aclosing(events):
        while (event := await services.wait_for(_next(events))) is not None:
            yield event


async def _next(events: AsyncGenerator[Entry | LiveText]) -> Entry | LiveText | None:
    return await anext(events, None)
