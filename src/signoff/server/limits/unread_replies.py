"""Closes connections whose clients do not read: the unread part of a response occupies the server's memory."""

from __future__ import annotations

import asyncio
import weakref
from dataclasses import dataclass
from typing import Final

from signoff.runtime.loggers import own_logger

UNREAD_SECONDS: Final = 120.0
"""How long a client may read nothing. The system buffers some megabytes more before the server notices."""

UNREAD_BYTES: Final = 64 * 1024 * 1024
"""Maximum bytes of all unread responses together. Beyond it, the slowest clients are disconnected."""

LEAST_SECONDS: Final = 2.0
"""No client is disconnected sooner."""

READ_BYTES_PER_SECOND: Final = 8 * 1024
"""Bytes that a client reads to extend its time limit by a second."""

LOOK_SECONDS: Final = 0.5

log = own_logger("signoff.server")


@dataclass(slots=True)
class _Reply:
    size: int
    since: float  # on the loop's clock; moved forward as the client reads


class UnreadReplies:
    """The connections of one event loop that wait for their clients to read. Use it on that loop only."""

    def __init__(self) -> None:
        self._replies: dict[asyncio.Transport, _Reply] = {}
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> UnreadReplies:
        """Return the object of a loop."""
        replies = _of_loops.get(loop)
        if replies is None:
            replies = _of_loops[loop] = cls()
        return replies

    def wait(self, transport: asyncio.Transport) -> None:
        """Register a connection that has more to send than its client reads."""
        loop = asyncio.get_running_loop()
        self._replies[transport] = _Reply(transport.get_write_buffer_size(), loop.time())
        if self._timer is None:
            self._timer = loop.call_later(LOOK_SECONDS, self._look)

    def end(self, transport: asyncio.Transport) -> None:
        """Remove a connection: its client has read nearly everything, or is gone."""
        self._replies.pop(transport, None)

    def _look(self) -> None:
        """Disconnect clients that read too slowly, sooner while all unread responses together are over the limit."""
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
            log.info("a client is disconnected: it has not read %d bytes for %.0f s", reply.size, waited)
            transport.abort()
        self._timer = loop.call_later(LOOK_SECONDS, self._look) if self._replies else None


_of_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, UnreadReplies] = weakref.WeakKeyDictionary()
