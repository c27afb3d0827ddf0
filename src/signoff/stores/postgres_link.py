"""One connection that sends one kind of statement: text in, text out, with a wait that can be cut short."""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Any, Final

import psycopg
from psycopg import pq

STATEMENT: Final = b"SELECT signoff.apply($1)"

_GOOD: Final = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)


class Link:
    """Sends batches to ``signoff.apply``.

    psycopg's cursors wait until the reply is there; this can wait a moment on an event loop and the rest on a thread.

    Args:
        connect: Opens a connection in autocommit mode.
    """

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]]) -> None:
        self._connect = connect
        self._connection: psycopg.Connection[Any] | None = None
        self._poll = select.poll()
        self._result: pq.abc.PGresult | None = None

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    def open(self) -> None:
        """Connect. Raises psycopg.Error."""
        self.close()
        self._connection = connection = self._connect()
        connection.pgconn.nonblocking = 1
        self._poll = select.poll()
        self._poll.register(connection.fileno(), select.POLLIN)

    def close(self) -> None:
        """Disconnect; what is under way may or may not be done."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def send(self, batch: bytes) -> None:
        """Send a batch; ``receive`` its reply before the next one. Raises psycopg.Error."""
        self._result = None
        self._pgconn.send_query_params(STATEMENT, [batch])
        if self._pgconn.flush():
            self._poll.modify(self._pgconn.socket, select.POLLIN | select.POLLOUT)

    def receive(self, seconds: float | None) -> bytes | None:
        """Return the reply; None if it has not come after ``seconds``. None as seconds waits for ever.

        Raises:
            psycopg.Error: The statement failed, or the connection is gone.
        """
        pgconn = self._pgconn
        while True:
            events = self._poll.poll(None if seconds is None else seconds * 1000)
            if not events:
                return None
            if events[0][1] & select.POLLOUT and not pgconn.flush():
                self._poll.modify(pgconn.socket, select.POLLIN)
            if events[0][1] & ~select.POLLOUT:
                pgconn.consume_input()
            while not pgconn.is_busy():
                result = pgconn.get_result()
                if result is None:
                    return self._reply()
                self._result = result

    @property
    def _pgconn(self) -> pq.abc.PGconn:
        if self._connection is None:
            raise psycopg.OperationalError("the connection is closed")
        return self._connection.pgconn

    def _reply(self) -> bytes:
        result, self._result = self._result, None
        if result is None:
            raise psycopg.OperationalError("the server closed the connection")
        if result.status not in _GOOD:
            raise psycopg.errors.error_from_result(result)
        reply = result.get_value(0, 0)
        assert reply is not None
        return reply
