"""Reader of server-sent events. httpx's ``aiter_lines`` also splits at characters that JSON strings may contain."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple


class Event(NamedTuple):
    """One event of a stream."""

    name: str
    data: str
    id: str | None


async def read_events(chunks: AsyncIterator[bytes]) -> AsyncIterator[Event]:
    """Yield the events of a stream, without comments."""
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
    """Yield complete lines. An incomplete last line is dropped."""
    parts: list[bytes] = []  # of the incomplete line
    async for chunk in chunks:
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            yield b"".join((*parts, line))
            parts.clear()
        if rest:
            parts.append(rest)
