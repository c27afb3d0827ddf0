"""Serving the API with uvicorn, alone or inside another asyncio program."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import AsyncExitStack, contextmanager
from typing import TypedDict, Unpack

import uvicorn
from fastapi import FastAPI

from signoff.app import Signoff
from signoff.server.app import create_server_app
from signoff.server.keys import WorkerKeys
from signoff.stores.base import Store


class ServerOptions(TypedDict, total=False):
    """What else a server may be told, see ``create_server_app``."""

    worker_keys: WorkerKeys | None
    worker_lease_seconds: float | None
    retention_days: float | None


GRACE_SECONDS = 5
"""How long requests may go on when the server stops. Those that wait for something do not."""


class Server:
    """A server on the running event loop, as an async context manager: it listens within, and has stopped after.

    It handles no signals. Leaving it lets requests end; the store stays open.

    Args:
        app_or_store: What to serve, see ``create_server_app``.
        host: The address to listen on.
        port: The port; 0 takes a free one.
        allowed_hosts: Names the server is reached by, besides the local ones and ``host``.
        options: What else ``create_server_app`` takes.

    Example:
        async with Server(store, port=0) as server:
            async with AsyncClient(server.url) as client:
                ...
    """

    def __init__(
        self,
        app_or_store: Signoff | Store,
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        allowed_hosts: Iterable[str] = (),
        **options: Unpack[ServerOptions],
    ) -> None:
        self.host = host
        self.port = port
        self._app = create_server_app(app_or_store, allowed_hosts=(host, *allowed_hosts), **options)
        self._stack = AsyncExitStack()

    @property
    def url(self) -> str:
        """Where it is reached from this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    async def __aenter__(self) -> Server:
        listener = self._bind()
        self._stack.callback(listener.close)
        try:
            await self._stack.enter_async_context(self._app.router.lifespan_context(self._app))
            self._serving = _Serving(self._app, listener)
            self._stack.push_async_callback(self._serving.stop)
            await self._serving.listening.wait()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def drain(self, until: Awaitable[object]) -> None:
        """Say at /ready that it is about to stop, and go on serving meanwhile: whoever sends requests sends no more."""
        self._app.state.services.readiness.drain()
        await until

    async def wait_closed(self) -> None:
        """Wait until it serves no more, which nobody but whoever leaves it brings about."""
        await asyncio.shield(self._serving.task)

    def _bind(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        # With the protocol named asyncio sets TCP_NODELAY, without which each answer takes 40 ms.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        if os.name == "posix":  # elsewhere it would let two servers share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self.host, self.port))
        except OSError as error:
            listener.close()
            raise OSError(
                error.errno, f"cannot listen on {self.host} port {self.port}: {error.strerror}"
            ) from None
        self.port = listener.getsockname()[1]
        return listener


async def serve(
    app_or_store: Signoff | Store,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    allowed_hosts: Iterable[str] = (),
    listening: Callable[[Server], None] | None = None,
    **options: Unpack[ServerOptions],
) -> None:
    """Serve until cancelled.

    Args:
        app_or_store: What to serve, see ``create_server_app``.
        host: The address to listen on.
        port: The port; 0 takes a free one.
        allowed_hosts: Names the server is reached by, besides the local ones and ``host``.
        listening: Called once the server can be reached, with its ``url`` and ``port``.
        options: What else ``create_server_app`` takes.

    Raises:
        OSError: The address cannot be listened on.
        StoreUnavailable: The store cannot be opened.
    """
    async with Server(app_or_store, host=host, port=port, allowed_hosts=allowed_hosts, **options) as server:
        if listening is not None:
            listening(server)
        await server.wait_closed()


class _Serving(uvicorn.Server):
    """uvicorn as a task that says when it listens and leaves signals to the program."""

    def __init__(self, app: FastAPI, listener: socket.socket) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="off",
                ws="none",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )
        self.listening = asyncio.Event()
        self._stopping: asyncio.Event = app.state.services.stopping
        self.task = asyncio.create_task(self.serve([listener]), name="signoff server")

    async def stop(self) -> None:
        """Let requests end, and stop."""
        self.should_exit = True
        await self.task

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping.set()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield
