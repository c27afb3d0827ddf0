"""Follows a run's journal or timeline on a server, over server-sent events. A broken stream is resumed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TypeVar

import httpx
from pydantic_core import from_json

from signoff.client.http_transport import PATIENT, HttpTransport
from signoff.client.request_bodies import path_to
from signoff.records import Entry, LiveText
from signoff.records.timeline import TimelineChange, TimelineMark
from signoff.wire.records import from_wire
from signoff.wire.sse import read_events

S = TypeVar("S", Entry, TimelineChange)


async def run_stream(
    http: HttpTransport, run_id: str, stream: str, kind: type[S], after: int, query: dict[str, str]
) -> AsyncGenerator[S | LiveText | TimelineMark, None]:
    """Yield what a run's stream sends from ``after`` on, live, until the run has ended.

    Args:
        http: The server.
        run_id: The run. It exists.
        stream: The stream's name in its path, such as ``events``.
        kind: The type of its events.
        after: The last seen entry's number.
        query: Further query parameters, such as ``live``.

    Raises:
        StoreUnavailable: The server does not answer.
    """
    broken = 0
    ended = False
    while True:
        try:
            async with http.stream(
                path_to("runs", run_id, stream), {"last-event-id": str(after)}, query
            ) as chunks:
                async for event in read_events(chunks):
                    if event.name == "end":
                        # Continue: a stream read to its end has nothing left to close.
                        ended = True
                        continue
                    broken = 0
                    if event.name == "live":
                        yield from_wire(LiveText, from_json(event.data))
                        continue
                    if event.name == TimelineMark.CURRENT.value:
                        yield TimelineMark.CURRENT
                        continue
                    item = from_wire(kind, from_json(event.data))
                    after = item.seq
                    yield item
        except httpx.TransportError as error:
            if broken == len(PATIENT) and not ended:
                raise http.unreachable(error) from error
        if ended:
            return
        await asyncio.sleep(PATIENT[min(broken, len(PATIENT) - 1)])
        broken += 1
