"""A connection for a few fixed statements, whose replies can be awaited with a timeout."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final

import psycopg
from psycopg import pq

from signoff.runtime.loggers import own_logger
from signoff.stores.postgres.schema import is_shared

log = own_logger("signoff.store")


# In binary format a NUL character does not truncate a text: the server rejects it.
_FORMATS: Final = {"t": pq.Format.TEXT, "b": pq.Format.BINARY}


class Statement(Enum):
    """The statements of a link, and the format of each of their values."""

    APPLY = b"SELECT signoff.apply($1)", "t"
    APPEND = b"SELECT signoff.append($1, $2)", "tt"
    APPEND_ENTRY = (
        b"SELECT signoff.append_entry($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        "bbtttbtbbbbb",
    )

    def __init__(self, sql: bytes, formats: str) -> None:
        self.sql = sql
        self.prepared_as = b"signoff_" + self.name.lower().encode()
        self.formats = [_FORMATS[format] for format in formats]


Value = bytes | None
"""A value of a statement in wire format."""

_GOOD: Final = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)


class Link:
    """Sends statements one at a time: each waits for the reply to the one before.

    psycopg's cursors block until the reply arrives. A link can wait briefly on an event loop and then on a thread.

    Args:
        connect: Opens a connection in autocommit mode.
        prepares: Whether to use prepared statements, which a transaction pooler may not support.
    """

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]], *, prepares: bool = True) -> None:
        self._connect = connect
        self._prepares = prepares
        self._connection: psycopg.Connection[Any] | None = None
        self._poll = select.poll()
        self._result: pq.abc.PGresult | None = None

    def prepare_no_more(self) -> bool:
        """Stop using prepared statements. Returns whether they were in use."""
        prepared, self._prepares = self._prepares, False
        if prepared:
            log.warning(
                "Postgres is behind a transaction pooler: set listen_address to an address for LISTEN"
            )
        return prepared

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    def open(self) -> None:
        """Connect. Raises psycopg.Error."""
        self.close()
        self._connection = connection = self._connect()
        if self._prepares:
            self._prepare(connection.pgconn)
        connection.pgconn.nonblocking = 1
        self._poll = select.poll()
        self._poll.register(connection.fileno(), select.POLLIN)

    def close(self) -> None:
        """Disconnect. A statement in flight may or may not take effect."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def send(self, statement: Statement, values: Sequence[Value]) -> None:
        """Send a statement. ``receive`` its reply before you send the next. Raises psycopg.Error."""
        pgconn = self._pgconn
        self._result = None
        if self._prepares:
            pgconn.send_query_prepared(statement.prepared_as, values, statement.formats)
        else:
            pgconn.send_query_params(statement.sql, values, param_formats=statement.formats)
        if pgconn.flush():
            self._poll.modify(pgconn.socket, select.POLLIN | select.POLLOUT)

    def stay_awake(self, seconds: float) -> None:
        """Busy-wait until a reply begins to arrive, at most ``seconds``: a sleeping core takes time to wake.

        Other threads can run meanwhile.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._poll.poll(0):
            pass

    def receive(self, seconds: float | None) -> bytes | None:
        """Return the reply; None if it has not arrived after ``seconds``. Without ``seconds``, wait indefinitely.

        Raises:
            psycopg.Error: The statement failed, or the connection is gone.
        """
        pgconn = self._pgconn
        began = time.monotonic()
        left = seconds
        while events := self._poll.poll(None if left is None else left * 1000):
            if events[0][1] & select.POLLOUT and not pgconn.flush():
                self._poll.modify(pgconn.socket, select.POLLIN)
            if events[0][1] & ~select.POLLOUT:
                pgconn.consume_input()
            while not pgconn.is_busy():
                result = pgconn.get_result()
                if result is None:
                    return self._reply()
                self._result = result
            if seconds is not None:
                left = max(0.0, began + seconds - time.monotonic())
        return None

    def _prepare(self, pgconn: pq.abc.PGconn) -> None:
        for statement in Statement:
            result = pgconn.prepare(statement.prepared_as, statement.sql)
            if result.status not in _GOOD:
                error = psycopg.errors.error_from_result(result)
                if not is_shared(error):
                    raise error
                self.prepare_no_more()
                return

    @property
    def _pgconn(self) -> pq.abc.PGconn:
        if self._connection is None:
            raise psycopg.OperationalError("the connection is closed")
        return self._connection.pgconn

    def _reply(self) -> bytes:
        result, self._result = self._result, None
        if result is None:
            raise psycopg.OperationalError("the server closed the connection")
        _check(result)
        reply = result.get_value(0, 0)
        assert reply is not None
        return reply


def _check(result: pq.abc.PGresult) -> None:
    if result.status not in _GOOD:
        raise psycopg.errors.error_from_result(result)
