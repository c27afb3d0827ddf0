"""uvicorn inside another asyncio program."""

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
"""How long requests may go on when the server stops. Those that wait for something do not."""


def bind(host: str, port: int) -> socket.socket:
    """Return a socket to listen with; port 0 takes a free one. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named asyncio sets TCP_NODELAY, without which each answer takes 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    if os.name == "posix":  # elsewhere it would let two servers share a port
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"cannot listen on {host} port {port}: {error.strerror}") from None
    return listener


def url_of(host: str, port: int) -> str:
    """Return where a server is reached from this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Serving(uvicorn.Server):
    """uvicorn as a task that says when it listens and leaves signals to the program.

    Args:
        app: What to serve.
        listener: Where, see ``bind``.
        stopping: Set when it is about to stop, for requests that wait for something.
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
        # At its level TRACE, which a root logger of level 1 brings, it would log secrets: paths of links, and headers.
        served: Any = vars(config)["loaded_app"]
        if isinstance(served, MessageLoggerMiddleware):
            config.loaded_app = served.app
        super().__init__(config)
        self.listening = asyncio.Event()
        self._stopping = stopping or asyncio.Event()
        self._accept_errors: AcceptErrors | None = None
        self.task = asyncio.create_task(self.serve([listener]), name="signoff server")

    async def stop(self) -> None:
        """Let requests end, and stop."""
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
