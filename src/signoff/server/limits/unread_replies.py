"""Ends connections whose clients do not read: what they have not taken of a reply is in the server's memory."""

from __future__ import annotations

import asyncio
import weakref
from dataclasses import dataclass
from typing import Final

from signoff.runtime.loggers import own_logger

UNREAD_SECONDS: Final = 120.0
"""For how long a client may read nothing. The system takes some megabytes more before a server notices."""

UNREAD_BYTES: Final = 64 * 1024 * 1024
"""What replies may hold that wait for their clients, all together. Beyond that the slowest clients are cut off."""

LEAST_SECONDS: Final = 2.0
"""No client is cut off sooner."""

READ_BYTES_PER_SECOND: Final = 8 * 1024
"""How many bytes that a client takes make it a second longer."""

LOOK_SECONDS: Final = 0.5

log = own_logger("signoff.server")


@dataclass(slots=True)
class _Reply:
    size: int
    since: float  # on the loop's clock; later by what the client has read since


class UnreadReplies:
    """The connections of one event loop that wait for their clients to read. It is used on that loop."""

    def __init__(self) -> None:
        self._replies: dict[asyncio.Transport, _Reply] = {}
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> UnreadReplies:
        """Return those of a loop."""
        replies = _of_loops.get(loop)
        if replies is None:
            replies = _of_loops[loop] = cls()
        return replies

    def wait(self, transport: asyncio.Transport) -> None:
        """Note that a connection has more to send than its client takes."""
        loop = asyncio.get_running_loop()
        self._replies[transport] = _Reply(transport.get_write_buffer_size(), loop.time())
        if self._timer is None:
            self._timer = loop.call_later(LOOK_SECONDS, self._look)

    def end(self, transport: asyncio.Transport) -> None:
        """Note that a client has taken nearly all, or is gone."""
        self._replies.pop(transport, None)

    def _look(self) -> None:
        """Cut off who has read nothing for too long, and those who have read least while all hold too much."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for transport, reply in self._replies.items():
            size = transport.get_write_buffer_size()
            taken = max(0, reply.size - size)
            reply.size, reply.since = size, min(now, reply.since + taken / READ_BYTES_PER_SECOND)
        held = sum(reply.size for reply in self._replies.values())
        slowest = sorted(self._replies.items(), key=lambda each: each[1].since)
        for transport, reply in slowest:
            waited = now - reply.since
            if waited < (LEAST_SECONDS if held > UNREAD_BYTES else UNREAD_SECONDS):
                break
            held -= reply.size
            del self._replies[transport]
            log.info("a client is cut off: it has not read %d bytes for %.0f s", reply.size, waited)
            transport.abort()
        self._timer = loop.call_later(LOOK_SECONDS, self._look) if self._replies else None


_of_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, UnreadReplies] = weakref.WeakKeyDictionary()
