"""A run's journal and its timeline as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header
from fastapi.sse import format_sse_event
from pydantic_core import to_json
from starlette.responses import Response, StreamingResponse

from signoff.errors import NotFound
from signoff.records import Entry, LiveText
from signoff.records.timeline import TimelineChange, TimelineMark
from signoff.server.feeds.commit_feed import PING_SECONDS, UNBUFFERED
from signoff.server.http.path_ids import Id
from signoff.server.http.request_bodies import ExactRoute
from signoff.server.http.responses import Seq
from signoff.server.openapi.declared_responses import gives_text
from signoff.server.openapi.examples import RECORDS
from signoff.server.services import CallerOf, Services, ServicesOf
from signoff.wire.records import Record, to_wire, to_wire_json

PART_BYTES: Final = 64 * 1024

_HEADERS: Final = {**UNBUFFERED, "cache-control": "no-cache"}
_PING: Final = b": ping\n\n"
_END: Final = format_sse_event(event="end", data_str="{}")

router = APIRouter(prefix="/v1/runs", tags=["runs"], route_class=ExactRoute)


def _example(kind: type[Record]) -> str:
    return f"id: 1\ndata: {to_json(to_wire(RECORDS[kind])).decode()}\n\nevent: end\ndata: {{}}\n\n"


async def _known_run(run_id: Id, services: ServicesOf, caller: CallerOf) -> str:
    """Raise NotFound or TooManyRequests before the stream starts. Return only the id, to save memory."""
    services.streams.check("journal", caller)
    room = services.streams.room(caller)
    async with room.reads:
        return (await services.backend.get_run(run_id)).id


@router.get(
    "/{run_id}/events",
    response_class=StreamingResponse,
    responses=gives_text(["text/event-stream"], _example(Entry), NotFound),
)
async def follow_journal(
    run_id: Annotated[str, Depends(_known_run)],
    services: ServicesOf,
    caller: CallerOf,
    after: Seq = -1,
    live: bool = False,
    last_event_id: Annotated[Seq | None, Header()] = None,
) -> Response:
    """Follow a run's journal: one event per entry, with its seq as the event's id, and ``end`` when the run has ended.

    Send the header ``Last-Event-ID`` to resume a lost connection. It takes precedence over ``after``.

    With ``live``, an event ``live`` is sent for each piece of running steps' live text, starting with the text so far.
    These events have no id: a resumed stream gets the missed entries, then the current live text.
    """
    begin = after if last_event_id is None else last_event_id
    backend = services.backend.sharing(services.streams.room(caller))
    events = backend.follow_live(run_id, after=begin) if live else backend.follow(run_id, after=begin)
    events = services.streams.counted("journal", caller, events)
    return StreamingResponse(_parts(services, events), media_type="text/event-stream", headers=_HEADERS)


@router.get(
    "/{run_id}/timeline",
    response_class=StreamingResponse,
    responses=gives_text(["text/event-stream"], _example(TimelineChange), NotFound),
)
async def read_timeline(
    run_id: Annotated[str, Depends(_known_run)],
    services: ServicesOf,
    caller: CallerOf,
    after: Seq = -1,
    follow: bool = False,
    live: bool = False,
    last_event_id: Annotated[Seq | None, Header()] = None,
) -> Response:
    """Read a run's timeline: a row for each call of the run, and for each event of the run itself, such as its end.

    Each event is a `TimelineChange` of a row. The first change of a row describes it; each later one replaces what may
    change, and adds at most one failed attempt. The event's id is the seq of a journal entry; send it as
    ``Last-Event-ID`` or ``after`` to get only the changes that later entries made.

    An event ``current`` follows when the rows are up to date, then ``end``. With ``follow``, changes are sent as they
    happen, until the run has ended. With ``live``, an event ``live`` is sent for each piece of steps' live text.
    """
    begin = after if last_event_id is None else last_event_id
    backend = services.backend.sharing(services.streams.room(caller))
    events = backend.timeline(run_id, after=begin, follow=follow, live=live)
    events = services.streams.counted("journal", caller, events)
    return StreamingResponse(_parts(services, events), media_type="text/event-stream", headers=_HEADERS)


_Event = Entry | TimelineChange | LiveText | TimelineMark


async def _parts(services: Services, events: AsyncGenerator[_Event]) -> AsyncGenerator[bytes]:
    """Yield the encoded events in parts, until the run ends or the server stops.

    The next event is read when the client has received nearly all of the previous one. Events are sent in small parts,
    and the server holds a part back until the earlier ones are sent.
    """
    stopping = asyncio.ensure_future(services.stopping.wait())
    async with aclosing(events):
        try:
            while True:
                coming = asyncio.ensure_future(_next(events))
                try:
                    while not await _is_done(coming, stopping):
                        yield _PING
                    if not coming.done():
                        return
                    event = coming.result()
                finally:
                    await _end(coming)
                sent = event or _END
                for start in range(0, len(sent), PART_BYTES):
                    yield sent[start : start + PART_BYTES]
                if event is None:
                    return
                del coming, event, sent
        finally:
            await _end(stopping)


async def _is_done(*awaited: asyncio.Future[Any]) -> bool:
    """Wait until one future is done, at most until the next keep-alive is due. Return whether one is done."""
    done, _ = await asyncio.wait(awaited, timeout=PING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    return bool(done)


async def _end(future: asyncio.Future[Any]) -> None:
    future.cancel()
    await asyncio.gather(future, return_exceptions=True)


async def _next(events: AsyncGenerator[_Event]) -> bytes | None:
    event = await anext(events, None)
    if event is None:
        return None
    if isinstance(event, TimelineMark):
        return format_sse_event(event=event.value, data_str="{}")
    data = to_wire_json(event).decode()
    if isinstance(event, LiveText):
        return format_sse_event(event="live", data_str=data)
    return format_sse_event(id=str(event.seq), data_str=data)
