"""Limits connections: how many a server holds, and how long one may take to send the head of a request.

uvicorn counts no connection that sends nothing. It has a time limit for connections that are idle between requests
alone, and each byte that arrives ends it.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import Any, Final

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from signoff.own_logs import own_logger
from signoff.process_limits import connection_limit, handle_limit

HEAD_SECONDS: Final = 10.0
"""How long a request's head may take, from the connection or from its first byte on."""

LOG_SECONDS: Final = 60.0
"""Seconds between two log records of connections that cannot be accepted."""

_ACCEPT_FAILED: Final = "socket.accept() out of system resource"

_REFUSED: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\nretry-after: 5\r\nconnection: close\r\n\r\n"
    b"this server has as many open connections as it can hold\n"
)

LINGER_SECONDS: Final = 1.0
"""How long a refused client may go on sending: closed at once, it would get a reset and not the refusal."""

log = own_logger("signoff.server")

_Protocol: Any = AutoHTTPProtocol
"""That of httptools where it is installed, else that of h11."""

_open: weakref.WeakSet[BoundedConnections] = weakref.WeakSet()
"""The connections of all servers of the process, which share its file handles."""


class BoundedConnections(_Protocol):
    """uvicorn's protocol, which waits for a head for ``HEAD_SECONDS`` at most. Answers may take longer."""

    head_timer: asyncio.TimerHandle | None = None
    is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)  # pyright: ignore[reportUnknownMemberType]
        _open.add(self)
        limit = connection_limit()
        self.is_refused = limit is not None and len(_open) > limit
        if self.is_refused:
            transport.write(_REFUSED)
            if transport.can_write_eof():
                transport.write_eof()
            self.loop.call_later(LINGER_SECONDS, transport.close)
        else:
            self._look()

    def data_received(self, data: bytes) -> None:
        if not self.is_refused:
            super().data_received(data)  # pyright: ignore[reportUnknownMemberType]
            self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        _open.discard(self)
        self._stop()
        super().connection_lost(exc)  # pyright: ignore[reportUnknownMemberType]

    def _look(self) -> None:
        """Begin to wait for a head, or have waited for one."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self.head_timer is None:
            self.head_timer = self.loop.call_later(HEAD_SECONDS, self._end)

    def _stop(self) -> None:
        if self.head_timer is not None:
            self.head_timer.cancel()
            self.head_timer = None

    def _end(self) -> None:
        self.head_timer = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


class AcceptErrors:
    """Logs connections that could not be accepted for want of a file handle, once a minute and event loop.

    asyncio's selector event loop reports the error up to 2,048 times a second, each with a traceback, which leaves no
    time for anything else. The servers of a loop share one handler.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._former = self._loop.get_exception_handler()
        self._logged_at: float | None = None
        self._servers = 0

    @classmethod
    def begin(cls) -> AcceptErrors:
        """Handle the errors of a server on the running loop, until ``end``."""
        loop = asyncio.get_running_loop()
        errors = _handlers.get(loop)
        if errors is None:
            errors = _handlers[loop] = cls()
            loop.set_exception_handler(errors._handle)
        errors._servers += 1
        return errors

    def end(self) -> None:
        """Leave the loop as it was, if no other server is left on it."""
        self._servers -= 1
        if self._servers == 0:
            del _handlers[self._loop]
            if self._loop.get_exception_handler() == self._handle:
                self._loop.set_exception_handler(self._former)

    def _handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if context.get("message") == _ACCEPT_FAILED:
            self._note(context.get("exception"))
        elif self._former is not None:
            self._former(loop, context)
        else:
            loop.default_exception_handler(context)

    def _note(self, error: BaseException | None) -> None:
        now = self._loop.time()
        if self._logged_at is not None and now - self._logged_at < LOG_SECONDS:
            return
        self._logged_at = now
        log.error(
            "connections cannot be accepted: %s; the process may have %s file handles, as `ulimit -n` says",
            error,
            handle_limit(),
        )


_handlers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AcceptErrors] = weakref.WeakKeyDictionary()
