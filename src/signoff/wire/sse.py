"""Reading server-sent events. (httpx's own lines also end at characters that JSON text may hold as they are.)"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple


class Event(NamedTuple):
    """One event of a stream."""

    name: str
    data: str
    id: str | None


async def read_events(chunks: AsyncIterator[bytes]) -> AsyncIterator[Event]:
    """Yield the events of a stream. Comments are passed over."""
    name, data, id = "message", "", None
    async for line in read_lines(chunks):
        field, _, value = line.decode().partition(": ")
        if field == "event":
            name = value
        elif field == "data":
            data = value
        elif field == "id":
            id = value
        elif not line and data:
            yield Event(name, data, id)
            name, data, id = "message", "", None


async def read_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield whole lines. What follows the last line's end is dropped."""
    parts: list[bytes] = []  # of a line whose end has not come
    async for chunk in chunks:
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            yield b"".join((*parts, line))
            parts.clear()
        if rest:
            parts.append(rest)
