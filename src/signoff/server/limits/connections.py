"""Limits the number of connections, and the time to send a request and to read the response.

uvicorn does not count connections that send nothing. Its only time limit is for connections that are idle between
requests, and the first byte that arrives ends it.

Requests are parsed by h11, also where httptools is installed: what else is installed beside Signoff changes neither
which requests it accepts nor where it sees the end of one.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import Any, Final, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from signoff.runtime.loggers import own_logger
from signoff.runtime.process_limits import connection_limit, handle_limit
from signoff.server.limits.unread_replies import UnreadReplies

HEAD_SECONDS: Final = 10.0
"""Time limit for a request's head, from the connection or from the head's first byte on."""

BODY_SECONDS: Final = 30.0
"""Time limit for a request's body after its head. It grows with the bytes received."""

BODY_BYTES_PER_SECOND: Final = 8 * 1024
"""Bytes of a body that extend its time limit by a second. Slower clients are disconnected."""

IDLE_SECONDS: Final = 75
"""How long a connection may be idle between requests.

It is longer than clients keep an idle connection: ours 30 seconds, load balancers usually 60. A server that closes
first may do so while the next request is on its way, which then fails.
"""

LOG_SECONDS: Final = 60.0
"""Seconds between two log records of connections that cannot be accepted."""

_ACCEPT_FAILED: Final = "socket.accept() out of system resource"

_REFUSED: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\nretry-after: 5\r\nconnection: close\r\n\r\n"
    b"this server has as many open connections as it can hold\n"
)

_TOO_SLOW: Final = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n"
    b"the body of this request arrived too slowly\n"
)

LINGER_SECONDS: Final = 1.0
"""How long a refused client may keep sending. If closed at once, it would get a reset instead of the refusal."""

log = own_logger("signoff.server")

_Protocol: Any = H11Protocol
"""uvicorn's protocol, whose methods have no complete types."""

_open: weakref.WeakSet[BoundedConnections] = weakref.WeakSet()
"""The connections of all servers in the process, which share its file handles."""


class _OneWrite(h11.Connection):
    """h11's connection, which returns the head of a response of known length together with its body.

    uvicorn writes what each event returns. A system call for the head alone takes a tenth of a short request, and the
    client another one to receive it.
    """

    _head: bytes = b""

    def send(self, event: Any) -> Any:
        written = cast("bytes | None", super().send(event))
        if type(event) is h11.Response and any(name == b"content-length" for name, _ in event.headers):
            self._head = written or b""
            return b""
        if self._head and written is not None:
            head, self._head = self._head, b""
            return head + written
        return written


class BoundedConnections(_Protocol):
    """uvicorn's protocol, with time limits for receiving heads and bodies and for sending responses."""

    timer: asyncio.TimerHandle | None = None
    is_refused = False
    body_of: Any = None  # the request whose body is waited for
    body_began_at = 0.0
    body_bytes = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)  # pyright: ignore[reportUnknownMemberType]
        self.conn = _OneWrite(h11.SERVER)

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
            self.body_bytes += len(data)

    def pause_writing(self) -> None:
        super().pause_writing()  # pyright: ignore[reportUnknownMemberType]
        UnreadReplies.of(self.loop).wait(self.transport)

    def resume_writing(self) -> None:
        UnreadReplies.of(self.loop).end(self.transport)
        super().resume_writing()  # pyright: ignore[reportUnknownMemberType]

    def connection_lost(self, exc: Exception | None) -> None:
        _open.discard(self)
        self._stop()
        UnreadReplies.of(self.loop).end(self.transport)
        super().connection_lost(exc)  # pyright: ignore[reportUnknownMemberType]

    def _reading(self) -> tuple[bool, bool]:
        """Return whether a part of a head has arrived, and whether a part of a body is still to come."""
        return self.conn.trailing_data[0] != b"", self.conn.their_state is h11.SEND_BODY

    def _look(self) -> None:
        """Start or stop the timer for a head or a body."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            self._look_after_response()
        elif not cycle.more_body:
            self._stop()
        elif self.body_of is not cycle:
            self._stop()
            self.body_of, self.body_began_at, self.body_bytes = cycle, self.loop.time(), 0
            self.timer = self.loop.call_later(BODY_SECONDS, self._end_body)

    def _look_after_response(self) -> None:
        """Start the timer for the rest of a body that was refused unread, or else for the next request."""
        has_head, has_body = self._reading()
        if self.body_of is not None:
            if has_body:
                return
            self._stop()
        if self.cycle is None or has_head:
            if self.timer is None:
                self.timer = self.loop.call_later(HEAD_SECONDS, self._end_head)
        elif self.timeout_keep_alive_task is None and not self.transport.is_closing():
            # uvicorn stopped its own timer when the last bytes arrived.
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _stop(self) -> None:
        self.body_of = None
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _end_head(self) -> None:
        self.timer = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()

    def _end_body(self) -> None:
        """Close the connection if its body is late. While the server does not read it, the client is not slow."""
        self.timer = None
        cycle = self.cycle
        if not cycle.response_complete and not cycle.more_body:
            return
        left = self.body_began_at + BODY_SECONDS + self.body_bytes / BODY_BYTES_PER_SECOND - self.loop.time()
        if self.flow.read_paused or cycle.waiting_for_100_continue:
            left = max(left, BODY_SECONDS)
        if left > 0 and not cycle.response_complete:
            self.timer = self.loop.call_later(left, self._end_body)
            return
        if not cycle.response_started:
            self.transport.write(_TOO_SLOW)
        self.transport.close()


class AcceptErrors:
    """Logs connections that could not be accepted for lack of file handles, once a minute per event loop.

    asyncio's selector event loop reports the error up to 2,048 times a second, each with a traceback, which leaves no
    time for other work. The servers of a loop share one handler.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._former = self._loop.get_exception_handler()
        self._logged_at: float | None = None
        self._servers = 0

    @classmethod
    def begin(cls) -> AcceptErrors:
        """Start handling the errors of a server on the running loop, until ``end``."""
        loop = asyncio.get_running_loop()
        errors = _handlers.get(loop)
        if errors is None:
            errors = _handlers[loop] = cls()
            loop.set_exception_handler(errors._handle)
        errors._servers += 1
        return errors

    def end(self) -> None:
        """Restore the loop's former handler if no other server is left on the loop."""
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
