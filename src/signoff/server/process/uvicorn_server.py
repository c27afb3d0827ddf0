"""Runs uvicorn inside another asyncio program."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.middleware.message_logger import MessageLoggerMiddleware

from signoff.server.limits.connections import IDLE_SECONDS, AcceptErrors, BoundedConnections

GRACE_SECONDS = 5
"""How long requests may continue when the server stops. Waiting requests end at once."""


def bind(host: str, port: int, *, unacknowledged_seconds: float | None = None) -> socket.socket:
    """Return a socket bound to an address.

    Args:
        host: The address.
        port: The port; 0 takes a free one.
        unacknowledged_seconds: How long the peer of a connection may acknowledge no data until the system ends the
            connection. None: the system's default, some 15 minutes, and always so on systems other than Linux.

    Raises:
        OSError: It cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With an explicit protocol asyncio sets TCP_NODELAY, without which each response takes 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    if os.name == "posix":  # on Windows, two servers could then share a port
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if unacknowledged_seconds is not None and hasattr(socket, "TCP_USER_TIMEOUT"):  # connections inherit it
        milliseconds = int(unacknowledged_seconds * 1000)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"cannot listen on {host} port {port}: {error.strerror}") from None
    return listener


def url_of(host: str, port: int) -> str:
    """Return the URL that reaches a server from this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Serving(uvicorn.Server):
    """uvicorn as a task that reports when it listens and leaves signals to the program.

    Args:
        app: The ASGI app.
        listener: A socket from ``bind``.
        stopping: Set when the server is about to stop, so that waiting requests end.
    """

    def __init__(self, app: ASGIApp, listener: socket.socket, stopping: asyncio.Event | None = None) -> None:
        config = uvicorn.Config(
            app,
            lifespan="off",
            http=BoundedConnections,
            ws="none",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        config.load()
        # At level TRACE, which a root logger of level 1 enables, uvicorn would log secrets: link paths and headers.
        served: Any = vars(config)["loaded_app"]
        if isinstance(served, MessageLoggerMiddleware):
            config.loaded_app = served.app
        super().__init__(config)
        self.listening = asyncio.Event()
        self._stopping = stopping or asyncio.Event()
        self._accept_errors: AcceptErrors | None = None
        self.task = asyncio.create_task(self.serve([listener]), name="signoff server")

    async def stop(self) -> None:
        """Let requests finish, and stop."""
        self.should_exit = True
        await self.task

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._accept_errors = AcceptErrors.begin()
        self.listening.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping.set()
        await super().shutdown(sockets)
        if self._accept_errors is not None:
            self._accept_errors.end()
            self._accept_errors = None

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield
